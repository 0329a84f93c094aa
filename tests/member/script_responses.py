"""What a coordinator answers to a member of the scripts: messages from words."""

import re
from collections.abc import Iterable
from typing import Any

from apportion.assign.by_name import Given, Subscription, by_topic
from apportion.errors import Code
from apportion.member.assignors.serde import encode_assignment, encode_subscription
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.member.membership import to_id_parts
from apportion.topics import IdPartition
from apportion.wire.messages.consumer_group_heartbeat import (
    Assignment,
    AssignorVersion,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentResponse,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    AssignableMember,
    AssignablePartition,
    AssignableTopic,
    AssignorMetadata,
    ConsumerGroupPrepareAssignmentResponse,
    TargetPartitions,
)
from apportion.wire.messages.heartbeat import HeartbeatResponse
from apportion.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from apportion.wire.messages.leave_group import LeaveGroupResponse, MemberResponse
from apportion.wire.messages.sync_group import SyncGroupResponse
from tests.member.script_streams import process_data, tasks_data

T = b"T" * 16
OF_ASSIGNORS = ("error", "metadata", "metadata_version")
"""Fields of the assignment in a heartbeat's response."""
OF_TASKS = ("active", "standby", "warmup", "topology")
"""What the metadata in it consist of for a Streams member."""
RESPONSES: dict[str, Any] = {
    each.__name__.removesuffix("Response"): each
    for each in (
        ConsumerGroupHeartbeatResponse,
        JoinGroupResponse,
        SyncGroupResponse,
        HeartbeatResponse,
        LeaveGroupResponse,
        ConsumerGroupPrepareAssignmentResponse,
        ConsumerGroupInstallAssignmentResponse,
    )
}


def response(api: str, words: list[str], assignor: str) -> Any:
    """The response with these fields, or with an error."""
    codes = [Code[word] for word in words if "=" not in word]
    said = dict(pairs(words))
    if codes:
        return RESPONSES[api](error_code=codes[0], **said)
    values: dict[str, Any] = {name: read(value) for name, value in said.items()}
    match api:
        case "ConsumerGroupHeartbeat":
            values = {"member_id": "m", "heartbeat_interval_ms": 1_000} | values
            if "assignment" in said:
                held = by_id(said["assignment"].split(","))
                told: dict[str, Any] = {
                    name: values.pop(name) for name in OF_ASSIGNORS if name in values
                }
                if "metadata" in told:
                    told["metadata"] = data(said["metadata"])
                tasks = {
                    name: said[name] for name in OF_TASKS if values.pop(name, None) is not None
                }
                if tasks:
                    told["metadata"] = tasks_data(tasks)
                values["assignment"] = Assignment(topic_partitions=to_id_parts(held), **told)
            if "requested_version" in said:
                name, _, version = said["requested_version"].partition(":")
                values["requested_version"] = AssignorVersion(name=name, version=int(version))
        case "ConsumerGroupPrepareAssignment":
            values["members"] = tuple(
                assignable(member, content) for member, content in in_brackets(said["members"])
            )
            count = values.pop("partitions", 3)
            numbered = tuple(AssignablePartition(partition=number) for number in range(count))
            values["topics"] = (AssignableTopic(topic_id=T, topic_name="t", partitions=numbered),)
            values = {"assignor_name": assignor} | values
        case "JoinGroup":
            usual = {"member_id": "m", "leader": "a", "protocol_name": assignor}
            values = {"protocol_type": "consumer"} | usual | values
            values["members"] = tuple(
                JoinGroupResponseMember(member_id=member, metadata=metadata)
                for member, metadata in subscriptions(said.get("members", ""))
            )
        case "SyncGroup":
            values["assignment"] = assigned_bytes(said["assignment"])
        case "LeaveGroup":
            if "error_code" in said:
                values["error_code"] = Code[said["error_code"]]
            return LeaveGroupResponse(members=(MemberResponse(**values),) if values else ())
    return RESPONSES[api](**values)


