"""The ACLs that `apportion acls add` and `remove` are told of: principals, hosts and operations.

What `--producer` and `--consumer` stand for is what they stand for in kafka-acls.
"""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from types import MappingProxyType
from typing import NamedTuple

from apportion.cli.acls.resources import (
    OPERATIONS,
    OPTIONS,
    ResourcePattern,
    parse_operations,
)
from apportion.cli.failures import WrongArguments
from apportion.security.acls import (
    CLUSTER_NAME,
    EVERY_HOST,
    EVERY_NAME,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
    host_in_acls,
    operation_word,
)

Role = Mapping[ResourceType, tuple[AclOperation, ...]]
"""The operations that a kind of program needs, by the type of the resource."""
PRODUCER: Role = MappingProxyType(
    {
        ResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
        ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
    }
)
CONSUMER: Role = MappingProxyType(
    {
        ResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
        ResourceType.GROUP: (AclOperation.READ,),
    }
)
IDEMPOTENT = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
USER = "User"
"""The type of every principal that brokers themselves give."""


class Entry(NamedTuple):
    """A principal that is allowed or denied, and from where."""

    principal: str
    host: str
    permission: AclPermission


class TypedEntries(NamedTuple):
    """The options that say who may do what, as they were typed."""

    allowed: Sequence[str] | None = None
    allowed_hosts: Sequence[str] | None = None
    denied: Sequence[str] | None = None
    denied_hosts: Sequence[str] | None = None
    operations: Sequence[str] | None = None
    is_producer: bool = False
    is_consumer: bool = False
    is_idempotent: bool = False

    @property
    def is_given(self) -> bool:
        """Return whether any of these options was typed."""
        return any(self)


def acl_filters(
    typed: TypedEntries, resources: tuple[ResourcePattern, ...]
) -> tuple[AclFilter, ...]:
    """Return filters of just the ACLs that were typed; resources of no own pattern stay filters.

    Raises WrongArguments.
    """
    entries = _entries(typed)
    chosen = _operations(typed, resources)
    return tuple(
        dict.fromkeys(
            AclFilter(*resource, entry.principal, entry.host, operation, entry.permission)
            for resource, operations in chosen.items()
            for entry in entries
            for operation in operations
        )
    )


def acl_bindings(
    typed: TypedEntries, resources: tuple[ResourcePattern, ...]
) -> tuple[AclBinding, ...]:
    """Return the ACLs that were typed, of resources that have an own pattern.

    Raises WrongArguments, also for operations that there are not for a resource, and for what
    brokers take and nothing matches: an ACL that denies would deny nobody.
    """
    found = acl_filters(typed, resources)
    _check_topics(resources)
    _check_callers("allow", typed.allowed or (), typed.allowed_hosts or ())
    _check_callers("deny", typed.denied or (), typed.denied_hosts or ())
    for each in found:
        operations = OPERATIONS[each.resource_type]
        if each.operation not in operations:
            raise WrongArguments(
                f"there is no {operation_word(each.operation)} for "
                f"{OPTIONS[each.resource_type]}: give one of "
                f"{', '.join(map(operation_word, operations))}"
            )
    return tuple(
        AclBinding(
            each.resource_type,
            each.name or "",
            each.pattern_type,
            each.principal or "",
            each.host or "",
            each.operation,
            each.permission,
        )
        for each in found
    )


def check_principal(option: str, principal: str) -> None:
    """Raise WrongArguments for a principal without its type."""
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        hint = f": write User:{principal}" if principal and not colon else ", as User:alice is"
        raise WrongArguments(f"{option} has {principal!r}, which is no principal{hint}")


def _check_topics(resources: Iterable[ResourcePattern]) -> None:
    """Raise WrongArguments for a * as it stands in other programs, amid the names of topics."""
    for kind, name, pattern in resources:
        is_every_topic = (name, pattern) == (EVERY_NAME, PatternType.LITERAL)
        if kind == ResourceType.TOPIC and "*" in (name or "") and not is_every_topic:
            raise WrongArguments(
                f"--topic has {name!r}, and no topic has a * in its name: give how the names "
                "begin, with --resource-pattern-type prefixed"
            )


