"""The client-side assignors that a KIP-848 member offers, and what they have still to say.

A heartbeat offers them with the member's metadata, their user data. KIP-848: a changed list starts
a rebalance, and so do metadata with a reason; metadata without one are only kept. So newer metadata
are sent beside other news, and never alone, or each heartbeat would cost the coordinator a record.

A reason that was accepted need not be on the disk: the coordinator keeps one that comes too early
in memory, for up to an assignment interval, and a crash loses it. Nobody would ask again, and a
group may stand still by that. So the member keeps each reason for KEPT_MS. Full heartbeats, which
follow a crash that it notices, repeat it. The time is longer than any assignment interval that a
broker takes by default, since a newer epoch may be of a target whose computation began before the
reason came. If no newer epoch was told by then, the last metadata are sent again with the reason:
a client whose connection was renewed in time notices no crash. Newer metadata alone go without it:
the coordinator keeps a reason that was saved beside them, and so a member that gives partitions up
for the new assignment, at its older epoch, asks for no other. The price of all this is an
assignment too many after a lost response.
"""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from apportion.assign.by_name import Given, by_topic
from apportion.errors import Code, Refused
from apportion.machine import Instant
from apportion.member.assignors.interface import Assignor, FollowUp, MemberFailure
from apportion.member.assignors.runs import MAX_INT8, checked_reply, checked_user_data, is_byte
from apportion.member.assignors.strategy import versions_of
from apportion.member.follow_up import FollowUpDeadline
from apportion.member.membership import from_id_parts
from apportion.readable import foreign_text
from apportion.topics import TopicId
from apportion.wire.fields import replaced
from apportion.wire.messages.consumer_group_heartbeat import (
    Assignment,
    AssignorVersion,
    ClientAssignor,
)

KEPT_MS = 30_000
"""For how long an accepted reason is kept: twice the most that a broker takes by default for
`group.consumer.assignment.interval.ms`.
"""


class AcceptedReason(NamedTuple):
    """A reason that the coordinator has accepted. epoch: told in that response. since_ms: mono."""

    reason: int
    epoch: int
    since_ms: int


