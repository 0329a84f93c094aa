"""The computation of a KIP-848 group's target assignment by one of its members.

The coordinator chooses a member and says so in its heartbeat responses. The member asks for the
group's state (ConsumerGroupPrepareAssignment), runs its assignor on it, and sends the targets
(ConsumerGroupInstallAssignment). The assignor may take long and may ask the cluster, and both
requests have the whole group in them; heartbeats go on meanwhile. If the assignor fails, or a
request gets no response again and again, the computation ends: at its deadline the coordinator
chooses another member, and the older target stays until then.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum, auto
from typing import Any

from apportion.assign.by_name import Given, Subscription, TopicShape, by_topic
from apportion.errors import Code, Refused
from apportion.machine import Instant, Note
from apportion.member.assignors.runs import AssignorRun
from apportion.member.consumer.local_assignors import LocalAssignors
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.membership import (
    AssignorRan,
    RunAssignor,
    SendToCoordinator,
)
from apportion.topics import TopicId
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    InstalledMember,
    InstalledPartitions,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    AssignableMember,
    AssignableTopic,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)

ComputationResponse = (
    ConsumerGroupPrepareAssignmentResponse | ConsumerGroupInstallAssignmentResponse
)
CHOSEN_NO_MORE = (
    Code.STALE_MEMBER_EPOCH,
    Code.UNKNOWN_MEMBER_ID,
    Code.GROUP_ID_NOT_FOUND,
)
"""Errors of a computation whose group has changed, or has chosen another member: no fault of it."""
SHORTEST_PATIENCE_MS = 100
"""A coordinator waits for so long at least: what is refused sooner was not late."""
SLOW_MS = 5_000
"""How long an assignor may run before the log says so: half of what a broker allows by default in
`apportion.assignor.timeout.ms`.
"""
MOST_ATTEMPTS = 5
"""How often Prepare or Install is sent in one computation until there is a response."""


class ComputationStage(Enum):
    """The progress of a member that computes its group's target."""

    NOT_CHOSEN = auto()
    CHOSEN = auto()
    """Prepare is to be sent."""
    PREPARING = auto()
    RUNNING = auto()
    """The assignor runs."""
    ASKING = auto()
    """The assignor has a query to the cluster."""
    COMPUTED = auto()
    """Install is to be sent."""
    INSTALLING = auto()


DUE = (ComputationStage.CHOSEN, ComputationStage.COMPUTED)
"""The stages in which a request is to be sent."""


