"""A group member that runs on its own threads: heartbeats go on while its owner works.

The owner reads `status()`, an immutable snapshot, at any time. When `status().target` differs from
`status().owned`, it stops using what it must, starts what it may, and calls `adopt`; only then is
the change acknowledged to the coordinator. `commit` and `committed` carry the member's id and
epoch, so the coordinator refuses an owner that has been replaced. One owner, any number of readers.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from apportion.client.answers import answer_query
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.client.members import GroupMember, MemberSettings, MembershipEvent, make_member
from apportion.client.network_client import RetryTimer
from apportion.drive.clocks import now
from apportion.drive.threads import BlockingCall, ThreadDriver
from apportion.errors import Code, Refused
from apportion.machine import Note
from apportion.member.batch.offsets import Membership, OffsetAndMetadata
from apportion.member.batch.sinks import AnotherSink
from apportion.member.membership import (
    Action,
    Adopted,
    Answered,
    Assignment,
    CoordinatorFound,
    Event,
    Failed,
    FetchMetadata,
    FindCoordinator,
    Leave,
    Left,
    Lost,
    MembershipState,
    MetadataFetched,
    Offer,
    Polled,
    QueryCluster,
    SendToCoordinator,
    ShutDownApplication,
    Subscribe,
    TaskOffsetSums,
    Unanswered,
    View,
)
from apportion.member.reactions import Reaction, reaction
from apportion.member.streams.assignor import TaskShare
from apportion.member.streams.machine import StreamsMember
from apportion.readable import readable
from apportion.topics import IdPartition, TopicIdPartition

V = TypeVar("V")
log = logging.getLogger("apportion.session")
SAID_AGAIN_S = 30.0
# a classic member may wait for its group, look up topics and say goodbye at the same time
AT_ONCE = 3


class GroupMembership:
    """The membership of one owner in one group."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Iterable[str],
        *,
        protocol: str = "consumer",
        history_limit: int = 256,
        before_join: Callable[[], None] | None = None,
        **settings: Any,
    ) -> None:
        """Nothing runs yet. protocol: "consumer" (KIP-848), "classic", or "streams", a classic
        group of Kafka Streams.

        before_join: called once, on a thread of the session, when the coordinator is known and has
        heard nothing of the member yet; with AnotherSink the member does not join, and `refusal`
        says why.
        settings: fields of the KIP-848 member's `Settings`, or of `ClassicSettings`, such as
        instance_id; with "streams" also `streams`, the member's StreamsSettings.
        """
        self.cluster = cluster
        self.settings: MemberSettings
        self._member: GroupMember
        self.settings, self._member = make_member(protocol, group_id, settings)
        self._topics = tuple(topics)
        self._status = self._member.view()
        self._tasks = TaskShare()
        self._changed = threading.Condition()
        self._history: deque[MembershipEvent] = deque(maxlen=history_limit)
        self._crash: BaseException | None = None
        self._left: Left | None = None
        self.refusal: AnotherSink | None = None  # what `before_join` has raised
        self._before_join = before_join
        self._last_logged, self._log_again_s = "", 0.0
        self._driver: ThreadDriver[Event, Action] = ThreadDriver(
            self._member,
            self._act,
            self._publish,
            self._crashed,
            errands=1 if protocol == "consumer" else AT_ONCE,
        )

    # the owner's side

    def start(self) -> None:
        """Join the group; the session's threads keep the member in it until `leave` or the end of
        the process.
        """
        self._driver.start(f"apportion-{self.settings.group_id}")
        self._driver.post(Subscribe(self._topics))

    def status(self) -> View:
        """Return the member's state after its last step.

        Raises RuntimeError if its thread died of a defect.
        """
        with self._changed:
            if self._crash is not None:
                raise RuntimeError(
                    f"the session of group {self.settings.group_id!r} died: {self._crash!r}"
                ) from self._crash
            return self._status

    def wait(self, ready: Callable[[View], bool], timeout_ms: int) -> View:
        """Return the first status for which `ready` holds, or the present one after
        `timeout_ms`.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        with self._changed:
            while (
                self._crash is None
                and not ready(self._status)
                and (left := deadline - time.monotonic()) > 0
            ):
                self._changed.wait(left)
        return self.status()

    def wait_for_news(self, timeout_ms: int) -> View:
        """Return the first status that differs from the present one, or that one again after
        `timeout_ms`.
        """
        seen = self.status()
        return self.wait(lambda view: view != seen, timeout_ms)

    def resolve_names(self, held: Assignment) -> tuple[TopicIdPartition, ...]:
        """Return the partitions with their topics' names, in order, without topics that the cluster
        does not know.

        Asks the cluster only for ids that it has not seen. Raises Refused or Disconnected when it
        cannot.
        """
        topics = self.cluster.topics_by_id(partition.topic_id for partition in held)
        named = ((topics.with_id(partition.topic_id), partition.partition) for partition in held)
        return tuple(
            sorted(
                TopicIdPartition(topic.name, topic.id, number)
                for topic, number in named
                if topic is not None
            )
        )

    def adopt(self, incarnation: int, held: Iterable[IdPartition | TopicIdPartition]) -> None:
        """Use exactly `held` from now on, and acknowledge it to the coordinator at once.

        incarnation: that of the status which `held` was taken from. Nothing happens if the member
        has lost its membership since, or if `held` contains what the coordinator revoked since: the
        next status shows it.
        """
        mine = tuple(sorted({IdPartition(place.topic_id, place.partition) for place in held}))
        self._post_and_wait(
            Adopted(incarnation, mine),
            lambda view: view.incarnation != incarnation or view.owned == mine,
        )

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics from the next heartbeat on."""
        self._topics = tuple(topics)
        self._driver.post(Subscribe(self._topics))

    def snapshot(self) -> tuple[View, TaskShare]:
        """Return the status and the tasks of a Kafka Streams member after the same step.

        Raises as `status` does.
        """
        with self._changed:
            return self.status(), self._tasks

    def report(self, progress: TaskOffsetSums | ShutDownApplication) -> None:
        """Send this to the Kafka Streams group with the next JoinGroup.

        ShutDownApplication starts a rebalance.
        """
        self._driver.post(progress)

    def touch(self) -> None:
        """Tell the member that its owner is alive. Needed only with `poll_limit_ms`."""
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

        incarnation: the one in which the owner held these partitions; a later one may not commit
        for it.
        None: the present one. Raises Refused (UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH) if the member
        is not, or no longer, the one that may commit.
        """
        if offsets:
            self._as_member(
                lambda who, left: self.cluster.commit(
                    self._group, offsets, who, metadata=metadata, timeout_ms=left
                ),
                timeout_ms,
                incarnation,
            )

    def committed(
        self,
        places: Iterable[TopicIdPartition],
        *,
        incarnation: int | None = None,
        timeout_ms: int | None = None,
    ) -> dict[TopicIdPartition, int | None]:
        """Return the committed offset of each partition, None where there is none, fetched as this
        member.
        """
        return {
            place: one.offset
            for place, one in self.committed_offsets(
                places, incarnation=incarnation, timeout_ms=timeout_ms
            ).items()
        }

    def committed_offsets(
        self,
        places: Iterable[TopicIdPartition],
        *,
        incarnation: int | None = None,
        timeout_ms: int | None = None,
    ) -> dict[TopicIdPartition, OffsetAndMetadata]:
        """Return the committed offset of each partition with its metadata, fetched as this
        member.
        """
        wanted = tuple(places)
        return self._as_member(
            lambda who, left: self.cluster.committed_offsets(
                self._group, wanted, who, timeout_ms=left
            ),
            timeout_ms,
            incarnation,
        )

    def history(self) -> tuple[MembershipEvent, ...]:
        """Return the last `history_limit` events of the membership, oldest first."""
        with self._changed:
            return tuple(self._history)

    def leave(self, timeout_ms: int = 3_000, *, for_good: bool = False) -> bool:
        """Leave the group and stop the threads.

        Return whether the coordinator confirmed it in time.

        A static member (with an instance id) keeps its place for its return, unless it leaves for
        good.
        """
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
        self, ask: Callable[[Membership, int], V], timeout_ms: int | None, incarnation: int | None
    ) -> V:
        """Call `ask` as the member, and again in the same incarnation if the epoch has moved on
        meanwhile.
        """
        retry_timer = RetryTimer(self.cluster.timeout_ms if timeout_ms is None else timeout_ms)
        incarnation = self.status().incarnation if incarnation is None else incarnation
        while True:
            view = self.status()
            if view.epoch <= 0 or view.incarnation != incarnation:
                raise Refused(
                    Code.UNKNOWN_MEMBER_ID,
                    f"this member of group {self._group!r} has no place now ({view.state.value})",
                )
            try:
                return ask(
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

    def _act(self, action: Action) -> BlockingCall[Event] | None:
        match action:
            case FindCoordinator():
                return lambda: self._find_coordinator(action)
            case SendToCoordinator():
                return lambda: self._send(action)
            case FetchMetadata():
                return lambda: self._fetch_metadata(action)
            case QueryCluster():
                return lambda: self._answer_query(action)
            case Offer(incarnation, _, revoke, add):
                self._record("offered", incarnation, revoke, add)
            case Lost(incarnation, lost):
                self._record("lost", incarnation, lost, ())
            case Failed(code, why):
                self._record("failed", self._status.incarnation, (), (), f"{code.name}: {why}")
                log.error("group %s: %s: %s", readable(self._group), code.name, readable(why))
            case Left():
                self._record("left", self._status.incarnation, (), ())
                with self._changed:
                    self._left = action
            case Note(level, text):
                self._log(level, text)
        return None

    def _log(self, level: str, text: str) -> None:
        """Log a line; the same line again only after a while, so that an outage does not fill the
        log.
        """
        if text != self._last_logged or time.monotonic() >= self._log_again_s:
            self._last_logged, self._log_again_s = text, time.monotonic() + SAID_AGAIN_S
            log.log(logging.getLevelName(level.upper()), "%s", readable(text))

    def _find_coordinator(self, action: FindCoordinator) -> Event:
        self.cluster.forget_coordinator(action.group_id)
        try:
            self.cluster.find_coordinator(
                action.group_id, timeout_ms=self.settings.request_timeout_ms
            )
        except Refused as refused:
            return Unanswered(action.request_id, refused.why, refused.code)
        except Disconnected as error:
            return Unanswered(action.request_id, str(error))
        return (
            CoordinatorFound(action.request_id)
            if self._before_join is None
            else self._run_before_join(self._before_join, action)
        )

    def _run_before_join(self, look: Callable[[], None], action: FindCoordinator) -> Event:
        try:
            look()
        except AnotherSink as refusal:
            self.refusal = refusal
            return Leave()
        except Disconnected as error:
            return Unanswered(action.request_id, str(error))
        except Refused as refused:
            if refused.code.retriable:
                return Unanswered(action.request_id, refused.why)
        self._before_join = None
        return CoordinatorFound(action.request_id)

    def _send(self, action: SendToCoordinator) -> Event:
        try:
            return Answered(
                action.request_id,
                self.cluster.call(
                    action.request, coordinator=self._group, timeout_ms=action.timeout_ms
                ),
            )
        except Disconnected as error:
            return Unanswered(action.request_id, str(error))
        except Refused as refused:
            return Unanswered(action.request_id, refused.why, refused.code)

    def _fetch_metadata(self, action: FetchMetadata) -> Event:
        try:
            return MetadataFetched(action.request_id, self.cluster.look_up(action.names))
        except (Disconnected, Refused) as error:
            return Unanswered(action.request_id, str(error))

    def _answer_query(self, action: QueryCluster) -> Event:
        try:
            return answer_query(self.cluster, self._group, action)
        except Refused as refused:
            return Unanswered(action.request_id, refused.why, refused.code)
        except Disconnected as error:
            return Unanswered(action.request_id, str(error))

    def _record(
        self, what: str, incarnation: int, revoked: Assignment, added: Assignment, why: str = ""
    ) -> None:
        with self._changed:
            self._history.append(
                MembershipEvent(
                    now().wall_ms, what, incarnation, self._member.view().epoch, revoked, added, why
                )
            )

    def _publish(self) -> None:
        view = self._member.view()
        with self._changed:
            before, self._status = self._status, view
            if isinstance(self._member, StreamsMember):
                self._tasks = self._member.tasks()
            if (
                view.owned != before.owned
                and view.incarnation == before.incarnation
                and view.state is not MembershipState.LEAVING
                and view.epoch > 0
            ):
                revoked = tuple(one for one in before.owned if one not in view.owned)
                added = tuple(one for one in view.owned if one not in before.owned)
                self._history.append(
                    MembershipEvent(
                        now().wall_ms, "adopted", view.incarnation, view.epoch, revoked, added
                    )
                )
            self._changed.notify_all()

    def _crashed(self, error: BaseException) -> None:
        log.error("the session of group %s died", self._group, exc_info=error)
        with self._changed:
            self._crash = error
            self._changed.notify_all()
