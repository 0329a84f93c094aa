"""A group member that runs on its own threads: heartbeats go on while its owner works.

The owner is the code behind a `Consumer`, or a Spark query. It reads `status()`, an immutable
snapshot, at any time. When `status().target` differs from `status().owned`, it stops using what was
revoked, starts what was added, and calls `adopt`; only then is the change acknowledged to the
coordinator. `commit` and `committed` carry the member's id and epoch, so the coordinator refuses an
owner that has been replaced. One owner, any number of readers.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from apportion.client.cluster import Cluster
from apportion.client.member_requests import MemberRequests
from apportion.client.members import GroupMember, MembershipEvent
from apportion.client.network_client import RetryTimer
from apportion.client.outage import LOG_INTERVAL_S
from apportion.drive.clocks import now
from apportion.drive.threads import BlockingCall, ThreadDriver
from apportion.errors import Code, Refused
from apportion.machine import Note
from apportion.member.batch.sinks import AnotherSink
from apportion.member.cluster_queries.offsets import Membership, OffsetAndMetadata
from apportion.member.membership import (
    Action,
    Adopted,
    Event,
    Failed,
    FetchMetadata,
    FindCoordinator,
    Leave,
    Left,
    Lost,
    MemberAssignment,
    MembershipState,
    Offer,
    Polled,
    QueryCluster,
    SendToCoordinator,
    Subscribe,
    View,
)
from apportion.member.reactions import Reaction, reaction
from apportion.readable import readable
from apportion.topics import IdPartition, TopicIdPartition

V = TypeVar("V")
M = TypeVar("M", bound=GroupMember)
log = logging.getLogger("apportion.session")


class GroupMembership(Generic[M]):
    """One member of one group: its state machine, its threads, and the owner's calls to it."""

    def __init__(
        self,
        cluster: Cluster,
        member: M,
        topics: Iterable[str],
        *,
        history_limit: int = 256,
        before_join: Callable[[], None] | None = None,
    ) -> None:
        """Take a member's state machine (`make_member`); no thread runs before `start`.

        before_join: called once, on a background thread, when the coordinator is known and before
        it hears of the member; if it raises AnotherSink, the member does not join, and `refusal`
        holds the error.
        """
        self.cluster = cluster
        self.settings, self._member = member.settings, member
        self._topics = tuple(topics)
        self._status = self._member.view()
        self._changed = threading.Condition()
        self._history: deque[MembershipEvent] = deque(maxlen=history_limit)
        self._crash: BaseException | None = None
        self._left: Left | None = None
        self._requests = MemberRequests(
            cluster, self.settings.group_id, self.settings.response_timeout_ms, before_join
        )
        self._last_logged, self._log_again_s = "", 0.0
        self._driver: ThreadDriver[Event, Action] = ThreadDriver(
            self._member,
            perform=self._perform,
            after_step=self._publish,
            on_crash=self._record_crash,
            concurrent_calls=member.concurrent_calls,
        )

    # the owner's side

    def start(self) -> None:
        """Join the group; threads keep the member in it until `leave` or the process ends."""
        # The driver first: the post below has nobody to run it otherwise.
        self._driver.start(f"apportion-{self.settings.group_id}")
        self._driver.post(Subscribe(self._topics))

    def status(self) -> View:
        """Return the member's state after its last step.

        Raises RuntimeError if its thread died of a defect.
        """
        with self._changed:
            # A defect in the thread must not look like a quiet group: the owner would read on while
            # its session expires.
            if self._crash is not None:
                raise RuntimeError(
                    f"the session of group {self.settings.group_id!r} died: {self._crash!r}"
                ) from self._crash
            return self._status

    def wait(self, ready: Callable[[View], bool], timeout_ms: int) -> View:
        """Return the first status for which `ready` holds, or the present one at the timeout."""
        # The monotonic clock: a jump of the wall clock must neither cut a wait short nor extend it.
        deadline = time.monotonic() + timeout_ms / 1000
        with self._changed:
            while (
                self._crash is None
                and not ready(self._status)
                and (left := deadline - time.monotonic()) > 0
            ):
                self._changed.wait(left)
        return self.status()

    def wait_for_change(self, timeout_ms: int) -> View:
        """Return the first status that differs from the present one, or that one at the timeout."""
        before = self.status()
        return self.wait(lambda view: view != before, timeout_ms)

    def resolve_names(self, partitions: MemberAssignment) -> tuple[TopicIdPartition, ...]:
        """Return an assignment's partitions with their topics' names, in order.

        For the owner of the membership (`Consumer`, or a Spark query): KIP-848 assigns partitions
        by topic id. Those of topics that the cluster does not know are left out. Asks the cluster
        only for ids that it has not seen. Raises Refused or Disconnected.
        """
        topics = self.cluster.topics_by_id(each.topic_id for each in partitions)
        named = ((topics.with_id(each.topic_id), each.partition) for each in partitions)
        return tuple(
            sorted(
                TopicIdPartition(topic.name, topic.id, number)
                for topic, number in named
                if topic is not None
            )
        )

    def adopt(self, incarnation: int, owned: Iterable[IdPartition | TopicIdPartition]) -> None:
        """Own exactly these partitions from now on, and acknowledge that to the coordinator.

        incarnation: that of the status whose target was applied. Nothing happens if the member has
        lost its membership since, or if `owned` contains partitions that the coordinator has
        revoked since: the next status shows it.
        """
        adopted = tuple(sorted({IdPartition(each.topic_id, each.partition) for each in owned}))
        self._post_and_wait(
            Adopted(incarnation, adopted),
            lambda view: view.incarnation != incarnation or view.owned == adopted,
        )

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe the group member to these topics from the next heartbeat on."""
        self._topics = tuple(topics)
        self._driver.post(Subscribe(self._topics))

    def touch(self) -> None:
        """Show the member that its owner polls. Needed only with `poll_limit_ms`.

        Without it the member leaves the group after max.poll.interval.ms, as Kafka's consumers do.
        """
        self._driver.post(Polled())

    def commit(
        self,
        offsets: Mapping[TopicIdPartition, int],
        *,
        incarnation: int | None = None,
        metadata: str = "",
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets as this member, at its present epoch.

        incarnation: the one in which the partitions were owned; a later one may not commit for it.
        None: the present one. Raises Refused (UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH) if the member
        may not, or may no longer, commit.
        """
        # An empty OffsetCommit would still be checked against the epoch, and could fail over
        # nothing.
        if offsets:
            self._as_member(
                lambda membership, left_ms: self.cluster.commit(
                    self._group, offsets, membership, metadata=metadata, timeout_ms=left_ms
                ),
                timeout_ms,
                incarnation,
            )

    def committed(
        self,
        partitions: Iterable[TopicIdPartition],
        *,
        incarnation: int | None = None,
        timeout_ms: int | None = None,
    ) -> dict[TopicIdPartition, int | None]:
        """Fetch the committed offset of each partition as this member; None where there is none."""
        offsets = self.committed_offsets(partitions, incarnation=incarnation, timeout_ms=timeout_ms)
        return {partition: each.offset for partition, each in offsets.items()}

    def committed_offsets(
        self,
        partitions: Iterable[TopicIdPartition],
        *,
        incarnation: int | None = None,
        timeout_ms: int | None = None,
    ) -> dict[TopicIdPartition, OffsetAndMetadata]:
        """Fetch the committed offset of each partition, with its metadata, as this member."""
        requested = tuple(partitions)
        return self._as_member(
            lambda membership, left_ms: self.cluster.committed_offsets(
                self._group, requested, membership, timeout_ms=left_ms
            ),
            timeout_ms,
            incarnation,
        )

    @property
    def refusal(self) -> AnotherSink | None:
        """The error with which `before_join` kept the member out of the group."""
        return self._requests.refusal

    def history(self) -> tuple[MembershipEvent, ...]:
        """Return the last `history_limit` events of the membership, oldest first."""
        with self._changed:
            return tuple(self._history)

    def leave(self, timeout_ms: int = 3_000, *, for_good: bool = False) -> bool:
        """Leave the group and stop the threads; return whether the coordinator confirmed that.

        A static member (group.instance.id, KIP-345) keeps its assignment until it returns or its
        session expires, unless it leaves for good.
        """
        # The driver is stopped only below, after the answer or the timeout: a dynamic member that
        # goes without LeaveGroup holds its partitions for a whole session timeout.
        self._driver.post(Leave(for_good))
        deadline = time.monotonic() + timeout_ms / 1000
        with self._changed:
            while (
                self._left is None
                and self._crash is None
                and (left := deadline - time.monotonic()) > 0
            ):
                self._changed.wait(left)
        self._driver.stop()
        return self._left is not None and self._left.is_confirmed

    @property
    def _group(self) -> str:
        return self.settings.group_id

    def _as_member(
        self, call: Callable[[Membership, int], V], timeout_ms: int | None, incarnation: int | None
    ) -> V:
        """Commit or fetch offsets as the group member: call `call` with its id and epoch.

        The second argument of `call` is the time left, in ms. incarnation: that of the membership
        under which the caller got its partitions; None: the present one. Raises Refused if the
        member has lost that membership since.

        If the coordinator answers that the epoch is stale, wait for the next heartbeat to bring the
        new one, and call it again: the member still owns its partitions (KIP-848, commits).
        """
        retry_timer = RetryTimer(self.cluster.timeout_ms if timeout_ms is None else timeout_ms)
        # Fixed before the first try: a retry after the membership was lost must not commit as the
        # member that joined since.
        incarnation = self.status().incarnation if incarnation is None else incarnation
        while True:
            view = self.status()
            # Epochs below 1 are not those of an admitted member (KIP-848), so the coordinator would
            # refuse the request anyway, or, in an empty group, accept a commit that nobody may
            # make.
            if view.epoch <= 0 or view.incarnation != incarnation:
                raise Refused(
                    Code.UNKNOWN_MEMBER_ID,
                    f"this member is not in group {self._group!r} now ({view.state.value})",
                )
            try:
                return call(
                    Membership(view.member_id, view.epoch, self.settings.instance_id),
                    retry_timer.left_ms(),
                )
            except Refused as refused:
                if reaction("OffsetCommit", refused.code) is not Reaction.RETRY_WITH_NEW_EPOCH:
                    raise
                if not self._wait_for_new_epoch(view.epoch, min(retry_timer.left_ms(), 1_000)):
                    retry_timer.pause(refused)

    def _wait_for_new_epoch(self, epoch: int, timeout_ms: int) -> bool:
        return self.wait(lambda view: view.epoch != epoch, timeout_ms).epoch != epoch

    def _post_and_wait(self, event: Event, done: Callable[[View], bool]) -> None:
        self._driver.post(event)
        self.wait(lambda view: done(view) or view.epoch <= 0, 1_000)

    # the threads' side

    def _perform(self, action: Action) -> BlockingCall[Event] | None:
        """Perform an action of the machine, or return the call that has to wait for a broker."""
        match action:
            case FindCoordinator() | SendToCoordinator() | FetchMetadata() | QueryCluster():
                return lambda: self._requests.send(action)
            case Offer(incarnation, _, revoke, add):
                self._record("offered", incarnation, revoke, add)
            case Lost(incarnation, lost):
                self._record("lost", incarnation, lost, ())
            case Failed(code, why):
                self._record("failed", self._status.incarnation, (), (), why=f"{code.name}: {why}")
                log.error("group %s: %s: %s", readable(self._group), code.name, readable(why))
            case Left():
                self._record("left", self._status.incarnation, (), ())
                with self._changed:
                    self._left = action
            case Note(level, text):
                self._log(level, f"group {self._group}: {text}")
        return None

    def _log(self, level: str, text: str) -> None:
        """Log a line unless the last one was the same: an outage must not fill the log."""
        if text != self._last_logged or time.monotonic() >= self._log_again_s:
            self._last_logged, self._log_again_s = text, time.monotonic() + LOG_INTERVAL_S
            log.log(logging.getLevelName(level.upper()), "%s", readable(text))

    def _record(
        self,
        what: str,
        incarnation: int,
        revoked: MemberAssignment,
        added: MemberAssignment,
        *,
        why: str = "",
    ) -> None:
        epoch = self._member.view().epoch
        event = MembershipEvent(now().wall_ms, what, incarnation, epoch, revoked, added, why)
        with self._changed:
            self._history.append(event)

    def _publish(self) -> None:
        """Take a snapshot after a step, for the owner's calls, and wake those that wait."""
        view = self._member.view()
        with self._changed:
            before, self._status = self._status, view
            if (
                view.owned != before.owned
                and view.incarnation == before.incarnation
                and view.state is not MembershipState.LEAVING
                and view.epoch > 0
            ):
                revoked = tuple(each for each in before.owned if each not in view.owned)
                added = tuple(each for each in view.owned if each not in before.owned)
                self._record("adopted", view.incarnation, revoked, added)
            self._changed.notify_all()

    def _record_crash(self, error: BaseException) -> None:
        log.error("the session of group %s died", self._group, exc_info=error)
        with self._changed:
            self._crash = error
            self._changed.notify_all()
