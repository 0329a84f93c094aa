"""The sentence for a client whose principal lacks a permission: which one, and what gives it.

A broker answers with a code that says what kind of resource the permission is missing for, and
seldom with more. What the API needs is known here, by Kafka's rules; the resource is the request's.
The command works against any Kafka, for a user who may alter the cluster.

    this client's principal has no permission for READ on the group 'etl'; a user who may alter
    the cluster gives it by `apportion acls add --allow-principal User:NAME --operation Read
    --group etl`
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from apportion.errors import Code
from apportion.readable import listed
from apportion.security.acls import AclOperation, operation_word

READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE
TOPIC, GROUP = Code.TOPIC_AUTHORIZATION_FAILED, Code.GROUP_AUTHORIZATION_FAILED
CLUSTER = Code.CLUSTER_AUTHORIZATION_FAILED
MOST_NAMES = 5
GRANT = "`apportion acls add --allow-principal"
ANYBODY = "User:NAME"


class Resource(NamedTuple):
    """The kind of resource that an error is about: its word, and its option of the command."""

    word: str
    option: str


RESOURCES = {
    TOPIC: Resource("topic", "--topic"),
    GROUP: Resource("group", "--group"),
    CLUSTER: Resource("cluster", "--cluster"),
}
NEEDED: Mapping[str, Mapping[Code, AclOperation]] = {
    "Metadata": {TOPIC: DESCRIBE},
    "Fetch": {TOPIC: READ},
    "ListOffsets": {TOPIC: DESCRIBE},
    "Produce": {TOPIC: AclOperation.WRITE},
    "FindCoordinator": {GROUP: DESCRIBE},
    "ConsumerGroupHeartbeat": {GROUP: READ, TOPIC: DESCRIBE},
    "JoinGroup": {GROUP: READ},
    "SyncGroup": {GROUP: READ},
    "Heartbeat": {GROUP: READ},
    "LeaveGroup": {GROUP: READ},
    "OffsetCommit": {GROUP: READ, TOPIC: READ},
    "OffsetFetch": {GROUP: DESCRIBE, TOPIC: DESCRIBE},
    "OffsetDelete": {GROUP: AclOperation.DELETE, TOPIC: READ},
    "DescribeGroups": {GROUP: DESCRIBE},
    "ConsumerGroupDescribe": {GROUP: DESCRIBE},
    "DeleteGroups": {GROUP: AclOperation.DELETE},
    "CreateTopics": {TOPIC: AclOperation.CREATE},
    "CreatePartitions": {TOPIC: AclOperation.ALTER},
    "DeleteTopics": {TOPIC: AclOperation.DELETE},
    "DescribeConfigs": dict.fromkeys((TOPIC, GROUP, CLUSTER), AclOperation.DESCRIBE_CONFIGS),
    "IncrementalAlterConfigs": dict.fromkeys((TOPIC, GROUP, CLUSTER), AclOperation.ALTER_CONFIGS),
}
"""The operation that an API of our clients needs, by the error without it."""
OF_CONSUMERS = (
    "Metadata",
    "ListOffsets",
    "FindCoordinator",
    "ConsumerGroupHeartbeat",
    "OffsetFetch",
)
"""The APIs for which DESCRIBE is enough, and whose callers mostly need READ for the next one."""


def denial_or_none(api: str, code: Code, names: Sequence[str], said: str = "") -> str | None:
    """Return the sentence for a permission that is missing; None for any other error.

    names: of the topics or groups that the error is about; without them there is no sentence. said:
    the broker's own words, which stay where they begin with the principal.
    """
    operation = NEEDED.get(api, {}).get(code)
    if operation is None or (code is not CLUSTER and not names):
        return None
    given = READ if operation is DESCRIBE and api in OF_CONSUMERS else operation
    # As the broker of apportion begins. Apache Kafka's words repeat the code.
    names_principal = ":" in said.partition(" ")[0]
    words = (
        said.rstrip(".")
        if names_principal
        else f"this client's principal has no permission for {operation.name} on "
        f"{_named(code, names)}"
    )
    what = "it" if given is operation else f"{given.name}, which includes it,"
    # The distinguished name of a certificate may have spaces.
    principal, said_so, _ = said.partition(" has no permission for ")
    whom = principal if names_principal and said_so else ANYBODY
    return f"{words}; {grant(what, given, _options(code, names), whom)}"


def grant(what: str, operation: AclOperation, resources: str, principal: str = ANYBODY) -> str:
    """Return the end of a sentence: who gives a permission, and by which command.

    resources: options of the command.
    """
    return (
        f"a user who may alter the cluster gives {what} by {GRANT} {shlex.quote(principal)} "
        f"--operation {operation_word(operation)} {resources}`"
    )


def grant_on(sentence: str, cluster: str) -> str:
    """Return a sentence whose command for a permission also names the cluster.

    One that does not end in such a command is unchanged. cluster: an option of the command.
    """
    if GRANT not in sentence or not sentence.endswith("`"):
        return sentence
    return f"{sentence.removesuffix('`')} {cluster}`"


def _named(code: Code, names: Sequence[str]) -> str:
    """Return the resources of an error for a sentence."""
    word = RESOURCES[code].word
    if code is CLUSTER:
        return f"the {word}"
    return f"the {word}{'s' if len(names) > 1 else ''} {listed([*map(repr, names)], MOST_NAMES)}"


def _options(code: Code, names: Sequence[str]) -> str:
    """Return the resources of an error as options of the command."""
    option = RESOURCES[code].option
    if code is CLUSTER:
        return option
    return " ".join(f"{option} {shlex.quote(name)}" for name in names[:MOST_NAMES])
