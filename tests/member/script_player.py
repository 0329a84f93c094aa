"""The player of scripts: a group member, the events that it is told, and what it does."""

import shlex
from typing import Any

from apportion.errors import Code, Refused
from apportion.machine import Instant, Tick
from apportion.member.assignors.builtin import CooperativeSticky, Range
from apportion.member.assignors.interface import FollowUp, MemberFailure
from apportion.member.classic.machine import ClassicMember
from apportion.member.classic.requests import ClassicSettings
from apportion.member.consumer.machine import ConsumerMember
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.membership import (
    Adopted,
    Answered,
    AssignorRan,
    CoordinatorFound,
    Leave,
    MetadataFetched,
    Polled,
    QueryAnswered,
    Rejoin,
    RunAssignor,
    SendToCoordinator,
    Subscribe,
    Unanswered,
)
from tests.member.script_assignors import SCRIPTED
from tests.member.script_responses import (
    RESPONSES,
    by_id,
    description,
    given,
    in_brackets,
    pairs,
    read,
    response,
)
from tests.member.script_streams import share_words, streams_event, streams_member
from tests.member.script_words import action_words, api_of, given_words, view_words

ASSIGNORS: dict[str, Any] = {each.name: each for each in (Range, CooperativeSticky, *SCRIPTED)}
JOINS = {  # protocol -> the responses to a join
    "assignors": ["answer 3 member_epoch={0} assignment={1}", "metadata 4 t:3"],
    "consumer": ["answer 2 member_epoch={0} assignment={1}"],
    "classic": [
        "answer 2 MEMBER_ID_REQUIRED member_id=m",
        "answer 3 generation_id={0}",
        "answer 4 assignment={1}",
    ],
}
ADOPTIONS = {  # protocol -> how the owner takes what was assigned
    "assignors": ["adopt {1}", "answer 5 member_epoch={0}"],
    "consumer": ["adopt {1}", "answer 3 member_epoch={0}"],
    "classic": ["metadata 5 t:4", "adopt {1}"],
}


