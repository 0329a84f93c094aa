"""Stories of classic groups told to a real shard: `scripts/classic/*.txt`, what the shard says
behind `>`; `pytest --rewrite`.

A line with "#" is a remark. Who asks is told at once, or "waits" and is told in a later line.
Steps:
    set group_max_size 2            a setting, before anything else (twice: another; after a crash
    it counts) A knocks                        a first JoinGroup, without an id A joins WORDS
    JoinGroup with the id that A has; a dynamic member without one knocks first
        WORDS: as i1 | version 8 | speaking range:x sticky:y | of connect | session 6000 | patience
        9000
    A starts again                  A has forgotten its id and its generation
    A is B                          A uses B's id and generation
    A syncs [giving A=x B=y]        SyncGroup, from the leader with assignments
    A beats / A leaves              Heartbeat, LeaveGroup
    A hangs up                      A's connection is closed
    A commits                       OffsetCommit of foo-0
    i1 i2 are sent away             LeaveGroup of instances, as an administrator does it
    time 3000                       milliseconds pass
    crash                           the shard is rebuilt from its log
    show / describe / delete        the group as it is; as DescribeGroups shows it; DeleteGroups
    offsets                         what the group has committed
    metrics                         of the group, in a line
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apportion.errors import Code
from apportion.machine import Ticket
from apportion.wire.group_states import GroupState
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.messages.join_group import JoinGroupResponse
from apportion.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from apportion.wire.messages.sync_group import SyncGroupResponse
from tests.coord.classic_shard_driver import ClassicShardDriver, ScriptedClient, commit
from tests.coord.script_words import metrics_words
from tests.coord.shard_driver import topics
from tests.scripted import check

SCRIPTS = sorted((Path(__file__).parent / "scripts" / "classic").glob("*.txt"))
assert SCRIPTS


class ScriptPlayer:
    """One script being played."""

    def __init__(self) -> None:
        self.driver = ClassicShardDriver(known=topics(foo=1))
        self.clients: dict[str, ScriptedClient] = {}
        self.names: dict[str, str] = {}  # member id -> what the script calls it
        self.waiting: dict[Ticket, str] = {}  # ticket -> name

    def play(self, line: str) -> list[str]:
        """What the shard says to one step."""
        before = len(self.driver.notes)
        match line.split():
            case ["set", name, value]:
                changes: dict[str, Any] = {name: int(value)}
                self.driver.settings = replace(self.driver.settings, **changes)
                self.driver.shard.settings = self.driver.settings
            case ["time", elapsed_ms]:
                self.driver.advance(int(elapsed_ms))
            case ["crash"]:
                self.waiting.clear()
                self.driver.crash()
            case ["show"]:
                return self.show()
            case ["describe"]:
                return self.describe()
            case ["offsets"]:
                return self.offsets()
            case ["metrics"]:
                return metrics_words(self.driver)
            case ["delete"]:
                (result,) = self.driver.send(DeleteGroupsRequest(groups_names=("g",)), 2).results
                return [Code(result.error_code).name]
            case [*instances, "are" | "is", "sent", "away"]:
                members = tuple(
                    MemberIdentity(member_id="", group_instance_id=instance)
                    for instance in instances
                )
                self.ask("administrator", LeaveGroupRequest(group_id="g", members=members), 5)
            case [name, "is", other]:
                self.client(name).member_id, self.client(name).generation = (
                    self.client(other).member_id,
                    self.client(other).generation,
                )
            case [name, "commits"]:
                return [f"{name}: {commit(self.driver, self.client(name)).name}"]
            case [name, *words]:
                self.act(self.client(name), words)
        return [f"# {note}" for note in self.driver.notes[before:]] + self.responses_since()

    def act(self, client: ScriptedClient, words: list[str]) -> None:
        """One step of a client."""
        match words:
            case ["knocks"]:
                self.ask(client.name, client.joining(), client.version)
            case ["joins", *words_left]:
                self.set_up(client, words_left)
                if client.version >= 4 and client.instance_id is None and not client.member_id:
                    self.ask(client.name, client.joining(), client.version)
                    if self.driver.responses[-1][1].error_code != Code.MEMBER_ID_REQUIRED:
                        return
                    ticket, answer = self.driver.responses.pop()
                    del self.waiting[ticket]
                    client.apply_join(answer)
                    self.name(client.member_id, client.name)
                self.ask(client.name, client.joining(), client.version)
            case ["starts", "again"]:
                client.member_id, client.generation = "", -1
            case ["syncs", *given]:
                known = {name: member_id for member_id, name in self.names.items()}
                shares = [word.partition("=") for word in given[1:]]
                self.ask(
                    client.name,
                    client.syncing(
                        [
                            (known.get(name, name), assignment.encode())
                            for name, _, assignment in shares
                        ]
                    ),
                    5,
                )
            case ["beats"]:
                self.ask(client.name, client.beating(), 4)
            case ["leaves"]:
                self.ask(client.name, client.leaving(), 5)
            case ["hangs", "up"]:
                self.driver.hang_up(
                    *(ticket for ticket, name in self.waiting.items() if name == client.name)
                )
                self.waiting = {
                    ticket: name for ticket, name in self.waiting.items() if name != client.name
                }
            case _:
                raise AssertionError(f"no such step: {words}")

    def set_up(self, client: ScriptedClient, words: list[str]) -> None:
        """How the client joins from now on."""
        while words:
            word, *words = words
            if word == "speaking":
                client.protocols = tuple(
                    (name, metadata.encode())
                    for name, _, metadata in (each.partition(":") for each in words)
                )
                return
            value, *words = words
            match word:
                case "as":
                    client.instance_id = value
                case "of":
                    client.protocol_type = value
                case "version":
                    client.version = int(value)
                case "session":
                    client.session_ms = int(value)
                case "patience":
                    client.rebalance_ms = int(value)
                case _:
                    raise AssertionError(f"no such word: {word}")

    def client(self, name: str) -> ScriptedClient:
        if name not in self.clients:
            self.clients[name] = ScriptedClient(name)
        return self.clients[name]

    def ask(self, name: str, request: Any, version: int) -> None:
        ticket = self.driver.ask(request, version, self.client(name).caller)
        self.waiting[ticket] = name

    def responses_since(self) -> list[str]:
        """What was answered since the last step, and who began to wait in it."""
        lines = []
        group = self.driver.group
        for member_id, ticket in () if group is None else group.live.parked.items():
            if ticket in self.waiting:
                # before it is told itself
                self.name(member_id, self.waiting[ticket])
        for ticket, answer in self.driver.responses:
            name = self.waiting.pop(ticket)
            client = self.client(name)
            if isinstance(answer, JoinGroupResponse):
                client.apply_join(answer)
                self.name(client.member_id, name)
            lines.append(f"{name}: {self.words(answer)}")
        self.driver.responses.clear()
        fresh = [name for ticket, name in self.waiting.items() if ticket not in self.known_waiting]
        self.known_waiting = dict(self.waiting)
        return lines + [f"{name} waits" for name in fresh]

    known_waiting: Mapping[Ticket, str] = {}

    def name(self, member_id: str, name: str) -> None:
        """Ids are called by the name of whom they were given to, with a ' for each id before."""
        if member_id and member_id not in self.names:
            lives = sum(known.rstrip("'") == name for known in self.names.values())
            self.names[member_id] = name + "'" * lives

    def words(self, answer: Any) -> str:
        """An answer in a few words."""
        code = getattr(answer, "error_code", 0)
        if isinstance(answer, JoinGroupResponse):
            if code:
                return Code(code).name + (
                    f", id {self.names[answer.member_id]}" if answer.member_id else ", no id"
                )
            leads = " and skips the assignment" if answer.skip_assignment else ""
            seen = " ".join(
                f"{self.called(each.member_id)}:{bytes(each.metadata).decode()}"
                + (f"({each.group_instance_id})" if each.group_instance_id else "")
                for each in answer.members
            )
            about = (
                f"generation {answer.generation_id} of {answer.protocol_name}, leader "
                f"{self.called(answer.leader)}{leads}"
            )
            return f"{about}, sees {seen or 'nobody'}"
        if isinstance(answer, SyncGroupResponse):
            return (
                Code(code).name if code else f"has {bytes(answer.assignment).decode() or 'nothing'}"
            )
        if isinstance(answer, LeaveGroupResponse):
            return (
                ", ".join(Code(each.error_code).name for each in answer.members) or Code(code).name
            )
        return Code(code).name

    def called(self, member_id: str) -> str:
        return self.names.get(member_id, member_id or "nobody")

    def offsets(self) -> list[str]:
        """What the group has committed."""
        by_topic = self.driver.shard.ledger.offsets.get("g", {})
        lines = [
            f"{topic}-{index}: {value.offset}"
            for topic, some in by_topic.items()
            for index, value in some.items()
        ]
        return lines or ["nothing"]

    def show(self) -> list[str]:
        """The group as it is now, and as its log has it."""
        group = self.driver.group
        if group is None:
            return ["no group"]
        live, saved = group.live, group.saved
        lines = [
            f"{group.state}, generation {live.generation} of {live.protocol}, "
            f"leader {self.called(live.leader or '')}"
        ]
        for member in live.members.values():
            instance = f" ({member.instance_id})" if member.instance_id else ""
            waits = ""
            if member.member_id in live.parked:
                is_joining = live.state is GroupState.PREPARING_REBALANCE
                waits = ", joins" if is_joining else ", syncs"
            lines.append(
                f"  {self.called(member.member_id)}{instance} has "
                f"{member.assignment.decode() or 'nothing'}{waits}"
            )
        if live.pending_joins:
            lines.append(f"  expects {' '.join(map(self.called, live.pending_joins))}")
        assert saved is not None
        members = " ".join(
            f"{self.called(each.member_id)}={bytes(each.assignment).decode() or 'nothing'}"
            for each in saved.members
        )
        return [
            *lines,
            f"  saved: generation {saved.generation} of {saved.protocol}, {members or 'nobody'}",
        ]

    def describe(self) -> list[str]:
        """The group as an administrator sees it."""
        (group,) = self.driver.send(DescribeGroupsRequest(groups=("g",)), 6).groups
        if group.error_code:
            return [f"{Code(group.error_code).name}, {group.group_state}"]
        lines = [
            f"{group.group_state}, type {group.protocol_type or 'none'}, protocol "
            f"{group.protocol_data or 'none'}"
        ]
        for each in group.members:
            metadata, has = (
                bytes(each.member_metadata).decode() or "nothing",
                bytes(each.member_assignment).decode() or "nothing",
            )
            lines.append(
                f"  {self.called(each.member_id)} of {each.client_id} said {metadata}, has {has}"
            )
        return lines


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_story_of_a_classic_group_goes_as_it_is_told(
    script: Path, request: pytest.FixtureRequest
) -> None:
    check(script, ScriptPlayer().play, request)
