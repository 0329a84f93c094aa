"""The resources that `apportion acls` is told of, and the operations on each type of them."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from apportion.cli.failures import WrongArguments
from apportion.security import authorizer
from apportion.security.acls import (
    CLUSTER_NAME,
    AclOperation,
    PatternType,
    ResourceType,
    operation_word,
)
from apportion.settings import nearest_or_none

LITERAL = "literal"
OWN_PATTERNS = (LITERAL, "prefixed")
PATTERNS = (*OWN_PATTERNS, "match", "any")
"""The words of `--resource-pattern-type`; the last two only choose among ACLs."""
OPTIONS: Mapping[ResourceType, str] = MappingProxyType(
    {
        ResourceType.TOPIC: "--topic",
        ResourceType.GROUP: "--group",
        ResourceType.CLUSTER: "--cluster",
        ResourceType.TRANSACTIONAL_ID: "--transactional-id",
        ResourceType.DELEGATION_TOKEN: "--delegation-token",
        ResourceType.USER: "--user-principal",
    }
)
"""The option that names a resource of each type."""
OPERATIONS: Mapping[ResourceType, tuple[AclOperation, ...]] = MappingProxyType(
    {
        kind: (*operations, AclOperation.ALL)
        for kind, operations in {
            **authorizer.OPERATIONS,
            ResourceType.TRANSACTIONAL_ID: (
                AclOperation.WRITE,
                AclOperation.DESCRIBE,
                AclOperation.TWO_PHASE_COMMIT,
            ),
            ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
            ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
        }.items()
    }
)
"""The operations that an ACL of each type of resource can be about, as in kafka-acls."""


class ResourcePattern(NamedTuple):
    """The resources of an ACL, or a choice of resources: all are of type ANY and have no name."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY


class TypedResources(NamedTuple):
    """The options that name resources, as they were typed. pattern: one word of PATTERNS."""

    topics: Sequence[str] | None = None
    groups: Sequence[str] | None = None
    transactional_ids: Sequence[str] | None = None
    delegation_tokens: Sequence[str] | None = None
    user_principals: Sequence[str] | None = None
    is_cluster: bool = False
    pattern: str = LITERAL

    def patterns(self, allowed: tuple[str, ...]) -> tuple[ResourcePattern, ...]:
        """Return what was named, each once; raise WrongArguments for a pattern not allowed."""
        word = self.pattern.lower()
        if word not in allowed:
            more = " when ACLs are added" if word in PATTERNS else ""
            raise WrongArguments(
                f"--resource-pattern-type must be one of {', '.join(allowed)}{more}, not "
                f"{self.pattern!r}"
            )
        by_type = {
            ResourceType.TOPIC: self.topics,
            ResourceType.GROUP: self.groups,
            ResourceType.TRANSACTIONAL_ID: self.transactional_ids,
            ResourceType.DELEGATION_TOKEN: self.delegation_tokens,
            ResourceType.USER: self.user_principals,
        }
        for kind, names in by_type.items():
            if "" in (names or ()):
                raise WrongArguments(f"{OPTIONS[kind]} needs a name; '*' is every name")
        cluster = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
        named = [
            ResourcePattern(kind, name, PatternType[word.upper()])
            for kind, names in by_type.items()
            for name in names or ()
        ]
        return tuple(dict.fromkeys([*named, *([cluster] if self.is_cluster else [])]))


def parse_operations(texts: Iterable[str]) -> tuple[AclOperation, ...]:
    """Return the operations that were typed, in any case and as one or several words.

    Raises WrongArguments.
    """
    known = {_bare(each.name): each for kind in OPERATIONS.values() for each in kind}
    found = []
    for text in texts:
        operation = known.get(_bare(text))
        if operation is None:
            near = nearest_or_none(_bare(text), known)
            names = sorted({operation_word(each) for each in known.values()})
            hint = f"did you mean {operation_word(known[near])}?" if near else ", ".join(names)
            raise WrongArguments(f"--operation has {text!r}, which is none: {hint}")
        found.append(operation)
    return tuple(dict.fromkeys(found))


def _bare(text: str) -> str:
    return text.replace("_", "").replace("-", "").lower()