class TargetComputation:
    """The computation of one target, from the coordinator's choice to the response to Install."""

    def __init__(self, settings: ConsumerSettings, assignors: LocalAssignors) -> None:
        """Begin as a member that is not chosen."""
        self.stage = ComputationStage.NOT_CHOSEN
        self._settings = settings
        self._assignors = assignors
        self._in_flight: SendToCoordinator | None = None
        self._attempts = 0  # of the request that is due or in flight
        self._prepared = ConsumerGroupPrepareAssignmentResponse()
        self._targets: Mapping[str, Given] = {}
        self._run: AssignorRun | None = None
        self._running_id: int | None = None  # of the run that has not ended yet, wanted or not
        self._began_ms = self._took_ms = 0  # when it began (monotonic), and how long the last took
        self._run_began_ms = 0  # of the last call, which ends with an answer or a query
        self._is_slow = False  # the log has said that this call takes long
        self._was_chosen_again = False  # while the assignor ran: the coordinator has not waited

    @property
    def is_request_due(self) -> bool:
        """Return whether Prepare or Install is to be sent."""
        return self.stage in DUE

    @property
    def query(self) -> Any:
        """The assignor's query to the cluster; None if it has none."""
        asks = self.stage is ComputationStage.ASKING and self._run is not None
        return self._run.query if asks and self._run is not None else None

    def begin(self) -> bool:
        """Begin anew: the coordinator has chosen the member, or chosen it again.

        Return False, and begin nothing, while the assignor still runs from the last time. It may
        never end, and each run takes a thread of the member, whose heartbeats need one, too.
        """
        # A heartbeat may have overtaken the request, which the coordinator takes all the same.
        if self.stage is ComputationStage.PREPARING:
            return True
        self.abandon()
        if self._running_id is not None:
            self._was_chosen_again = True
            return False
        self.stage = ComputationStage.CHOSEN
        return True

    def abandon(self) -> None:
        """End the computation; whatever is under way for it changes nothing any more."""
        self.stage, self._run, self._in_flight = ComputationStage.NOT_CHOSEN, None, None
        self._attempts = 0
        # The state of a large group need not be kept until the next computation.
        self._prepared, self._targets = ConsumerGroupPrepareAssignmentResponse(), {}

    def repeat_request(self) -> None:
        """Send the last request again: it is not known whether the coordinator has seen it.

        The computation ends instead if that was tried often: the request itself may be the reason.
        """
        if self._attempts >= MOST_ATTEMPTS:
            self.abandon()
        elif self.stage is ComputationStage.PREPARING:
            self.stage = ComputationStage.CHOSEN
        elif self.stage is ComputationStage.INSTALLING:
            self.stage = ComputationStage.COMPUTED

    def send(self, request_id: int, epoch: int) -> SendToCoordinator:
        """Send the request that is due, which is in flight then. epoch: the member's."""
        self._attempts += 1
        self._in_flight = sent = SendToCoordinator(
            request_id, self._build_request(epoch), self._settings.computation_timeout_ms
        )
        return sent

    def take_answered(self, request_id: int) -> SendToCoordinator | None:
        """Return the request in flight if it has this id; then none is in flight any more."""
        answered = self._in_flight
        if answered is None or request_id != answered.request_id:
            return None
        self._in_flight = None
        return answered

    def end_refused(self, response: ComputationResponse, label: str) -> Note:
        """End the computation, which the coordinator does not take; return why, for the log.

        label: of the member.
        """
        is_repeated = self._attempts > 1
        self.abandon()
        code, api = Code.of(response.error_code), api_of(response)
        text = f"{api} of {label}: {response.error_message or code.sentence}"
        is_install = isinstance(response, ConsumerGroupInstallAssignmentResponse)
        is_replaced = is_install and code is Code.UNKNOWN_MEMBER_ID
        # A target that is sent again may be installed already: its first response was lost.
        if is_replaced and not is_repeated and self._took_ms >= SHORTEST_PATIENCE_MS:
            # Another member was chosen, most likely. Only the broker's log says so otherwise.
            return Note("warning", f"{text} It {self._explain_late()}")
        return Note("info" if code in CHOSEN_NO_MORE else "error", text)

    def _build_request(
        self, epoch: int
    ) -> ConsumerGroupPrepareAssignmentRequest | ConsumerGroupInstallAssignmentRequest:
        if self.stage is ComputationStage.CHOSEN:
            self.stage = ComputationStage.PREPARING
            return prepare_request(self._settings, epoch)
        self.stage = ComputationStage.INSTALLING
        prepared = self._prepared
        return ConsumerGroupInstallAssignmentRequest(
            group_id=self._settings.group_id,
            member_id=self._settings.member_id,
            member_epoch=epoch,
            group_epoch=prepared.group_epoch,
            error=_error_of(self._targets),
            members=_installed_members(prepared, self._targets),
        )

    def run(
        self, prepared: ConsumerGroupPrepareAssignmentResponse, request_id: int, now: Instant
    ) -> RunAssignor | None:
        """Return the run of the assignor on the group's state.

        None if the member does not have the assignor that the coordinator names.
        """
        assignor = self._assignors.named_or_none(prepared.assignor_name)
        if assignor is None:
            self.abandon()
            return None
        self._prepared, self._attempts, self._began_ms = prepared, 0, now.mono_ms
        names = {bytes(each.topic_id): each.topic_name for each in prepared.topics}
        self._assignors.add_names(names)
        cluster = {each.topic_name: _shape(each) for each in prepared.topics}
        members = {each.member_id: _subscription(each, names) for each in prepared.members}
        return self._start(AssignorRun(assignor, cluster, members), request_id, now)

    def resume(self, answer: Any, request_id: int, now: Instant) -> RunAssignor | None:
        """Return the run of an assignor whose query was answered; None if it has none any more.

        answer: an exception is thrown into it.
        """
        if self.stage is not ComputationStage.ASKING or self._run is None:
            return None
        return self._start(replace(self._run, answer=answer), request_id, now)

    def _start(self, run: AssignorRun, request_id: int, now: Instant) -> RunAssignor:
        self.stage, self._run, self._running_id = ComputationStage.RUNNING, run, request_id
        self._run_began_ms, self._is_slow = now.mono_ms, False
        return RunAssignor(request_id, run)

    @property
    def slow_at_ms(self) -> int | None:
        """When the log has to say that the assignor takes long; None if there is nothing to say."""
        is_quiet = self.stage is not ComputationStage.RUNNING or self._is_slow
        return None if is_quiet else self._run_began_ms + SLOW_MS

    def report_slow(self, label: str) -> Note:
        """Return what the log has to say of an assignor that takes long. label: of the member."""
        self._is_slow = True
        return Note(
            "warning",
            f"{label} computes the group's target, and its assignor has not answered for "
            f"{SLOW_MS / 1000:g} s: the older target stays meanwhile, and the coordinator asks "
            "another member once the broker's apportion.assignor.timeout.ms is over",
        )

    def take_outcome(self, ran: AssignorRan, now: Instant, label: str) -> Note | None:
        """Take what a run has come to; return what the log has to say of it, None for nothing.

        The outcome of a run that was abandoned changes nothing. label: of the member.
        """
        is_late, after_all = False, None
        if ran.request_id == self._running_id:
            self._running_id = None
            self._took_ms = now.mono_ms - self._began_ms
            is_late, self._was_chosen_again = self._was_chosen_again, False
            if self._is_slow:
                run_s = (now.mono_ms - self._run_began_ms) / 1000
                text = f"{label} has heard from its assignor after all, after {run_s:.1f} s"
                after_all = Note("warning", text)
        if self.stage is not ComputationStage.RUNNING:
            return Note("warning", f"{label} {self._explain_late()}") if is_late else after_all
        outcome = ran.outcome
        if isinstance(outcome, AssignorRun):
            self.stage, self._run = ComputationStage.ASKING, outcome
            return after_all
        if not isinstance(outcome, Refused):
            self.stage, self._targets = ComputationStage.COMPUTED, outcome
            return after_all
        self.abandon()
        return not_computed(label, outcome.why)

    def _explain_late(self) -> str:
        """Return what to do about an assignor whose target comes too late, for the log."""
        return (
            f"was too late with the group's target: its assignor took {self._took_ms / 1000:.1f} "
            "s. Make it faster, or raise the broker's apportion.assignor.timeout.ms; the member's "
            "max.poll.interval.ms limits it, too"
        )


