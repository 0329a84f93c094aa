"""Decisions who may do what, by ACLs and super users: the rules of Kafka's StandardAuthorizer.

`Acls` is an immutable index of ACLs; `Authorizer` decides by one. Denial wins: an operation is
allowed if an ACL allows it and none denies it. With `allow.everyone.if.no.acl.found` it is also
allowed if no ACL is about the resource, for any principal.

The problem: thousands of ACLs, and a decision for each topic of each request. A resource falls
under the literal ACLs of its name, those of `*`, and those of each beginning of its name. So ACLs
are found by type, pattern and name, then by principal; of the beginnings, only those with a length
that some prefixed ACL of that type has are looked up.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from apportion.security.acls import (
    EVERY_HOST,
    EVERY_NAME,
    EVERY_PRINCIPAL,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)

Pattern = tuple[ResourceType, PatternType, str]
Entries = Mapping[str, tuple[AclBinding, ...]]
"""The ACLs of one pattern by principal; never empty."""

OPERATIONS: dict[ResourceType, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that there are on a resource of which clients may ask what they are allowed."""

NOBODYS_NAME = "hardcode"
"""The name by which Kafka asks what holds for a resource of no particular name."""


class Acls:
    """An immutable collection of distinct ACLs, in which those about a resource are found fast."""

    __slots__ = ("_patterns", "_prefixes")

    def __init__(self, acls: Iterable[AclBinding] = ()) -> None:
        self._patterns: dict[Pattern, Entries] = {}
        # how many prefixed patterns of a type have a name of this length
        self._prefixes: dict[ResourceType, dict[int, int]] = {}
        self._change(acls, ())

    def changed(
        self, added: Iterable[AclBinding] = (), removed: Iterable[AclBinding] = ()
    ) -> "Acls":
        """Return a collection without `removed`, and with `added`."""
        # Copies what points to the ACLs, not what is in each pattern: with thousands of them, one
        # more costs microseconds.
        other = Acls()
        other._patterns = dict(self._patterns)
        other._prefixes = {kind: dict(lengths) for kind, lengths in self._prefixes.items()}
        other._change(added, removed)
        return other

    def __iter__(self) -> Iterator[AclBinding]:
        """Return all ACLs, those of one pattern in a row."""
        for entries in self._patterns.values():
            for acls in entries.values():
                yield from acls

    def __contains__(self, acl: AclBinding) -> bool:
        """Return whether just this ACL is there."""
        return acl in self._patterns.get(_pattern(acl), {}).get(acl.principal, ())

    def __eq__(self, other: object) -> bool:
        """Return whether the other has the same ACLs, in whichever order."""
        return isinstance(other, Acls) and sorted(self) == sorted(other)

    __hash__ = None  # type: ignore[assignment]

    def matching(self, wanted: AclFilter) -> list[AclBinding]:
        """Return the ACLs that match the filter, in order."""
        return sorted(acl for acl in self if wanted.matches(acl))

    def about(self, resource: ResourceType, name: str) -> Iterator[Entries]:
        """Yield the ACLs that a resource falls under, by pattern."""
        for literal in (name,) if name == EVERY_NAME else (name, EVERY_NAME):
            entries = self._patterns.get((resource, PatternType.LITERAL, literal))
            if entries is not None:
                yield entries
        for length in self._prefixes.get(resource, ()):
            if length <= len(name):
                entries = self._patterns.get((resource, PatternType.PREFIXED, name[:length]))
                if entries is not None:
                    yield entries

    def for_principal(self, resource: ResourceType, principal: str) -> Iterator[AclBinding]:
        """Yield the ACLs about resources of a type that hold for the principal."""
        for (kind, _, _), entries in self._patterns.items():
            if kind == resource:
                for who in _names_of(principal):
                    yield from entries.get(who, ())

    def _change(self, added: Iterable[AclBinding], removed: Iterable[AclBinding]) -> None:
        """Remove and add ACLs while nobody else knows this collection."""
        fresh: dict[Pattern, dict[str, tuple[AclBinding, ...]]] = {}
        for acls, is_added in ((removed, False), (added, True)):
            for acl in acls:
                pattern = _pattern(acl)
                if pattern not in fresh:
                    fresh[pattern] = dict(self._patterns.get(pattern, {}))
                entries = fresh[pattern]
                others = tuple(each for each in entries.get(acl.principal, ()) if each != acl)
                if is_added:
                    others += (acl,)
                if others:
                    entries[acl.principal] = others
                else:
                    entries.pop(acl.principal, None)
        for pattern, entries in fresh.items():
            was_there = pattern in self._patterns
            if entries:
                self._patterns[pattern] = entries
            else:
                self._patterns.pop(pattern, None)
            self._count_prefix(pattern, bool(entries) - was_there)

    def _count_prefix(self, pattern: Pattern, change: int) -> None:
        """Count a pattern that came (1) or went (-1), if it is a prefixed one."""
        kind, pattern_type, name = pattern
        if pattern_type == PatternType.PREFIXED and change:
            lengths = self._prefixes.setdefault(kind, {})
            lengths[len(name)] = lengths.get(len(name), 0) + change
            if not lengths[len(name)]:
                del lengths[len(name)]


