"""Stories told to a group member: `scripts/*.txt`, a line an event, what the member does behind
`>`; `pytest --rewrite` writes that.

A line with "#" is a remark. Before an event stands its time in ms, unless it is that of the line
above. T-0 is partition 0 of the topic with the id T, whose name is t. Each request has a number, by
which the events name it. Events, with fields of Kafka's messages where FIELDS stands:

- `new consumer SETTING=VALUE`, `new classic ASSIGNOR`: a member of one group protocol, in no group
- `joining`: at 0 ms it subscribes to t and finds its coordinator; its join, request 2, is in flight
- `joined T-0 T-1`, `joined T-0 epoch=7`: at 0 ms it joins and adopts these; nothing is in flight
- `here`, `back`: go on from here with one story after the other
- `subscribe t u`, `subscribe t matching u.*`: its owner subscribes, and it joins
- `adopt T-0`, `adopt T-0 in 1`: its owner uses exactly these (as offered in incarnation 1)
- `poll`, `leave`, `leave for good`, `tick`
- `found 1`: the coordinator, as request 1 asked
- `answer 2 FIELDS`, `answer 2 UNKNOWN_MEMBER_ID`, `answer 99 Heartbeat`: the coordinator's response
- `no answer 2 CODE why`: and none will come; the code may be left out
- `metadata 4 t:3`, `metadata 4 t:3:U`: the topic has 3 partitions (and is another one now)
- `beat FIELDS`: a tick, and the coordinator's response to the heartbeat that follows
- `show`, also as the end of another line: the member's state, and when it needs its next tick
"""

import re
import shlex
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from apportion.assign.by_name import Given, Subscription, by_topic
from apportion.errors import Code
from apportion.machine import Instant, Tick
from apportion.member.assignors.builtin import CooperativeSticky, Range
from apportion.member.assignors.serde import encode_assignment, encode_subscription
from apportion.member.classic.machine import ClassicMember
from apportion.member.classic.requests import ClassicSettings
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.member.consumer.machine import ConsumerMember
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    Leave,
    MetadataFetched,
    Polled,
    SendToCoordinator,
    Subscribe,
    Unanswered,
    to_id_parts,
)
from apportion.topics import IdPartition
from apportion.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.heartbeat import HeartbeatResponse
from apportion.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from apportion.wire.messages.leave_group import LeaveGroupResponse, MemberResponse
from apportion.wire.messages.sync_group import SyncGroupResponse
from tests.member.script_words import action_words, api_of, view_words
from tests.scripted import check

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))
assert SCRIPTS

ASSIGNORS = {each.name: each for each in (Range, CooperativeSticky)}
JOINS = {  # protocol -> the responses to a join
    "consumer": ["answer 2 member_epoch={0} assignment={1}"],
    "classic": [
        "answer 2 MEMBER_ID_REQUIRED member_id=m",
        "answer 3 generation_id={0}",
        "answer 4 assignment={1}",
    ],
}
ADOPTIONS = {  # protocol -> how the owner takes what was assigned
    "consumer": ["adopt {1}", "answer 3 member_epoch={0}"],
    "classic": ["metadata 5 t:4", "adopt {1}"],
}


