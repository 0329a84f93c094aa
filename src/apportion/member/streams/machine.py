"""A member of a Kafka Streams group: a classic member whose assignor "stream" assigns tasks.

The member is a client of Kafka Streams 4.x on the classic protocol; the streams protocol of
KIP-1071 has members and heartbeats of its own, which this module does not speak. Its states are
those of `classic/states.py`, under the cooperative protocol (KIP-429). It has the classic member's
events, actions and `View`; in addition it takes the process's state of each task (`TaskOffsetSums`)
and has the assigned tasks (`tasks`). The owner still adopts partitions: it runs a task once it has
adopted all of the task's partitions, until it gives up one of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from apportion.machine import Instant, Note
from apportion.member.classic.machine import ClassicMember
from apportion.member.classic.requests import ClassicSettings
from apportion.member.membership import Action, Event, Failed, Left, Lost, Rejoin
from apportion.member.streams.assignor import StreamsAssignor, StreamsSettings, TaskShare
from apportion.streams.metadata.model import AssignorError, TaskId

SHUTDOWN_SINCE = 9
"""The first metadata version in which a member can ask all instances to shut down (KIP-671)."""


@dataclass(slots=True, frozen=True)
class TaskOffsetSums:
    """The local state of a Kafka Streams process, by task (`taskOffsetSums`).

    offset_sums: the sum of the changelogs' offsets up to which the local state goes; RUNNING for a
    task that it runs; OFFSET_UNKNOWN where it has some state. The next JoinGroup carries them to
    the leader.
    incarnation: as in `Adopted`; a task of an earlier one no longer runs.
    """

    offset_sums: Mapping[TaskId, int]
    incarnation: int


@dataclass(slots=True, frozen=True)
class ShutDownApplication:
    """The owner asks all instances of its Kafka Streams application to shut down (KIP-671).

    The rebalance that this starts carries the request to the other members.
    """


StreamsEvent = Event | TaskOffsetSums | ShutDownApplication


class StreamsMember(ClassicMember):
    """One consumer of one process in one Streams group.

    Raises ValueError if its settings do not go together.
    """

    def __init__(self, settings: StreamsSettings, classic: ClassicSettings) -> None:
        """Begin as a classic member with an assignor of its own.

        classic: all settings but the assignors.
        """
        self._assignor = StreamsAssignor(settings, lambda: self._ownership.incarnation)
        super().__init__(replace(classic, assignors=(self._assignor,), revokes_before_rejoin=True))

    def tasks(self) -> TaskShare:
        """Return the last assigned tasks; none after a lost membership."""
        return self._assignor.tasks

    @property
    def used_version(self) -> int:
        """The metadata version of the next subscription."""
        return self._assignor.used

    @property
    def rejoins_with_newer_version(self) -> bool:
        """True if the last assignment made this member join again in a newer version (KIP-268)."""
        return self._assignor.rejoins_with_newer_version

    def step(self, event: StreamsEvent, now: Instant) -> list[Action]:
        """Apply an event to a Streams member and return the actions that follow, in order."""
        assignor = self._assignor
        match event:
            case TaskOffsetSums(offset_sums, incarnation):
                # carried by the next JoinGroup; a change alone is no reason to rejoin
                assignor.offset_sums, assignor.sums_incarnation = offset_sums, incarnation
                return []
            # The subscription has no error field before version 9 (KIP-671), so the request would
            # be lost unnoticed.
            case ShutDownApplication() if assignor.used < SHUTDOWN_SINCE:
                why = (
                    f"the group uses metadata version {assignor.used}, in which no instance can "
                    "ask all to shut down"
                )
                return [Note("error", f"{why}; version {SHUTDOWN_SINCE} can")]
            case ShutDownApplication():
                assignor.error = AssignorError.SHUTDOWN_REQUESTED
                event = Rejoin("this instance asks all to shut down")
        # before the step: within it the assignor may write user data or assign as the leader
        assignor.member_id, assignor.wall_ms = self._member_id, now.wall_ms
        actions = super().step(event, now)
        # Tasks of a lost membership may run elsewhere already, so nobody may read them here.
        if any(isinstance(action, Lost | Left) for action in actions):
            assignor.tasks = TaskShare()
        if any(isinstance(action, Failed | Left) for action in actions):
            # or the next membership of this member would ask for the shutdown again
            assignor.forget_shutdown()
        notes, assignor.notes = assignor.notes, []
        return [*(Note("warning", note) for note in notes), *actions]