class LocalAssignors:
    """The assignors of one KIP-848 member, in order of preference. None for server-side ones."""

    def __init__(self, assignors: tuple[Assignor, ...]) -> None:
        self.assignors = assignors
        self._versions = {each.name: versions_of(each)[1] for each in assignors}
        self._reasons: dict[str, int] = {}  # to be sent, by the name of the assignor
        self._reasons_in_flight: dict[str, int] = {}
        self._accepted: dict[str, AcceptedReason] = {}
        self._must_repeat = False
        self._standing: dict[str, int] = {}  # reasons that hold until they are withdrawn
        self._sent: tuple[ClientAssignor, ...] = ()
        self._names: dict[TopicId, str] = {}
        # An assignment and the member epoch with it: the newest, and the same while nobody was told
        # of it, since its topics' names are not known yet.
        self._newest: tuple[Assignment, int] | None = None
        self._unresolved: tuple[Assignment, int] | None = None
        self.follow_up = FollowUpDeadline()
        self._is_withdrawn = False

    def named_or_none(self, name: str) -> Assignor | None:
        """Return the assignor of this name."""
        return next((each for each in self.assignors if each.name == name), None)

    # what heartbeats offer

    @property
    def must_send(self) -> bool:
        """Return whether a heartbeat is due for a reason, or for metadata in another version."""
        if self._is_withdrawn or not self.assignors:
            return False
        sent = {each.name: each.version for each in self._sent}
        return (
            bool(self._reasons)
            or self._must_repeat
            or any(version != self._versions[name] for name, version in sent.items())
        )

    def offers(
        self, topics: tuple[str, ...], *, is_full: bool, has_news: bool
    ) -> tuple[ClientAssignor, ...] | None:
        """Return the assignors for the next heartbeat; None if they are not to be sent.

        has_news: it also says something else. Raises Refused if an assignor fails.
        """
        self._reasons_in_flight = {}
        is_silent = not self.assignors or self._is_withdrawn
        if is_silent or not (is_full or has_news or self.must_send):
            return None
        if self._must_repeat and not (is_full or has_news or self._reasons):
            self._must_repeat = False
            self._sent = tuple(self._with_accepted_reason(each) for each in self._sent)
            return self._sent
        offered = tuple(
            self._offer(each, topics, self.reason_of(each.name, is_full=is_full))
            for each in self.assignors
        )
        # The same reason again asks for one more assignment.
        if offered == self._sent and not is_full and not self._reasons:
            return None
        self._sent, self._must_repeat = offered, False
        self._reasons_in_flight = dict(self._reasons)
        return offered

    def reason_of(self, name: str, *, is_full: bool) -> int:
        """Return the reason that the next heartbeat has for an assignor; 0 for none."""
        accepted = self._accepted.get(name)
        if name in self._reasons:
            return self._reasons[name]
        if accepted is not None and (is_full or self._must_repeat):
            return accepted.reason
        return self._standing.get(name, 0)

    def _with_accepted_reason(self, sent: ClientAssignor) -> ClientAssignor:
        """Return what was offered, with the reason that was accepted and may be lost."""
        accepted = self._accepted.get(sent.name)
        return sent if accepted is None else replaced(sent, reason=accepted.reason)

    def _offer(self, assignor: Assignor, topics: tuple[str, ...], reason: int) -> ClientAssignor:
        version, (minimum, maximum) = self._versions[assignor.name], versions_of(assignor)
        encode = getattr(assignor, "versioned_user_data", None)
        data = checked_user_data(
            assignor,
            (lambda: assignor.user_data(topics))
            if encode is None
            else lambda: encode(topics, version),
        )
        return ClientAssignor(
            name=assignor.name,
            minimum_version=minimum,
            maximum_version=maximum,
            reason=reason,
            version=version,
            metadata=data or b"",
        )

    def record_accepted(self, epoch: int, now: Instant) -> None:
        """Note that the coordinator has what the last heartbeat offered; it tells this epoch.

        A reason that was kept long enough is forgotten, or sent again if no epoch has followed it.
        An older epoch is of another group of this name, whose first target was made for the join.
        """
        for name, accepted in tuple(self._accepted.items()):
            if epoch < accepted.epoch:
                del self._accepted[name]
                continue
            if now.mono_ms < accepted.since_ms + KEPT_MS:
                continue
            if epoch > accepted.epoch:
                del self._accepted[name]
            else:
                self._accepted[name] = accepted._replace(since_ms=now.mono_ms)
                self._must_repeat = True
        for name, reason in self._reasons_in_flight.items():
            self._accepted[name] = AcceptedReason(reason, epoch, now.mono_ms)
            self._reasons.pop(name, None)
        self._reasons_in_flight = {}

    def request_rebalance(self, name: str, reason: int, *, stands: bool = False) -> None:
        """Have the next heartbeat ask for a new assignment.

        stands: whoever assigns reads the reason in this member's metadata until it is withdrawn.
        Raises Refused for a reason that a heartbeat cannot carry, or that says none.
        """
        if not is_byte(reason) or reason < 1:
            why = f"gives the reason {foreign_text(reason):.80}: it must be from 1 to {MAX_INT8}"
            raise Refused(Code.INVALID_REQUEST, f"the assignor {name!r} {why}")
        self._reasons[name] = int(reason)
        # What is under way says nothing of what has changed since.
        self._reasons_in_flight.pop(name, None)
        if stands:
            self._standing[name] = reason

    def withdraw_reasons(self) -> None:
        """Ask for nothing any more."""
        self._reasons, self._reasons_in_flight = {}, {}
        self._accepted, self._standing = {}, {}
        self._must_repeat = False

    def use_version(self, requested: AssignorVersion) -> bool:
        """Encode metadata in this version from now on; return False if it is not understood."""
        assignor = self.named_or_none(requested.name)
        if assignor is None:
            return False
        minimum, maximum = versions_of(assignor)
        if not minimum <= requested.version <= maximum:
            return False
        self._versions[assignor.name] = requested.version
        return True

    # what an assignment says

    @property
    def unresolved_ids(self) -> tuple[TopicId, ...]:
        """The ids of the topics whose names are needed to tell of the assignment."""
        if self._unresolved is None:
            return ()
        ids = dict.fromkeys(bytes(each.topic_id) for each in self._unresolved[0].topic_partitions)
        return tuple(topic_id for topic_id in ids if topic_id not in self._names)

    def hold_assignment(self, assignment: Assignment, epoch: int) -> bool:
        """Keep an assignment for `tell_assignment`; it replaces one that nobody was told of.

        Return False, and keep nothing, if it is the newest already: the response to each full
        heartbeat has it again, which must not put off what an assignor has asked for.
        """
        if not self.assignors or self._is_withdrawn or self._newest == (assignment, epoch):
            return False
        self._newest = self._unresolved = assignment, epoch
        self.follow_up.cancel()
        return True

    def forget_assignment(self) -> None:
        """Tell of no assignment any more: the membership that had it has ended."""
        self._newest = self._unresolved = None
        self.follow_up.cancel()
        self._is_withdrawn = False

    def withdraw(self) -> None:
        """Call no assignor until the membership has ended: one of them has failed."""
        self.forget_assignment()
        self._is_withdrawn = True

    def add_names(self, names: Mapping[TopicId, str]) -> None:
        """Remember the names of topics."""
        self._names |= names

    def request_follow_up(self) -> None:
        """Have the next heartbeat ask for what an assignor has asked for: its time has come."""
        if (planned := self.follow_up.take()) is not None:
            name, follow_up = planned
            self.request_rebalance(name, follow_up.reason)

    def tell_assignment(self, now: Instant) -> MemberFailure | None:
        """Tell each assignor of the assignment that is held; the first reply counts.

        The member does not learn which of its assignors has computed it, if one has; so all are
        told. Partitions of a topic that is gone have no name any more, and are left out. Raises
        Refused if an assignor fails.
        """
        if self._unresolved is None:
            return None
        (assignment, epoch), self._unresolved = self._unresolved, None
        given = Given(
            by_topic(
                (name, partition.partition)
                for partition in from_id_parts(assignment.topic_partitions)
                if (name := self._names.get(partition.topic_id))
            ),
            bytes(assignment.metadata) or None,
            assignment.error,
            assignment.metadata_version,
        )
        replies = [
            (each.name, checked_reply(each, partial(each.on_assignment, given, epoch)))
            for each in self.assignors
        ]
        for name, reply in replies:
            if isinstance(reply, FollowUp):
                self.follow_up.plan(name, reply, now)
                return None
            if reply is not None:
                return reply
        return None