class ScriptPlayer:
    """One script being played."""

    member: ClassicMember | ConsumerMember
    kept: tuple[ClassicMember | ConsumerMember, int, dict[int, str]]

    def __init__(self) -> None:
        self.now_ms = 0
        self.protocol = ""  # of the group
        self.assignor = ""
        self.apis: dict[int, str] = {}  # of requests sent, by their numbers

    def play(self, line: str) -> list[str]:
        """What the member does in one step."""
        if line.endswith(", show"):
            return self.play(line.removesuffix(", show")) + self.show()
        words = shlex.split(line)
        if words[0].isdigit():
            self.now_ms = int(words.pop(0))
        match words:
            case ["new", protocol, *settings]:
                self.create(protocol, settings)
                return []
            case ["joining" | "joined" as stage, *rest]:
                self.set_up(stage, rest)
                return []
            case ["here"]:
                self.kept = deepcopy((self.member, self.now_ms, self.apis))
                return []
            case ["back"]:
                self.member, self.now_ms, self.apis = deepcopy(self.kept)
                return []
            case ["show"]:
                return self.show()
            case ["beat", *fields]:
                sent = self.step(Tick())
                return sent + self.step(self.event(["answer", str(max(self.apis)), *fields]))
        return self.step(self.event(words))

    def step(self, event: Any) -> list[str]:
        """What the member does after one event."""
        actions = self.member.step(event, Instant(self.now_ms, 1_700_000_000_000 + self.now_ms))
        for action in actions:
            if isinstance(action, SendToCoordinator):
                self.apis[action.request_id] = api_of(action.request)
        return [action_words(each) for each in actions]

    def show(self) -> list[str]:
        """The member's state as a line."""
        return [view_words(self.member.view(), self.member.wake_at())]

    def create(self, protocol: str, words: list[str]) -> None:
        """Begin with another member."""
        self.now_ms, self.apis, self.protocol = 0, {}, protocol
        settings: dict[str, Any] = {"rebalance_timeout_ms": 60_000}
        settings |= {name: read(value) for name, value in pairs(words)}
        named = [ASSIGNORS[word]() for word in words if "=" not in word]
        if named:
            settings["assignors"] = tuple(named)
            self.assignor = named[0].name
        self.member = (
            ConsumerMember(ConsumerSettings(group_id="g", member_id="m", **settings))
            if protocol == "consumer"
            else ClassicMember(ClassicSettings(group_id="g", **settings))
        )

    def set_up(self, stage: str, words: list[str]) -> None:
        """The member joins, and adopts these partitions unless it is to be joining still."""
        held = [word for word in words if "=" not in word]
        epoch = dict(pairs(words)).get("epoch", "1")
        steps = ["subscribe t", "found 1"]
        if stage == "joined":
            steps += [step.format(epoch, ",".join(held)) for step in JOINS[self.protocol]]
        if held:
            steps += [step.format(epoch, " ".join(held)) for step in ADOPTIONS[self.protocol]]
        for step in steps:
            self.play(step)

    def event(self, words: list[str]) -> Any:
        """The event of one step."""
        match words:
            case ["tick"]:
                return Tick()
            case ["poll"]:
                return Polled()
            case ["leave"]:
                return Leave()
            case ["leave", "for", "good"]:
                return Leave(for_good=True)
            case ["subscribe", *topics, "matching", expression]:
                return Subscribe(tuple(topics), expression)
            case ["subscribe", *topics]:
                return Subscribe(tuple(topics))
            case ["adopt", *adopted, "in", incarnation]:
                return Adopted(int(incarnation), by_id(adopted))
            case ["adopt", *adopted]:
                return Adopted(self.member.view().incarnation, by_id(adopted))
            case ["found", number]:
                return CoordinatorFound(int(number))
            case ["no", "answer", number, *why]:
                code = Code[why.pop(0)] if why[0] in Code.__members__ else Code.NONE
                return Unanswered(int(number), " ".join(why), code)
            case ["metadata", number, *topics]:
                return MetadataFetched(int(number), tuple(map(description, topics)))
            case ["answer", number, *fields]:
                if fields and fields[0] in RESPONSES:
                    self.apis[int(number)] = fields.pop(0)
                return Answered(int(number), self.response(self.apis[int(number)], fields))
        raise AssertionError(f"no such step: {words}")

    def response(self, api: str, words: list[str]) -> Any:
        """The response with these fields, or with an error."""
        codes = [Code[word] for word in words if "=" not in word]
        said: dict[str, Any] = dict(pairs(words))
        if codes:
            return RESPONSES[api](error_code=codes[0], **said)
        values: dict[str, Any] = {name: read(value) for name, value in said.items()}
        match api:
            case "ConsumerGroupHeartbeat":
                values = {"member_id": "m", "heartbeat_interval_ms": 1_000} | values
                if "assignment" in said:
                    held = by_id(said["assignment"].split(","))
                    values["assignment"] = Assignment(topic_partitions=to_id_parts(held))
            case "JoinGroup":
                usual = {"member_id": "m", "leader": "a", "protocol_name": self.assignor}
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


RESPONSES: dict[str, Any] = {
    each.__name__.removesuffix("Response"): each
    for each in (
        ConsumerGroupHeartbeatResponse,
        JoinGroupResponse,
        SyncGroupResponse,
        HeartbeatResponse,
        LeaveGroupResponse,
    )
}


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


def subscriptions(word: str) -> list[tuple[str, bytes]]:
    """m(t),n(t,u;owned=t-0;generation=3) as members and the bytes that they have sent."""
    found = []
    for member, content in re.findall(r"([^,()]+)\(([^)]*)\)", word):
        topics, *rest = content.split(";")
        if topics.startswith("0x"):
            found.append((member, bytes.fromhex(topics[2:])))
            continue
        said: dict[str, Any] = {name: read(value) for name, value in pairs(rest)}
        if "owned" in said:
            said["owned"] = by_name(said["owned"].split(","))
        found.append((member, encode_subscription(Subscription(tuple(topics.split(",")), **said))))
    return found


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_story_of_a_member_goes_as_it_is_told(
    script: Path, request: pytest.FixtureRequest
) -> None:
    check(script, ScriptPlayer().play, request)
