"""An application that reads as a plain consumer does: positions in memory, commits now and then.

The application reads each record at least once. It commits the positions of revoked partitions
before it reports to the coordinator that it released them, as a consumer with a rebalance listener
does.
"""

from apportion.errors import Refused
from apportion.member.batch.plan import EARLIEST, LATEST
from apportion.member.membership import Adopted, Polled
from apportion.sim.actors.application import Application
from apportion.sim.actors.members import has_new_target
from apportion.sim.actors.requests import (
    AwaitMember,
    NoAnswer,
    commit,
    committed_offsets,
    fetch_topics,
    list_offsets,
)
from apportion.sim.kernel.client import Sleep
from apportion.sim.kernel.clock import Script
from apportion.topics import TopicId, TopicIdPartition

IDLE_MS = 500


class Reader(Application):
    """One plain consumer. All readers form one group."""

    group = "readers"

    def script(self) -> Script:
        """Poll as a plain consumer does, until the process ends."""
        self._names: dict[TopicId, str] = {}
        self._positions: dict[TopicIdPartition, int] = {}
        self._committed: dict[TopicIdPartition, int] = {}
        self._incarnation = 0
        while True:
            self.step_member(Polled())
            try:
                yield from self._poll()
            except (Refused, NoAnswer):
                yield Sleep(200)
            yield AwaitMember(
                IDLE_MS + self.work_ms(self.simulation.scenario.batch_ms), has_new_target
            )

    def _poll(self) -> Script:
        """Adopt the newest target assignment, then read, as one poll of a consumer does."""
        view = self.member.view()
        if view.incarnation != self._incarnation:
            self._positions, self._committed, self._incarnation = {}, {}, view.incarnation
            self.set_in_use(self._incarnation, {})
        if view.epoch <= 0 or view.target is None:
            return
        if view.target != view.owned:
            yield from self._adopt_target()
        yield from self._advance()

    def _adopt_target(self) -> Script:
        """Adopt the target assignment of the consumer's member.

        Commit and release the revoked partitions, then read the new ones from their committed
        offsets.
        """
        view = self.member.view()
        assert view.target is not None
        incarnation, target = view.incarnation, view.target
        unknown = tuple(
            dict.fromkeys(each.topic_id for each in target if each.topic_id not in self._names)
        )
        for topic in (yield from fetch_topics(self, unknown)):
            self._names[topic.id] = topic.name
        assigned = [
            TopicIdPartition(self._names[each.topic_id], *each)
            for each in target
            if each.topic_id in self._names
        ]
        if any(partition not in assigned for partition in self._positions):
            yield Sleep(self.work_ms(100))
            # Before the release, as in Kafka's consumers: the next owner starts at the committed
            # offset.
            yield from self._try_to_commit()
        # Revoked partitions are released before the member reports it: after that another may read.
        kept = {partition: at for partition, at in self._positions.items() if partition in assigned}
        self._positions = kept
        self.set_in_use(incarnation, dict.fromkeys(kept))
        self.step_member(Adopted(incarnation, target))
        now = self.member.view()
        if (now.incarnation, now.owned) != (incarnation, target):
            return  # the target has changed meanwhile
        gained = [partition for partition in assigned if partition not in kept]
        self.set_in_use(incarnation, dict.fromkeys(assigned))
        committed = yield from committed_offsets(self, gained, incarnation)
        starts = yield from list_offsets(
            self, [partition for partition in gained if committed[partition] is None], EARLIEST
        )
        for partition in gained:
            # It may have been revoked while its offset was fetched.
            if partition in self.in_use.partitions:
                self._positions[partition] = (
                    starts[partition] if committed[partition] is None else committed[partition]
                )

    def _advance(self) -> Script:
        """Read to the end of every log, and commit now and then."""
        for partition in [
            partition for partition in self.in_use.partitions if partition not in self._positions
        ]:
            # The fetch of its committed offset failed when it was adopted.
            committed = yield from committed_offsets(self, [partition], self._incarnation)
            self._positions[partition] = committed[partition] or 0
        ends = yield from list_offsets(self, list(self._positions), LATEST)
        before, self._positions = (
            self._positions,
            {
                partition: max(at, ends.get(partition, at))
                for partition, at in self._positions.items()
            },
        )
        if self._positions == before or self.rng.random() < 0.5:
            yield from self._try_to_commit()

    def _try_to_commit(self) -> Script:
        """Commit the consumer's positions that have changed.

        A refused commit means that the member lost the partitions, so it is not tried again.
        """
        changed = {
            partition: at
            for partition, at in self._positions.items()
            if self._committed.get(partition) != at
        }
        try:
            yield from commit(self, changed, self._incarnation)
            self._committed.update(changed)
        except Refused:
            return