@dataclass(frozen=True, slots=True)
class Authorizer:
    """Decides by ACLs, and for super users without them.

    super_users: principals, as `User:alice`. allows_without_acls: what holds for a resource that no
    ACL is about.
    """

    acls: Acls = field(default_factory=Acls)
    super_users: tuple[str, ...] = ()
    allows_without_acls: bool = False

    def allows(
        self, principal: str, host: str, operation: AclOperation, resource: ResourceType, name: str
    ) -> bool:
        """Return whether the principal may do this to the resource, from this host.

        host: as ACLs have it (`host_in_acls`).
        """
        if principal in self.super_users:
            return True
        is_allowed, has_acls = False, False
        for entries in self.acls.about(resource, name):
            has_acls = True
            for who in _names_of(principal):
                for acl in entries.get(who, ()):
                    if acl.host in (host, EVERY_HOST) and acl.concerns(operation):
                        if acl.permission == AclPermission.DENY:
                            return False
                        is_allowed = True
        return is_allowed or (self.allows_without_acls and not has_acls)

    def allows_any(
        self, principal: str, host: str, operation: AclOperation, resource: ResourceType
    ) -> bool:
        """Return whether there is a resource of the type to which the principal may do this.

        It need not exist: an ACL that allows counts, unless another denies all that it allows
        (KIP-679). Here no operation implies another.
        """
        if self.allows(principal, host, operation, resource, NOBODYS_NAME):
            return True
        decisive = [
            acl
            for acl in self.acls.for_principal(resource, principal)
            if acl.host in (host, EVERY_HOST) and acl.operation in (operation, AclOperation.ALL)
        ]
        denied = {
            (acl.pattern_type, acl.name): None
            for acl in decisive
            if acl.permission == AclPermission.DENY
        }
        if (PatternType.LITERAL, EVERY_NAME) in denied:
            return False
        return any(
            acl.permission == AclPermission.ALLOW and not _is_denied(acl, denied)
            for acl in decisive
        )

    def authorized_operations(
        self, principal: str, host: str, resource: ResourceType, name: str
    ) -> int:
        """Return what the principal may do to a topic, a group or the cluster, as a bit field.

        Bit 3 stands for operation 3 (KIP-430).
        """
        return _bit_field(
            operation
            for operation in OPERATIONS[resource]
            if self.allows(principal, host, operation, resource, name)
        )


def every_operation(resource: ResourceType) -> int:
    """Return all that there is to do to a topic, a group or the cluster, as a bit field."""
    return _bit_field(OPERATIONS[resource])


def _bit_field(operations: Iterable[AclOperation]) -> int:
    return sum(1 << operation for operation in operations)


def _is_denied(acl: AclBinding, denied: Mapping[tuple[PatternType, str], None]) -> bool:
    """Return whether all that the ACL allows is denied by these patterns."""
    is_every = acl.pattern_type == PatternType.LITERAL and acl.name == EVERY_NAME
    if is_every:
        return False
    if acl.pattern_type == PatternType.LITERAL and (PatternType.LITERAL, acl.name) in denied:
        return True
    return any(
        (PatternType.PREFIXED, acl.name[:length]) in denied
        for length in range(1, len(acl.name) + 1)
    )


def _pattern(acl: AclBinding) -> Pattern:
    return acl.resource_type, acl.pattern_type, acl.name


def _names_of(principal: str) -> tuple[str, ...]:
    """Return the principals of ACLs that hold for this one."""
    return (principal,) if principal == EVERY_PRINCIPAL else (principal, EVERY_PRINCIPAL)