def not_computed(label: str, why: str) -> Note:
    """Return the log line that an assignor has failed. label: of its member."""
    return Note(
        "error",
        f"{label} has not computed the group's target: {why}; the older one stays, and the "
        "coordinator asks another member",
    )


def api_of(response: ComputationResponse) -> str:
    """Return the API of a response."""
    return type(response).__name__.removesuffix("Response")


def prepare_request(
    settings: ConsumerSettings, epoch: int
) -> ConsumerGroupPrepareAssignmentRequest:
    """Return the request for the group's state. epoch: the member's."""
    return ConsumerGroupPrepareAssignmentRequest(
        group_id=settings.group_id, member_id=settings.member_id, member_epoch=epoch
    )


def _shape(topic: AssignableTopic) -> TopicShape:
    """Return a topic as an assignor is told of it."""
    racks = tuple(each.racks for each in sorted(topic.partitions, key=lambda each: each.partition))
    return TopicShape(len(racks), racks if any(racks) else ())


def _subscription(member: AssignableMember, names: Mapping[TopicId, str]) -> Subscription:
    """Return a member as an assignor is told of it: it owns what its older target names."""
    owned = by_topic(
        (names[bytes(each.topic_id)], number)
        for each in member.topic_partitions
        if bytes(each.topic_id) in names
        for number in each.partitions
    )
    topics = (names.get(bytes(each), "") for each in member.subscribed_topic_ids)
    return Subscription(
        tuple(sorted(filter(None, topics))),
        bytes(member.assignor.metadata) or None,
        owned,
        member.member_epoch if owned else -1,
        member.rack_id,
        member.instance_id,
        member.assignor.version,
        member.assignor.reason,
    )


def _installed_members(
    prepared: ConsumerGroupPrepareAssignmentResponse, targets: Mapping[str, Given]
) -> tuple[InstalledMember, ...]:
    """Return every member's target; one that the assignor has left out gets nothing."""
    ids = {each.topic_name: bytes(each.topic_id) for each in prepared.topics}
    return tuple(
        InstalledMember(
            member_id=member.member_id,
            topic_partitions=tuple(
                InstalledPartitions(topic_id=ids[topic], partitions=tuple(map(int, numbers)))
                for topic, numbers in by_topic(
                    (topic, number) for topic, numbers in given.partitions for number in numbers
                )
            ),
            metadata_version=prepared.assignor_version,
            metadata=given.user_data or b"",
        )
        for member in prepared.members
        for given in (targets.get(member.member_id, Given()),)
    )


def _error_of(targets: Mapping[str, Given]) -> int:
    """Return the one error of an assignor's answer; 0 for none."""
    return next((int(given.error) for given in targets.values() if given.error), 0)