def pairs(words: Iterable[str]) -> list[tuple[str, str]]:
    """The words `name=value`."""
    return [(name, value) for name, is_pair, value in (w.partition("=") for w in words) if is_pair]


def read(value: str) -> Any:
    """A number, a yes or no, or a text."""
    if re.fullmatch(r"-?\d+", value):
        return int(value)
    return {"true": True, "false": False, "null": None}.get(value, value)


def by_id(words: Iterable[str]) -> tuple[IdPartition, ...]:
    """T-0 as a partition of the topic with the id T."""
    split = [word.partition("-") for word in words if word]
    return tuple(IdPartition(letter.encode() * 16, int(number)) for letter, _, number in split)


def by_name(words: Iterable[str]) -> Any:
    """t-0 as a partition of the topic t."""
    split = [word.lower().partition("-") for word in words if word]
    return by_topic((topic, int(number)) for topic, _, number in split)


def description(word: str) -> TopicDescription:
    """t:3 as a topic with three partitions, and with the id T unless another follows."""
    name, partitions, *letters = word.split(":")
    letter = letters[0] if letters else name.upper()
    return TopicDescription(name, letter.encode() * 16, int(partitions))


def assigned_bytes(word: str) -> bytes:
    """The assignment in a SyncGroup response."""
    if word.startswith("0x"):
        return bytes.fromhex(word[2:])
    return encode_assignment(Given(by_name(word.split(","))))


def data(word: str | bytes) -> bytes:
    """0x00 or a text as bytes."""
    if isinstance(word, bytes):
        return word
    return bytes.fromhex(word[2:]) if word.startswith("0x") else word.encode()


def in_brackets(word: str) -> list[tuple[str, str]]:
    """m(...),n(...) as members and what stands in their brackets."""
    return re.findall(r"([^,()]+)\(([^)]*)\)", word)


def subscriptions(word: str) -> list[tuple[str, bytes]]:
    """m(t),n(t,u;owned=t-0;generation=3) as members and the bytes that they have sent."""
    found = []
    for member, content in in_brackets(word):
        topics, *rest = content.split(";")
        if topics.startswith("0x"):
            found.append((member, bytes.fromhex(topics[2:])))
            continue
        said: dict[str, Any] = {name: read(value) for name, value in pairs(rest)}
        if "owned" in said:
            said["owned"] = by_name(said["owned"].split(","))
        found.append((member, encode_subscription(Subscription(tuple(topics.split(",")), **said))))
    return found


def given(content: str) -> Given:
    """t-0,t-1;error=5 as an assignment."""
    parts, *rest = content.split(";")
    said: dict[str, Any] = {name: read(value) for name, value in pairs(rest)}
    if "user_data" in said:
        said["user_data"] = data(said["user_data"])
    return Given(by_name(parts.split(",")), **said)


def assignable(member: str, content: str) -> AssignableMember:
    """A member with its older target and other fields, as the coordinator describes it."""
    held, *rest = content.split(";")
    said: dict[str, Any] = {name: read(value) for name, value in pairs(rest)}
    if "process" in said:
        said["metadata"] = process_data(said.pop("process"))
    metadata: dict[str, Any] = {
        name: data(said.pop(name)) if name == "metadata" else said.pop(name)
        for name in ("version", "reason", "metadata")
        if name in said
    }
    numbers = tuple(each.partition for each in by_id(held.split(",")))
    ids = tuple(each.encode() * 16 for each in said.pop("topics", "T").split("+"))
    return AssignableMember(
        member_id=member,
        assignor=AssignorMetadata(**metadata),
        topic_partitions=(TargetPartitions(topic_id=T, partitions=numbers),) if numbers else (),
        member_epoch=said.pop("member_epoch", 1),
        subscribed_topic_ids=ids,
        **said,
    )
