"""How long a join and a leave take, and how many heartbeats a second it costs, in simulated time.

The coordinator shard is the real one. The members are simulated: each obeys the interval of every
response, stops using what it is to give up at once, and confirms a new assignment at once. A
message takes 1 ms. Beside the budget of heartbeats stands what the interval of Apache Kafka's
default gives, 5,000 ms for everybody. No figure comes from a real clock, so each run prints the
same.

A join or a leave ends when every member of the group has the partitions of its target assignment
and knows it. The figures are of several of them, at various times: the mean, and the worst.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from statistics import mean
from typing import Any, NamedTuple

from apportion.coord import records
from apportion.coord.config import GroupSettings
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.heartbeat_budget import Booking, HeartbeatBudget
from apportion.coord.shard import Shard
from apportion.machine import Arrived, Caller, Compute, Computed, Instant, Reply, Ticket
from apportion.topics import Topic, Topics
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from apportion.wire.records.groups import ConsumerGroupMemberMetadataValue

DELAY_MS = 1  # of a message, one way
SETTLING_MS = 12_000  # before anything is counted: everybody has sent a few heartbeats
COUNTED_MS = 5_000  # heartbeats of members at rest are counted for so long
BETWEEN_MS = 6_113  # at least, between two joins: each meets the heartbeats in another place
TOPIC_ID = bytes(16)
CALLER = Caller("bench", "/127.0.0.1")
METADATA = ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id=CALLER.client_id,
    client_host=CALLER.host,
    subscribed_topic_names=("t",),
    subscribed_topic_regex="",
    rebalance_timeout_ms=60_000,
    server_assignor=None,
)


class Case(NamedTuple):
    """A group of so many members and partitions beside others, and how many joins to see.

    others: members at rest in other groups. They only book their heartbeats, each at its time.
    """

    members: int
    partitions: int
    joins: int
    others: int = 0

    @property
    def name(self) -> str:
        """The number of members of the broker."""
        return str(self.members + self.others)


CASES = (
    Case(members=10, partitions=900, joins=20),
    Case(members=100, partitions=900, joins=20),
    Case(members=1_000, partitions=10_000, joins=20),
    Case(members=1_000, partitions=10_000, joins=2, others=99_000),
)


@dataclass(slots=True)
class Member:
    """A member as it knows itself."""

    member_id: str
    epoch: int = 0  # -1: it has left
    owned: tuple[TopicPartitions, ...] = ()


class Simulation:
    """A shard, its members, and the heartbeats that are under way, in order of time."""

    def __init__(self, case: Case, settings: GroupSettings) -> None:
        """Load a shard that knows all members, which begin to heartbeat over five seconds."""
        self.now_ms = 0
        self.heartbeats = 0
        self._interval_ms = settings.heartbeat_interval_ms
        self._budget = HeartbeatBudget(settings.apportion_heartbeat_budget_per_second)
        topics = Topics([Topic("t", TOPIC_ID, case.partitions)])
        self._shard = Shard(settings, topics, heartbeats=self._budget)
        # when a heartbeat arrives, its number, its member and whether it says what that owns; or
        # the booking of a member of other groups
        self._arrivals: list[tuple[int, int, Member | Booking, bool]] = []
        self._sent = self._changes = 0
        for number in range(case.members):
            member = Member(f"m{number:05}")
            self._shard.replay(records.member_metadata("g", member.member_id, METADATA))
            # Not in the order of their ids, in which the assignor prefers members.
            place = number * 7_919 % case.members
            self.send(member, place * 5_000 // case.members, reports=True)
        for number in range(case.others):
            begin_ms = number * 5_000 // case.others
            self._push(begin_ms, Booking(begin_ms, is_awaited=False))
        self._shard.loaded(Instant(0, 0))

    def send(self, member: Member, at_ms: int, *, reports: bool) -> None:
        """Send a heartbeat of the member. reports: with what the member owns."""
        self._push(at_ms + DELAY_MS, member, reports=reports)

    def leave(self, member: Member) -> None:
        """Let the member leave now."""
        member.epoch = -1
        self._ask(member, reports=False)

    def run(self, until_ms: int) -> None:
        """Handle every heartbeat that arrives before then."""
        while self._arrivals and self._arrivals[0][0] < until_ms:
            self._step()
        self.now_ms = until_ms

    def run_until_assigned(self) -> float:
        """Return the seconds until every member has the partitions of a new target, and knows it.

        The change that needs a new target has just been made.
        """
        begin_ms, saved = self.now_ms, self._group.saved
        while saved.epoch > saved.assignment_epoch:
            self._step()
        behind = [member for member in saved.members.values() if not has_target(member)]
        while behind:
            before = self._changes
            while self._changes == before:  # until then nobody has gained or lost anything
                self._step()
            behind = [member for member in behind if not has_target(member)]
        return (self.now_ms + DELAY_MS - begin_ms) / 1_000

    @property
    def _group(self) -> ConsumerGroup:
        group = self._shard.ledger.groups["g"]
        assert isinstance(group, ConsumerGroup)
        return group

    def _push(self, at_ms: int, member: Member | Booking, *, reports: bool = False) -> None:
        self._sent += 1
        heappush(self._arrivals, (at_ms, self._sent, member, reports))

    def _step(self) -> None:
        """Handle the next heartbeat, and let its member do what the response says."""
        self.now_ms, _, member, reports = heappop(self._arrivals)
        if isinstance(member, Booking):
            self._beat_of_another(member)
        elif member.epoch >= 0:
            body = self._ask(member, reports)
            assert body.error_code == 0, body
            member.epoch = body.member_epoch
            self._changes += reports or body.assignment is not None
            if body.assignment is not None:
                member.owned = body.assignment.topic_partitions
                self.send(member, self.now_ms + DELAY_MS, reports=True)
            else:
                sent_ms = self.now_ms - DELAY_MS  # from which the interval counts
                self.send(member, sent_ms + body.heartbeat_interval_ms, reports=False)

    def _beat_of_another(self, booking: Booking) -> None:
        """Handle the heartbeat of a member at rest of another group."""
        self.heartbeats += 1
        self._budget.cancel(booking)
        latest_ms = self.now_ms + self._interval_ms
        booking = self._budget.book(self.now_ms, latest_ms, is_awaited=False)
        self._push(booking.due_ms, booking)

    def _ask(self, member: Member, reports: bool) -> Any:
        """Return the response to a heartbeat of the member."""
        self.heartbeats += 1
        joins = member.epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member.member_id,
            member_epoch=member.epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=("t",) if joins else None,
            topic_partitions=() if joins else member.owned if reports else None,
        )
        arrived = Arrived(Ticket(1), request, 1, CALLER, bytes(16))
        now = Instant(self.now_ms, self.now_ms)
        actions = self._shard.step(arrived, now)
        for action in actions:
            if isinstance(action, Compute):  # as a driver does, in no time
                self._shard.step(Computed(action.computation, action.computation.run()), now)
        reply = next(action for action in actions if isinstance(action, Reply))
        self._shard.waiting.remove(Ticket(1))
        return reply.body


def has_target(member: ConsumerGroupMember) -> bool:
    """Return whether the member has all partitions of its target, and no others."""
    return member.target is not None and sorted(member.target.tolist()) == sorted(member.units())


class Figures(NamedTuple):
    """Seconds of each join and leave, and the heartbeats a second of all members at rest."""

    joins: list[float]
    leaves: list[float]
    rate: float


def measure(case: Case, settings: GroupSettings) -> Figures:
    """Return the figures of a case, by simulation."""
    simulation = Simulation(case, settings)
    simulation.run(SETTLING_MS)
    before = simulation.heartbeats
    simulation.run(SETTLING_MS + COUNTED_MS)
    rate = (simulation.heartbeats - before) / COUNTED_MS * 1_000
    joins, leaves = [], []
    for number in range(case.joins):
        newcomer = Member(f"newcomer-{number}")
        begin_ms = simulation.now_ms
        simulation.send(newcomer, begin_ms, reports=True)
        simulation.run(begin_ms + DELAY_MS + 1)
        joins.append(simulation.run_until_assigned() + (DELAY_MS + 1) / 1_000)
        simulation.run(simulation.now_ms + BETWEEN_MS + 371 * number % 1_000)
        simulation.leave(newcomer)
        leaves.append(simulation.run_until_assigned())
        simulation.run(simulation.now_ms + BETWEEN_MS + 371 * number % 1_000)
    return Figures(joins, leaves, rate)


def row(name: str, value: float, unit: str, target: float | None = None) -> dict[str, Any]:
    """Return one row of `make bench`, of a figure that had better be small."""
    return {"name": name, "value": value, "unit": unit, "target": target, "better": "lower"}


def run() -> list[dict[str, Any]]:
    """Return the rows of `make bench`."""
    rows = []
    for case in CASES:
        ours = measure(case, GroupSettings())
        fixed = measure(case, GroupSettings(apportion_heartbeat_budget_per_second=0))
        target_s = 0.3 if case.members == 10 else None
        per_second = GroupSettings().apportion_heartbeat_budget_per_second
        for kind, figures, target in (("", ours, target_s), ("fixed_", fixed, None)):
            name = f"heartbeats_{kind}{case.name}"
            rows += [
                row(f"{name}_join_s", mean(figures.joins), "s", target),
                row(f"{name}_join_worst_s", max(figures.joins), "s", target),
                row(f"{name}_leave_s", mean(figures.leaves), "s", target),
                row(f"{name}_leave_worst_s", max(figures.leaves), "s", target),
            ]
        # The budget, or as many as at Kafka's interval where that is more.
        rows += [
            row(
                f"heartbeats_{case.name}_rate",
                ours.rate,
                "1/s",
                max(per_second, 1.001 * fixed.rate),
            ),
            row(f"heartbeats_fixed_{case.name}_rate", fixed.rate, "1/s"),
        ]
    return rows


if __name__ == "__main__":
    for each in run():
        print(each["name"], round(each["value"], 3), each["unit"], each["target"])
