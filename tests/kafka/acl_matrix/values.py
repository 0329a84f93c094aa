"""Grants, what a request needs of them, and the ways to give a user more or less than that.

Both brokers have the topics `mine-here` and `other-here`; `mine-gone` and `other-gone` are not
there. Cases need something of those named `mine-...` alone, so that one request shows all.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from apportion.security.acls import (
    CLUSTER_NAME,
    EVERY_HOST,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from tests.messages import request

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
ALL, READ, WRITE = AclOperation.ALL, AclOperation.READ, AclOperation.WRITE
CREATE, DELETE, ALTER = AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER
DESCRIBE, CLUSTER_ACTION = AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
IDEMPOTENT_WRITE = AclOperation.IDEMPOTENT_WRITE
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
DENY, ALLOW = AclPermission.DENY, AclPermission.ALLOW
KINDS = {TOPIC: "topics", GROUP: "groups", CLUSTER: "the cluster"}
HERE, GONE, OTHER, OTHER_GONE = "mine-here", "mine-gone", "other-here", "other-gone"
TOPICS = (HERE, OTHER, GONE, OTHER_GONE)
MINE, CLASSIC, NOBODY, OTHERS = "mine-group", "mine-classic", "mine-nobody", "other-group"
"""Groups: two of a member of KIP-848, one of a classic member, and one that is not there."""
STRANGE_ID = b"no topic at all!"
NO_ID = bytes(16)


class Grant(NamedTuple):
    """One ACL of a user; its principal is the user's."""

    kind: ResourceType
    name: str
    operation: AclOperation
    pattern: PatternType = LITERAL
    permission: AclPermission = ALLOW
    host: str = EVERY_HOST

    def of(self, user: str) -> AclBinding:
        """The ACL by which the user has it."""
        return AclBinding(
            *(self.kind, self.name, self.pattern, f"User:{user}", self.host),
            *(self.operation, self.permission),
        )


class Need(NamedTuple):
    """An operation on a resource; `{token}` in the name is the case's own."""

    kind: ResourceType
    name: str
    operation: AclOperation


class Scene(Protocol):
    """What a case's request is made from."""

    token: str

    def topic_id(self, name: str) -> bytes:
        """The id of a topic on this broker."""
        ...


Make = Callable[[Scene], Any]
"""What makes a request."""


@dataclass(frozen=True, slots=True)
class Case:
    """One request in one version, and the least that it needs.

    topics: those that are made for each way of the case, with `{token}` in their names. after: what
    a super user sends then, to undo it.
    """

    name: str
    version: int
    request: Make
    needs: tuple[Need, ...]
    topics: tuple[str, ...] = ()
    after: Make | None = None


class Id(NamedTuple):
    """Stands for the id of the topic of this name."""

    name: str


def made(api: str, **fields: Any) -> Make:
    """A request as plain values; the scene has the `{token}` in its texts and the ids of topics."""
    return lambda scene: request(api, **_in_scene(fields, scene))


def _in_scene(value: Any, scene: Scene) -> Any:
    if isinstance(value, Id):
        return scene.topic_id(_in_scene(value.name, scene))
    if isinstance(value, str):
        return value.replace("{token}", scene.token)
    if isinstance(value, dict):
        return {name: _in_scene(each, scene) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_in_scene(each, scene) for each in value]
    return value


def cases(
    name: str, versions: int | tuple[int, ...], asked: Make, *needs: Need, **facts: Any
) -> list[Case]:
    """The request in each of these versions."""
    numbers = versions if isinstance(versions, tuple) else (versions,)
    return [Case(name, version, asked, needs, **facts) for version in numbers]


def topics(operation: AclOperation, *names: str) -> tuple[Need, ...]:
    """The operation on these topics, by default on the two that are the user's."""
    return tuple(Need(TOPIC, name, operation) for name in names or (HERE, GONE))


def on_cluster(operation: AclOperation) -> Need:
    return Need(CLUSTER, CLUSTER_NAME, operation)


def literal(need: Need, **facts: Any) -> Grant:
    """Just what is needed."""
    return Grant(need.kind, need.name, need.operation, **facts)


def ways(needs: tuple[Need, ...]) -> Iterator[tuple[str, tuple[Grant, ...]]]:
    """How a user is given what a case needs, or is not, each by a name."""
    enough = tuple(literal(need) for need in needs)
    yield "nothing", ()
    if not needs:
        return
    yield "needed", enough
    kinds = list(dict.fromkeys((need.kind, need.operation) for need in needs))
    for kind, operation in kinds:
        named = f"{operation.name} on {KINDS[kind]}"
        these = [need for need in needs if (need.kind, need.operation) == (kind, operation)]
        if len(kinds) > 1:
            yield f"all but {named}", tuple(each for each in enough if each[:3] not in these)
        denials = tuple(literal(need, permission=DENY) for need in these)
        yield f"needed, {named} denied", enough + denials
    yield (
        "DESCRIBE alone",
        tuple(dict.fromkeys(Grant(need.kind, need.name, DESCRIBE) for need in needs)),
    )
    yield (
        "DESCRIBE denied",
        enough
        + tuple(
            dict.fromkeys(Grant(need.kind, need.name, DESCRIBE, permission=DENY) for need in needs)
        ),
    )
    yield "ALL", tuple(dict.fromkeys(Grant(need.kind, need.name, ALL) for need in needs))
    yield "of another host", tuple(literal(need, host="10.1.2.3") for need in needs)
    named_needs = [need for need in needs if need.kind != CLUSTER]
    if named_needs:
        rest = tuple(literal(need) for need in needs if need.kind == CLUSTER)
        prefixed = tuple(
            dict.fromkeys(
                Grant(need.kind, f"{need.name.partition('-')[0]}-", need.operation, PREFIXED)
                for need in named_needs
            )
        )
        yield "prefixed", rest + prefixed
        yield (
            "needed, denied by prefix",
            enough + tuple(each._replace(permission=DENY) for each in prefixed),
        )
        wildcard = tuple(
            dict.fromkeys(Grant(need.kind, "*", need.operation) for need in named_needs)
        )
        yield "wildcard", rest + wildcard
        yield (
            "wildcard, denied by name",
            rest + wildcard + tuple(literal(need, permission=DENY) for need in named_needs),
        )
