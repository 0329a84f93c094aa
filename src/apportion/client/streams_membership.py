"""The membership of a Kafka Streams process: a group membership that also has tasks."""

from collections.abc import Callable, Iterable
from typing import Protocol

from apportion.client.cluster import Cluster
from apportion.client.group_membership import E_contra, GroupMembership, MembershipMachine
from apportion.member.membership import CoordinatorFound, Event
from apportion.member.records.streams_consumer import StreamsSnapshot
from apportion.member.streams.assignor import TaskShare


class StreamsMachine(MembershipMachine[E_contra], Protocol[E_contra]):
    """The state machine of a Kafka Streams member, which also has tasks."""

    def tasks(self) -> TaskShare:
        """Return the last assigned tasks; none after a lost membership."""
        ...


class StreamsMembership(GroupMembership[E_contra]):
    """One Kafka Streams member of one group. Its type names the events as that of the base does."""

    def __init__(
        self,
        cluster: Cluster,
        member: StreamsMachine[E_contra],
        topics: Iterable[str],
        *,
        before_join: Callable[[CoordinatorFound], Event] | None = None,
    ) -> None:
        """Take a Streams member's state machine, as `GroupMembership` does."""
        super().__init__(cluster, member, topics, before_join=before_join)
        self._streams_member, self._tasks = member, TaskShare()

    def snapshot(self) -> StreamsSnapshot:
        """Return the status and the tasks after the same step.

        Raises as that of `GroupMembership` does.
        """
        with self._changed:
            member = super().snapshot()
            return StreamsSnapshot(
                member.view, member.read_at_ms, member.interruptions, self._tasks
            )

    def report(self, event: E_contra) -> None:
        """Have the member send what the event says to the group.

        In a classic group the next JoinGroup carries it, and only ShutDownApplication starts a
        rebalance (KIP-671). In a consumer group each may ask for a new assignment.
        """
        self._driver.post(event)

    def _publish(self) -> None:
        # Within one lock with the view, so that a snapshot has both of one step.
        with self._changed:
            self._tasks = self._streams_member.tasks()
            super()._publish()