def _check_callers(what: str, principals: Iterable[str], hosts: Iterable[str]) -> None:
    """Raise WrongArguments for principals and hosts that no client has as brokers compare them."""
    for principal in principals:
        kind, _, name = principal.partition(":")
        if kind != USER and kind.lower() == USER.lower():
            raise WrongArguments(
                f"--{what}-principal has {principal!r}, which nobody is: write {USER}:{name}"
            )
    for host in hosts:
        if host == EVERY_HOST:
            continue
        try:
            ip_address(host)
        except ValueError:
            raise WrongArguments(
                f"--{what}-host has {host!r}, which is no address: brokers know no names of "
                "machines, and no masks"
            ) from None
        if host_in_acls(host) != host:
            raise WrongArguments(
                f"--{what}-host has {host!r}, which no client has: brokers write it "
                f"{host_in_acls(host)}"
            )


def _entries(typed: TypedEntries) -> list[Entry]:
    """Return who is allowed and denied; raise WrongArguments if it is nobody."""
    if not typed.allowed and not typed.denied:
        raise WrongArguments("say whom: --allow-principal User:NAME or --deny-principal User:NAME")
    return [
        *_by_host("allow", AclPermission.ALLOW, typed.allowed, typed.allowed_hosts),
        *_by_host("deny", AclPermission.DENY, typed.denied, typed.denied_hosts),
    ]


def _by_host(
    what: str,
    permission: AclPermission,
    principals: Sequence[str] | None,
    hosts: Sequence[str] | None,
) -> list[Entry]:
    found = []
    for principal in principals or ():
        check_principal(f"--{what}-principal", principal)
        found += [Entry(principal, host, permission) for host in hosts or (EVERY_HOST,)]
    if hosts and not found:
        raise WrongArguments(f"--{what}-host needs --{what}-principal")
    return found


def _operations(
    typed: TypedEntries, resources: tuple[ResourcePattern, ...]
) -> dict[ResourcePattern, tuple[AclOperation, ...]]:
    """Return the operations on each resource; raise WrongArguments for what does not fit."""
    if not resources:
        raise WrongArguments(f"say on what: {', '.join(OPTIONS.values())}")
    if typed.is_idempotent and not typed.is_producer:
        raise WrongArguments("--idempotent needs --producer")
    if not typed.is_producer and not typed.is_consumer:
        operations = parse_operations(typed.operations or ()) or (AclOperation.ALL,)
        return dict.fromkeys(resources, operations)
    name = "--producer" if typed.is_producer else "--consumer"
    if typed.operations or typed.denied:
        option = "--operation" if typed.operations else "--deny-principal"
        raise WrongArguments(f"{name} says the operations, and allows them: leave {option} out")
    roles = [
        *([PRODUCER] if typed.is_producer else []),
        *([CONSUMER] if typed.is_consumer else []),
    ]
    _require_resources(typed, {each.resource_type for each in resources}, roles)
    chosen = {
        resource: tuple(
            dict.fromkeys(
                operation for role in roles for operation in role.get(resource.resource_type, ())
            )
        )
        for resource in resources
    }
    return chosen | ({IDEMPOTENT: (AclOperation.IDEMPOTENT_WRITE,)} if typed.is_idempotent else {})


def _require_resources(
    typed: TypedEntries, given: Iterable[ResourceType], roles: Iterable[Role]
) -> None:
    """Raise WrongArguments for a resource that is missing, and for one that is of no use."""
    if ResourceType.TOPIC not in given:
        raise WrongArguments(
            f"--{'producer' if typed.is_producer else 'consumer'} needs --topic TOPIC"
        )
    if typed.is_consumer and ResourceType.GROUP not in given:
        raise WrongArguments("--consumer needs --group GROUP")
    for kind in sorted(given):
        if not any(kind in role for role in roles):
            names = [
                *(["--producer"] if typed.is_producer else []),
                *(["--consumer"] if typed.is_consumer else []),
            ]
            raise WrongArguments(
                f"{' and '.join(names)} allows nothing on {OPTIONS[kind]}: leave it out"
            )
