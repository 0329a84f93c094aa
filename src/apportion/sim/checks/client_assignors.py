"""Checks how a coordinator treats members with client-side assignors between targets (KIP-848).

The laws here are about time and order: how often metadata are saved, that a reason which waits is
not forgotten, how often the chosen member is told of its group, and which answer of an assignor
comes with which epoch. `installed_targets.py` checks the targets themselves. Times are of the
broker's monotonic clock. A broker that loads a group has forgotten when it saved and told what,
and what waited: the group is another object then, and its history begins anew. But a member
that lives says a reason again that was lost so: with its first full heartbeat, and without one when
it has kept the reason for KEPT_MS.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from apportion.coord.consumer.beat import JOINING
from apportion.coord.consumer.client_assignors import PreparedGroup, has_reason, is_other_offer
from apportion.coord.consumer.state import ConsumerGroup
from apportion.coord.records import TargetAnswer
from apportion.errors import Code
from apportion.member.consumer.local_assignors import KEPT_MS
from apportion.sim.checks.installed_targets import (
    LoadedShards,
    SavedAnswers,
    arrived_or_none,
    group_or_none,
)
from apportion.sim.kernel.outcome import LawBroken
from apportion.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
)
from apportion.wire.records.groups import RecordClientAssignor

SECOND_MS = 1_000


class ProcessedHeartbeat(NamedTuple):
    """A heartbeat, when it was processed (mono ms), and its group's epochs after it.

    is_early: it asks for a new assignment, and has brought no newer epoch.
    """

    request: ConsumerGroupHeartbeatRequest
    at_ms: int
    epoch: int
    assignment_epoch: int
    is_early: bool


class AcceptedEarly(NamedTuple):
    """An early heartbeat that was accepted, and the epoch that its member was told."""

    heartbeat: ProcessedHeartbeat
    told_epoch: int


@dataclass(slots=True)
class SavedMetadata:
    """When the metadata of one member were last saved, with a reason and at all (mono ms).

    newest: its last heartbeat, which may have been refused. waiting: the oldest early one that was
    accepted and has brought no newer epoch yet. lost: the one that waited when the group was loaded
    again, until there is a newer epoch.
    """

    group: ConsumerGroup
    saved_ms: int | None = None
    asked_ms: int | None = None
    newest: ProcessedHeartbeat | None = None
    waiting: AcceptedEarly | None = None
    lost: AcceptedEarly | None = None


class ToldMember(NamedTuple):
    """The chosen member that was told of its group: chosen since when, and told when (mono ms)."""

    group: ConsumerGroup
    member_id: str
    since_ms: int
    told_ms: int


class BeforeStep(NamedTuple):
    """The state that a step may change.

    is_known: the sender, or the static member that it replaces, is a member. assignors: the
    sender's, as they are saved. waits: whether a reason of the sender waits to be saved. prepared:
    the group as its chosen member was told.
    """

    group: ConsumerGroup
    epoch: int
    assignment_epoch: int
    is_known: bool
    assignors: tuple[RecordClientAssignor, ...] | None
    waits: bool
    prepared: PreparedGroup | None


class ClientAssignorChecker:
    """The history of the client-side assignors in the groups of one simulation.

    interval_ms: the time between two target assignments of a group.
    """

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = max(interval_ms, SECOND_MS)
        # The response after KEPT_MS reminds the member, and members may be slow.
        self._reminded_ms = 2 * KEPT_MS + self._interval_ms
        self._before: BeforeStep | None = None
        self._metadata: dict[tuple[str, str], SavedMetadata] = {}  # by group and member
        self._told: dict[str, ToldMember] = {}  # by group
        # by group and epoch of the target
        self._answers: dict[str, dict[int, SavedAnswers]] = {}

    def has_lost_reason(self, group_id: str, member_id: str) -> bool:
        """Return whether a crash has lost a reason of the member, which it has yet to repeat."""
        metadata = self._metadata.get((group_id, member_id))
        return metadata is not None and metadata.lost is not None

    def before_step(self, event: Any, shards: LoadedShards) -> None:
        """Note what a step over `event` may change."""
        self._before = None
        arrived = arrived_or_none(event)
        if arrived is not None and type(arrived.request) in (
            ConsumerGroupHeartbeatRequest,
            ConsumerGroupPrepareAssignmentRequest,
            ConsumerGroupInstallAssignmentRequest,
        ):
            request = arrived.request
            group = group_or_none(shards(), request.group_id)
            if group is not None:
                chosen = group.live.chosen
                offering = group.live.offering_members.get(request.member_id)
                self._before = BeforeStep(
                    group,
                    group.saved.epoch,
                    group.saved.assignment_epoch,
                    type(request) is ConsumerGroupHeartbeatRequest and _is_known(group, request),
                    _assignors_or_none(group, request.member_id),
                    offering is not None and has_reason(offering.early or ()),
                    None if chosen is None else chosen.prepared,
                )

    def after_step(self, event: Any, now_ms: int) -> None:
        """Check what a step over `event` has saved, and whom it has told."""
        before = self._before
        arrived = arrived_or_none(event)
        # After a start there is no event, and what was noted belongs to the lost process.
        if before is None or arrived is None:
            return
        if before.group.saved.assignment_epoch != before.assignment_epoch:
            self._note_answers(before.group)
        if type(arrived.request) is ConsumerGroupHeartbeatRequest:
            self._check_heartbeat(arrived.request, before, now_ms)
        elif type(arrived.request) is ConsumerGroupPrepareAssignmentRequest:
            self._check_told(before, now_ms)

    def reply_sent(
        self, request: ConsumerGroupHeartbeatRequest, body: ConsumerGroupHeartbeatResponse
    ) -> None:
        """Check what an accepted heartbeat has brought, and the assignor's answer that it gets."""
        if body.error_code != Code.NONE:
            return
        metadata = self._metadata.get((request.group_id, request.member_id))
        newest = None if metadata is None else metadata.newest
        if metadata is not None and newest is not None and newest.request is request:
            self._check_lost(metadata, newest, body.member_epoch)
            self._check_waiting(metadata, newest, body.member_epoch)
        if body.assignment is None:
            return
        answers = self._answers.get(request.group_id, {})
        group = None if metadata is None else metadata.group
        told = {epoch: tuple(each.of_group(group)) for epoch, each in answers.items()}
        self._check_answer(request, body.member_epoch, body.assignment, told)
        of_epoch = answers.get(body.member_epoch)
        if (
            metadata is not None
            and newest is not None
            and newest.request is request
            and newest.assignment_epoch == body.member_epoch
            and of_epoch is not None
            and of_epoch.group is metadata.group
        ):
            self._check_whole_answer(request, body.assignment, of_epoch)

    def _check_answer(
        self,
        request: ConsumerGroupHeartbeatRequest,
        epoch: int,
        told: Assignment,
        answers: dict[int, tuple[TargetAnswer, ...]],
    ) -> None:
        """Check that what comes with an assignment is an answer of the same epoch.

        An error of a newer target may come earlier, and after a restart metadata may be missing.
        """
        if told.metadata and not any(
            _has_metadata_of(told, each) for each in answers.get(epoch, ())
        ):
            raise LawBroken(
                "answer-of-its-epoch",
                f"{request.member_id} was told metadata {bytes(told.metadata).hex()} with epoch "
                f"{epoch}, for which they were not installed.",
            )
        since = (each for at, each in answers.items() if at >= epoch)
        if told.error and all(told.error != answer.error for each in since for answer in each):
            raise LawBroken(
                "answer-of-its-epoch",
                f"{request.member_id} was told error {told.error} with epoch {epoch}, and no "
                "target since then has that error.",
            )

    def _check_whole_answer(
        self, request: ConsumerGroupHeartbeatRequest, told: Assignment, answers: SavedAnswers
    ) -> None:
        """Check that a member which is at its target is told all that came with it."""
        answer = answers.of_members.get(request.instance_id or request.member_id)
        if answer is not None and not (
            told.error == answer.error and _has_metadata_of(told, answer)
        ):
            raise LawBroken(
                "answer-of-its-epoch",
                f"{request.member_id} was told metadata {bytes(told.metadata).hex() or 'none'} and "
                f"error {told.error}, and {answer.metadata.hex() or 'none'} and {answer.error} "
                "came with its target.",
            )

    def _note_answers(self, group: ConsumerGroup) -> None:
        """Note what came with the target that a group has now."""
        answers = {
            member.metadata.instance_id or name: member.target_answer
            for name, member in group.saved.members.items()
        }
        self._answers.setdefault(group.group_id, {})[group.saved.assignment_epoch] = SavedAnswers(
            group, answers, tuple(answers.values())
        )

    def _forget_answers(self, request: ConsumerGroupHeartbeatRequest) -> None:
        """Expect no answer for a member that begins without a target, or offers no assignors."""
        for answers in self._answers.get(request.group_id, {}).values():
            answers.of_members.pop(request.instance_id or request.member_id, None)

    def _check_told(self, before: BeforeStep, now_ms: int) -> None:
        """Check that a chosen member which was told of its group had not just been told."""
        group, chosen = before.group, before.group.live.chosen
        if chosen is None or chosen.prepared is None or chosen.prepared is before.prepared:
            return  # the request was refused
        told = ToldMember(group, chosen.member_id, chosen.since_ms, now_ms)
        last = self._told.get(group.group_id)
        self._told[group.group_id] = told
        if (
            last is not None
            # A member that is chosen anew begins anew.
            and (last.group is group and last[1:3] == told[1:3])
            and now_ms < last.told_ms + SECOND_MS
        ):
            raise LawBroken(
                "told-once-a-second",
                f"{told.member_id} was told of group {group.group_id} again after "
                f"{now_ms - last.told_ms} ms.",
            )

    def _check_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, before: BeforeStep, now_ms: int
    ) -> None:
        """Check what a heartbeat has saved of its member's assignors, and what still waits."""
        group, old = before.group, before.assignors
        key = group.group_id, request.member_id
        new = _assignors_or_none(group, request.member_id)
        # Who is no member and does not become one was refused: its instance id is another's.
        is_refused = old is None and new is None
        if not is_refused and not (before.is_known and new):
            self._forget_answers(request)
        # A member that ends gives up what the coordinator remembers of it.
        if request.member_epoch < 0 or new is None:
            self._metadata.pop(key, None)
            return
        metadata = self._metadata.get(key)
        if metadata is not None and metadata.group is group and old is None:
            # The membership of which this is known ended without a heartbeat.
            metadata = None
        if metadata is None or metadata.group is not group:
            lost = None if metadata is None else metadata.waiting or metadata.lost
            metadata = self._metadata[key] = SavedMetadata(group, lost=lost)
        has_asked = any(each.reason for each in request.client_assignors or ())
        if old is not None and old != new:
            # A saved reason that stays beside newer metadata does not ask once more.
            is_asking = has_reason(new) and (has_asked or before.waits)
            if request.member_epoch != JOINING and not is_other_offer(old, new):
                self._check_saved(request, metadata, now_ms, is_asking)
            metadata.saved_ms = now_ms
            if is_asking:
                metadata.asked_ms = now_ms
        epoch = group.saved.epoch
        # Where the broker assigns, a reason would not change the target.
        is_early = has_asked and group.saved.client_assignor is not None and epoch == before.epoch
        assignment_epoch = group.saved.assignment_epoch
        metadata.newest = ProcessedHeartbeat(request, now_ms, epoch, assignment_epoch, is_early)

    def _check_saved(
        self,
        request: ConsumerGroupHeartbeatRequest,
        metadata: SavedMetadata,
        now_ms: int,
        is_asking: bool,
    ) -> None:
        """Check that other metadata are saved once in an interval, and so are those that ask."""
        last_ms = metadata.asked_ms if is_asking else metadata.saved_ms
        if last_ms is not None and now_ms < last_ms + self._interval_ms:
            raise LawBroken(
                "saved-once-a-second",
                f"the assignors' metadata of {request.member_id} were saved again after "
                f"{now_ms - last_ms} ms.",
            )

    def _check_lost(
        self, metadata: SavedMetadata, accepted: ProcessedHeartbeat, told_epoch: int
    ) -> None:
        """Check that a reason which was lost with the group's live state was said again by now."""
        if metadata.lost is None:
            return
        request, lost = accepted.request, metadata.lost.heartbeat
        if (
            # An older epoch is of another group.
            accepted.epoch != lost.epoch
            # Where the broker assigns, a reason brings no epoch; and one ends with its membership.
            or metadata.group.saved.client_assignor is None
            or request.member_epoch == JOINING
        ):
            metadata.lost = None
            return
        age_ms = accepted.at_ms - lost.at_ms
        is_full = request.rebalance_timeout_ms >= 0
        if (is_full and age_ms < KEPT_MS // 2) or (
            # A newer epoch may be of a target that knew nothing of the reason, but ends it.
            told_epoch == metadata.lost.told_epoch and age_ms >= self._reminded_ms
        ):
            raise LawBroken(
                "reason-outlives-a-crash",
                f"{request.member_id} asked for a new assignment {age_ms} ms ago, which a crash "
                f"has lost since, and group {metadata.group.group_id} is still at epoch "
                f"{lost.epoch}.",
            )

    def _check_waiting(
        self, metadata: SavedMetadata, accepted: ProcessedHeartbeat, told_epoch: int
    ) -> None:
        """Check that the oldest reason which came too early has brought a newer epoch by now."""
        waiting = None if metadata.waiting is None else metadata.waiting.heartbeat
        if waiting is not None and accepted.epoch > waiting.epoch:
            metadata.waiting = waiting = None
        elif waiting is not None and (
            # A member that joins again saves at once what waits.
            accepted.request.member_epoch == JOINING
            or accepted.at_ms >= waiting.at_ms + self._interval_ms
        ):
            raise LawBroken(
                "reason-is-heard",
                f"{accepted.request.member_id} asked for a new assignment "
                f"{accepted.at_ms - waiting.at_ms} ms ago, and group {metadata.group.group_id} is "
                f"still at epoch {waiting.epoch}.",
            )
        if waiting is None and accepted.is_early:
            metadata.waiting = AcceptedEarly(accepted, told_epoch)


def _assignors_or_none(
    group: ConsumerGroup, member_id: str
) -> tuple[RecordClientAssignor, ...] | None:
    """Return what a group has saved of a member's assignors; None if it is no member."""
    member = group.saved.members.get(member_id)
    return None if member is None else member.metadata.client_assignors


def _is_known(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the sender of a heartbeat is a member, or replaces a static one."""
    return request.member_id in group.saved.members or (
        request.instance_id is not None and request.instance_id in group.saved.instances
    )


def _has_metadata_of(told: Assignment, answer: TargetAnswer) -> bool:
    """Return whether an assignment comes with the metadata of an assignor's answer."""
    return (told.metadata_version, bytes(told.metadata)) == (
        answer.metadata_version,
        bytes(answer.metadata),
    )
