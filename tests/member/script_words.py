"""What a group member sends and says, as words for its scripts: every field, in Kafka's names.

A field is left out where it has its ordinary value: the default of its declaration, or what stands
in `ORDINARY`. So a new field shows itself in the scripts as soon as a member fills it.
"""

import dataclasses
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

from apportion.assign.by_name import Given, Subscription, TopicParts
from apportion.machine import Note
from apportion.member.assignors.serde import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from apportion.member.membership import (
    Failed,
    FetchMetadata,
    FindCoordinator,
    Lost,
    Offer,
    QueryCluster,
    RunAssignor,
    SendToCoordinator,
    View,
)
from apportion.topics import IdPartition
from apportion.wire.messages.consumer_group_heartbeat import TopicPartitions
from apportion.wire.messages.consumer_group_install_assignment import (
    InstalledMember,
    InstalledPartitions,
)
from apportion.wire.messages.join_group import JoinGroupRequestProtocol
from apportion.wire.messages.sync_group import SyncGroupRequestAssignment
from tests.member.script_streams import metadata_words_or_none

OF_ALL: dict[str, Any] = {"group_id": "g", "member_id": "m", "incarnation": 1}
ORDINARY: dict[str, dict[str, Any]] = {
    "JoinGroup": {
        "protocol_type": "consumer",
        "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 60_000,
    },
    "SyncGroup": {"protocol_type": "consumer"},
    "LeaveGroup": {"member_id": ""},  # of versions without a list of members
    "View": {"target": None, "last_accepted_ms": None, "error": None},
}
COMPUTATIONS = ("ConsumerGroupPrepareAssignment", "ConsumerGroupInstallAssignment")
TIMEOUTS_MS = {"JoinGroup": 65_000, "SyncGroup": 65_000} | dict.fromkeys(COMPUTATIONS, 30_000)
TIMEOUT_MS = 5_000  # of all other requests


def api_of(request: Any) -> str:
    """The name of a request's API."""
    return type(request).__name__.removesuffix("Request")


def action_words(action: Any) -> str:
    """One action of a member as a line."""
    match action:
        case SendToCoordinator(request_id, request, timeout_ms):
            api = api_of(request)
            patience = TIMEOUTS_MS.get(api, TIMEOUT_MS)
            limit = "" if timeout_ms == patience else f" timeout_ms={timeout_ms}"
            return f"{request_id} {joined(api, *fields(request, api))}{limit}"
        case FindCoordinator(request_id):
            found = fields(action, without=("request_id",))
            return f"{request_id} {joined('FindCoordinator', *found)}"
        case RunAssignor(request_id, run):
            cluster = ",".join(f"{name}:{topic.partitions}" for name, topic in run.cluster.items())
            members = ",".join(
                f"{member}({subscription_words(each)})" for member, each in run.members.items()
            )
            return f"{request_id} run {run.assignor.name} {cluster} {members}"
        case QueryCluster(request_id, query):
            return f"{request_id} query {query}"
        case FetchMetadata(request_id):
            return f"{request_id} {joined('Metadata', *fields(action, without=('request_id',)))}"
        case Offer() | Lost():
            return joined(type(action).__name__, *fields(action))
        case Failed():
            return f"Failed {unlined(str(action))}"
        case Note(level, text, hint):
            return f"{level}: {unlined(text)}" + (f" |{hint}" if hint else "")
    return joined(type(action).__name__, *fields(action))


def unlined(text: str) -> str:
    """The text without the number of the line in which an assignor failed."""
    return re.sub(r"(\(\w+\.py):\d+\)", r"\1)", text)


def view_words(view: View, wake_ms: int | None) -> str:
    """The snapshot of a member, and when it next needs a tick."""
    due = "no tick" if wake_ms is None else f"tick at {wake_ms}"
    return joined(view.state.name, *fields(view, "View", without=("state",)), due)


def joined(*parts: str) -> str:
    return " ".join(parts)


def fields(value: Any, api: str = "", without: tuple[str, ...] = ()) -> Iterator[str]:
    """The fields of a message or of a dataclass that are not ordinary, as `name=value`."""
    ordinary = OF_ALL | ORDINARY.get(api, {}) if api or dataclasses.is_dataclass(value) else {}
    for name, default in declared(value):
        content = getattr(value, name)
        if name not in without and content != ordinary.get(name, default):
            yield f"{name}={words(content)}"


def declared(value: Any) -> Iterator[tuple[str, Any]]:
    """The name and the default of each field."""
    if dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            is_listed = str(each.type).startswith(("MemberAssignment", "tuple"))
            default = () if each.default is dataclasses.MISSING and is_listed else each.default
            yield each.name, default
    else:
        for field in value.__fields__:
            yield field.name, field.default


def words(value: Any) -> str:
    """A value in one word; a text with spaces in quotes."""
    match value:
        case None | bool():
            return "null" if value is None else str(value).lower()
        case Enum():
            return value.name
        case str():
            return value if re.fullmatch(r"[\w.*'-]+", value) else f'"{value}"'
        case bytes() | memoryview():
            return data_words(bytes(value))
        case IdPartition(topic_id, number):
            return f"{chr(topic_id[0])}-{number}"
        case TopicPartitions(topic_id=topic_id) | InstalledPartitions(topic_id=topic_id):
            return ",".join(words(IdPartition(topic_id, each)) for each in value.partitions)
        case TopicParts(topic, numbers):
            return ",".join(f"{topic}-{number}" for number in numbers)
        case JoinGroupRequestProtocol():
            subscription = decode_subscription(value.metadata)
            assert encode_subscription(subscription) == value.metadata, "of an older version"
            return f"{value.name}({subscription_words(subscription)})"
        case InstalledMember():
            held = ",".join(map(words, value.topic_partitions))
            parts = [held] if held else []
            others = fields(value, without=("member_id", "topic_partitions"))
            return f"{value.member_id}({';'.join([*parts, *others])})"
        case SyncGroupRequestAssignment():
            assigned = decode_assignment(value.assignment)
            assert encode_assignment(assigned) == value.assignment, "of an older version"
            return f"{value.member_id}({given_words(assigned)})"
        case tuple():
            return ",".join(map(words, value))
        case int() | float():
            return str(value)
        case Failed():
            return f'"{unlined(str(value))}"'
    if dataclasses.is_dataclass(value) or hasattr(value, "__fields__"):
        return f"({' '.join(fields(value))})"
    return repr(value)


def data_words(data: bytes) -> str:
    """Bytes as a text where they are one."""
    if len(data) == 16 and len(set(data)) == 1:
        return chr(data[0])  # the id of a topic
    if data and re.fullmatch(rb"[ -~]+", data):
        return words(data.decode())
    return metadata_words_or_none(data) or f"0x{data.hex()}"


def subscription_words(subscription: Subscription) -> str:
    """A subscription as `t,u;owned=t-0;generation=3`."""
    rest = dataclasses.replace(subscription, topics=())
    return ";".join([",".join(subscription.topics), *fields(rest)])


def given_words(given: Given) -> str:
    """An assignment as `t-0,t-1;user_data=0x00`."""
    return ";".join([words(given.partitions), *fields(dataclasses.replace(given, partitions=()))])