class ScriptPlayer:
    """One script being played."""

    member: Any

    def __init__(self) -> None:
        self.now_ms = 0
        self.protocol = ""  # of the group
        self.assignor = ""
        self.apis: dict[int, str] = {}  # of requests sent, by their numbers
        self.runs: dict[int, RunAssignor] = {}
        self.told: list[str] = []  # of this member
        self.kept: list[str] = []  # until `here`

    def play(self, line: str) -> list[str]:
        """What the member does in one step."""
        match line:
            case "here":
                self.kept = list(self.told)
                return []
            case "back":
                for step in self.kept:
                    self.play(step)
                return []
        if line.startswith("new "):
            self.told = []
        self.told.append(line)
        return self.act(line)

    def act(self, line: str) -> list[str]:
        """What the member does in one step, which is not remembered."""
        if line.endswith(", show"):
            return self.act(line.removesuffix(", show")) + self.show()
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
            case ["show"]:
                return self.show()
            case ["reply" | "give" | "fail", *said]:
                self.instruct(words[0], said)
                return []
            case ["tasks"]:
                return [share_words(self.member.tasks())]
            case ["told"]:
                return [f"{given_words(each)} in {epoch}" for each, epoch in self.scripted.told]
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
            if isinstance(action, RunAssignor):
                self.runs[action.request_id] = action
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
        match protocol:
            case "consumer":
                settings |= {"group_id": "g", "member_id": "m"}
                self.member = ConsumerMember(ConsumerSettings(**settings))
            case "streams":
                self.protocol, self.assignor = "consumer", "stream"
                self.member = streams_member(settings)
            case "classic":
                self.member = ClassicMember(ClassicSettings(group_id="g", **settings))

    @property
    def scripted(self) -> Any:
        """The member's assignor."""
        return self.member.settings.assignors[0]

    def instruct(self, step: str, said: list[str]) -> None:
        """What the member's assignor says or does from now on."""
        match step, said:
            case "fail", _:
                self.scripted.fails = True
            case "give", ["raises", *why]:
                self.scripted.given = ValueError(" ".join(why))
            case "give", targets:
                found = in_brackets(",".join(targets))
                self.scripted.given = {member: given(word) for member, word in found}
            case _, ["nothing"]:
                self.scripted.reply = None
            case _, ["failure", code, *why]:
                self.scripted.reply = MemberFailure(Code[code], " ".join(why))
            case _, ["refuses", *why]:
                self.scripted.reply = Refused(Code.INVALID_REQUEST, " ".join(why))
            case _, ["raises", *why]:
                self.scripted.reply = OSError(" ".join(why))
            case _, fields:
                wanted: dict[str, Any] = {"at_ms": 0, "why": "it is time"}
                wanted |= {name: read(value) for name, value in pairs(fields)}
                self.scripted.reply = FollowUp(**wanted)

    def set_up(self, stage: str, words: list[str]) -> None:
        """The member joins, and adopts these partitions unless it is to be joining still."""
        held = [word for word in words if "=" not in word]
        said = dict(pairs(words))
        epoch = said.pop("epoch", "1")
        if self.assignor == "stream" and held:
            said |= {"active": ",".join(word.replace("T-", "0_") for word in held)} | said
        steps, protocol = ["subscribe t", "found 1"], self.protocol
        if protocol == "consumer" and self.member.settings.assignors:
            # It asks first whether the broker has client-side assignors.
            steps, protocol = [*steps, "answer 2 GROUP_ID_NOT_FOUND"], "assignors"
        if stage == "joined":
            assigned = " ".join(
                [",".join(held), *(f"{name}={word}" for name, word in said.items())]
            )
            steps += [step.format(epoch, assigned) for step in JOINS[protocol]]
        if held:
            steps += [step.format(epoch, " ".join(held)) for step in ADOPTIONS[protocol]]
        for step in steps:
            self.act(step)

    def event(self, words: list[str]) -> Any:
        """The event of one step."""
        match words:
            case ["tick"]:
                return Tick()
            case ["found", number]:
                return CoordinatorFound(int(number))
            case ["answer", number, *fields]:
                if fields and fields[0] in RESPONSES:
                    self.apis[int(number)] = fields.pop(0)
                api = self.apis[int(number)]
                return Answered(int(number), response(api, fields, self.assignor))
            case ["no", "answer", number, *why]:
                code = Code[why.pop(0)] if why[0] in Code.__members__ else Code.NONE
                return Unanswered(int(number), " ".join(why), code)
            case ["metadata", number, *topics]:
                return MetadataFetched(int(number), tuple(map(description, topics)))
            case ["run" | "ran" | "query", number, *said]:
                return self.assignor_event(words[0], int(number), said)
        return self.owner_event(words)

    def owner_event(self, words: list[str]) -> Any:
        """What the member's owner says."""
        match words:
            case ["poll"]:
                return Polled()
            case ["leave"]:
                return Leave()
            case ["leave", "for", "good"]:
                return Leave(for_good=True)
            case ["rejoin", *why]:
                return Rejoin(" ".join(why))
            case ["subscribe", *topics, "matching", expression]:
                return Subscribe(tuple(topics), expression)
            case ["subscribe", *topics]:
                return Subscribe(tuple(topics))
            case ["adopt", *adopted, "in", incarnation]:
                return Adopted(int(incarnation), by_id(adopted))
            case ["adopt", *adopted]:
                return Adopted(self.member.view().incarnation, by_id(adopted))
        event = streams_event(words)
        assert event is not None, f"no such step: {words}"
        return event

    def assignor_event(self, step: str, number: int, said: list[str]) -> Any:
        """What becomes of a run of the member's assignor, or of its query."""
        match step, said:
            case "run", []:
                return self.runs[number].perform()
            case "ran", ["refused", *why]:
                return AssignorRan(number, Refused(Code.INVALID_REQUEST, " ".join(why)))
            case "ran", targets:
                found = in_brackets(",".join(targets))
                return AssignorRan(number, {member: given(word) for member, word in found})
        return QueryAnswered(number, said[0])
