"""One instance of a Kafka Streams application: stream threads in one process, and the state that
they keep on one disk.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from apportion.streams.metadata.model import TaskId
from apportion.streams.metadata.releases import LEAVES_GROUP_ON_CLOSE
from apportion.streams.metadata.upgrades import RollingBounce


class InstanceThread(Protocol):
    """What an instance knows of its stream threads.

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
        """Call back within that incarnation of the thread's process."""
        ...


T = TypeVar("T", bound=InstanceThread)


class Instance(Generic[T]):
    """One instance. `runs_as` is what its process runs as, `will_run_as` what its next one will.

    disk, state: of each task that it has a store of: the offset in the changelog up to which the
    store goes, as the next process will find it and as this one has it. died_of: why its member
    could not go on; "" while it can. It stays dead then, until somebody starts it again.
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
        """Its process lives, with one thread at least."""
        return any(each.is_up for each in self.threads)

    @property
    def is_closing(self) -> bool:
        """It is being closed, and its last thread has not ended yet: so long its next process
        cannot begin.
        """
        return self._is_being_closed and self.is_up

    @property
    def version(self) -> int:
        """The newest metadata version that an assignment of its threads is in; -1 without one."""
        return max((each.assigned_version for each in self.threads if each.is_up), default=-1)

    @property
    def active(self) -> int:
        """How many tasks it runs."""
        return sum(len(each.active) for each in self.threads)

    @property
    def leaves_on_close(self) -> bool:
        """It tells the group when it is closed, as only the oldest releases do."""
        return self.runs_as.release.name in LEAVES_GROUP_ON_CLOSE

    def start(self) -> None:
        """A new process lives, with what the disk has."""
        self.runs_as, self.died_of, self.state = self.will_run_as, "", dict(self.disk)
        self._is_being_closed = False

    def close(self, will_run_as: RollingBounce) -> None:
        """All its threads are being closed, and its next process runs as that."""
        self.will_run_as, self._is_being_closed = will_run_as, True
        for each in self.threads:
            each.deliver(each.incarnation, each.close)

    def write_checkpoint(self) -> None:
        """The disk has the whole state."""
        self.disk = dict(self.state)

    def reportable_state(self, thread: T) -> dict[TaskId, int]:
        """The state that this thread can speak of: of its own tasks, and if it is the first that
        lives, of those of nobody.

        A task that another one was given since it last asked to join is nobody's here: that one has
        not spoken of it yet.
        """
        up = [each for each in self.threads if each.is_up]
        others = {
            task
            for each in up
            if each is not thread
            for task in each.locked
            if task in each.offset_sums_at_join
        }
        mine = self.state if thread is up[0] else thread.locked
        return {
            task: self.state[task] for task in mine if task in self.state and task not in others
        }
