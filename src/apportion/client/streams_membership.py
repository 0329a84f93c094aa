"""The membership of a Kafka Streams process: a group membership that also has tasks."""

from apportion.client.group_membership import GroupMembership
from apportion.member.records.streams_consumer import StreamsSnapshot
from apportion.member.streams.assignor import TaskShare
from apportion.member.streams.client_side_machine import (
    ChangeTopology,
    ClientSideStreamsMember,
    WarmUpFailed,
)
from apportion.member.streams.machine import ShutDownApplication, StreamsMember, TaskOffsetSums


class StreamsMembership(GroupMembership[StreamsMember | ClientSideStreamsMember]):
    """One Kafka Streams member of one group."""

    _tasks = TaskShare()

    def snapshot(self) -> StreamsSnapshot:
        """Return the status and the tasks after the same step.

        Raises as that of `GroupMembership` does.
        """
        with self._changed:
            member = super().snapshot()
            return StreamsSnapshot(
                member.view, member.read_at_ms, member.interruptions, self._tasks
            )

    def report(
        self, task_state: TaskOffsetSums | ShutDownApplication | WarmUpFailed | ChangeTopology
    ) -> None:
        """Have the member send this to the group.

        In a classic group the next JoinGroup carries it, and only ShutDownApplication starts a
        rebalance (KIP-671). In a consumer group each may ask for a new assignment; the last two are
        for such a group only.
        """
        self._driver.post(task_state)

    def _publish(self) -> None:
        # Within one lock with the view, so that a snapshot has both of one step.
        with self._changed:
            self._tasks = self._member.tasks()
            super()._publish()
