"""One instance of a Kafka Streams application: stream threads in one process, and their state."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from apportion.streams.metadata.model import TaskId
from apportion.streams.metadata.releases import LEAVES_GROUP_ON_CLOSE
from apportion.streams.metadata.upgrades import RollingBounce


class InstanceThread(Protocol):
    """The part of a stream thread that its instance uses.

    offset_sums_at_join: the task offset sums in the subscription with which the thread last joined.
    """

    is_up: bool
    incarnation: int
    offset_sums_at_join: dict[TaskId, int]

    @property
    def active(self) -> Mapping[TaskId, None]:
        """The tasks that the thread runs."""
        ...

    @property
    def locked(self) -> Mapping[TaskId, None]:
        """The tasks whose state directories the thread has locked."""
        ...

    @property
    def assigned_version(self) -> int:
        """The metadata version of the thread's newest assignment; -1 without one."""
        ...

    def close(self) -> None:
        """Close the thread as `KafkaStreams.close` does."""
        ...

    def deliver(self, incarnation: int, callback: Callable[..., None], *args: Any) -> None:
        """Run the callback in that incarnation of the thread, or never."""
        ...


T = TypeVar("T", bound=InstanceThread)


class Instance(Generic[T]):
    """One instance.

    runs_as: the release of its present process; will_run_as: of its next one. disk, state: for each
    task with a store, the changelog offset up to which the store goes: on the disk, where the next
    process finds it, and in this process. died_of: why its member failed for good; "" if it did
    not. Such an instance stays down until it is bounced.
    """

    def __init__(self, name: str, first: RollingBounce) -> None:
        self.name = name
        self.runs_as = self.will_run_as = first
        self.threads: list[T] = []
        self.disk: dict[TaskId, int] = {}
        self.state: dict[TaskId, int] = {}
        self.died_of = ""
        self._is_being_closed = False

    @property
    def is_up(self) -> bool:
        """Return whether at least one thread of the instance lives."""
        return any(thread.is_up for thread in self.threads)

    @property
    def is_closing(self) -> bool:
        """Return whether the instance is being closed and a thread of it has not ended yet.

        The next process of the instance must wait for that.
        """
        return self._is_being_closed and self.is_up

    @property
    def version(self) -> int:
        """The newest metadata version of an assignment of its threads; -1 without one."""
        return max((thread.assigned_version for thread in self.threads if thread.is_up), default=-1)

    @property
    def active(self) -> int:
        """The number of tasks that the instance runs."""
        return sum(len(thread.active) for thread in self.threads)

    @property
    def leaves_on_close(self) -> bool:
        """Return whether a close sends LeaveGroup; only the oldest releases of Kafka Streams do."""
        return self.runs_as.release.name in LEAVES_GROUP_ON_CLOSE

    def start(self) -> None:
        """Start a new process, with the state that is on the disk."""
        self.runs_as, self.died_of, self.state = self.will_run_as, "", dict(self.disk)
        self._is_being_closed = False

    def close(self, will_run_as: RollingBounce) -> None:
        """Close all threads; the next process runs as `will_run_as`."""
        self.will_run_as, self._is_being_closed = will_run_as, True
        for thread in self.threads:
            thread.deliver(thread.incarnation, thread.close)

    def write_checkpoint(self) -> None:
        """Write the whole state to the disk."""
        self.disk = dict(self.state)

    def reportable_state(self, thread: T) -> dict[TaskId, int]:
        """Return the task offset sums that a stream thread reports in its subscription.

        A thread reports the tasks that it has locked. The first living thread also reports those
        that no thread has locked, as in Kafka Streams, so that leftover state is known to the
        leader. A task that another thread was assigned after its last JoinGroup counts as not
        locked: that thread has not reported it yet.
        """
        living = [other for other in self.threads if other.is_up]
        others = {
            task
            for other in living
            if other is not thread
            for task in other.locked
            if task in other.offset_sums_at_join
        }
        reported = self.state if thread is living[0] else thread.locked
        return {
            task: self.state[task] for task in reported if task in self.state and task not in others
        }
