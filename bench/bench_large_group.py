"""The first target of a very large consumer group in a broker: how long one step of it takes.

10,000 members share 1,000,000 partitions of 100 topics. A broker has them in its log and starts;
then one more member joins, and the group gets its first target. Everything is processor time. What
a step takes is what every other request of the broker waits for. The disk is a directory, and its
syncs are not counted, as they run on a thread of their own.
"""

import tempfile
from collections import deque
from statistics import median
from time import process_time
from typing import Any

from apportion.coord import records
from apportion.coord.records import Append
from apportion.machine import (
    Arrived,
    Caller,
    Compute,
    Computed,
    Flush,
    Flushed,
    Instant,
    Reply,
    Ticket,
)
from apportion.node.listeners import Address
from apportion.node.node import Node
from apportion.node.settings import BrokerSettings
from apportion.store.files import RealDisk
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.records.groups import ConsumerGroupMemberMetadataValue

MEMBERS, TOPICS, PARTITIONS = 10_000, 100, 10_000
CALLER = Caller("bench", "/127.0.0.1")
NAMES = tuple(f"t{number:03}" for number in range(TOPICS))
SETTINGS = BrokerSettings(offsets_topic_num_partitions=1)
FIRST_MS = 1_700_000_000_000


class MeasuredNode:
    """A node, with the milliseconds of each of its steps and of each computation beside them."""

    def __init__(self, disk: RealDisk) -> None:
        """Start a broker on the disk."""
        self.node = Node(disk, SETTINGS, {"PLAINTEXT": Address("localhost", 9092)})
        self.disk = disk
        self.now_ms = 0
        self.steps_ms: list[float] = []
        self.computations_ms: list[float] = []
        self.answer: Any = None
        self._carry_out(self.node.start(self._now(), bytes(16)))

    def ask(self, request: Any, version: int) -> Any:
        """Return the response to a request, when all that it has caused has ended."""
        self._step(Arrived(Ticket(1), request, version, CALLER, bytes(15) + b"1"))
        return self.answer

    def _now(self) -> Instant:
        return Instant(self.now_ms, FIRST_MS + self.now_ms)

    def _step(self, event: Any) -> None:
        start_s = process_time()
        actions = self.node.step(event, self._now())
        self.steps_ms.append((process_time() - start_s) * 1e3)
        self._carry_out(actions)

    def _carry_out(self, actions: list[Any]) -> None:
        waiting = deque(actions)
        while waiting:
            action = waiting.popleft()
            if isinstance(action, Reply):
                self.answer = action.body
            elif isinstance(action, Flush):
                self.disk.sync(action.paths)
                self._step(Flushed(action.flush_seq))
            elif isinstance(action, Compute):
                start_s = process_time()
                result = action.computation.run()
                self.computations_ms.append((process_time() - start_s) * 1e3)
                self._step(Computed(action.computation, result))


def write_group(disk: RealDisk) -> None:
    """Write the log of a broker whose group has all its members but one, and no target."""
    broker = MeasuredNode(disk)
    broker.ask(
        CreateTopicsRequest(
            topics=tuple(
                CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
                for name in NAMES
            ),
            timeout_ms=60_000,
        ),
        7,
    )
    broker.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4)
    leave(broker, "nobody")  # opens the log of the group
    metadata = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id=CALLER.client_id,
        client_host=CALLER.host,
        subscribed_topic_names=NAMES,
        subscribed_topic_regex="",
        rebalance_timeout_ms=60_000,
        server_assignor=None,
    )
    members = tuple(
        records.member_metadata("g", f"member-{number:05}", metadata)
        for number in range(MEMBERS - 1)
    )
    ((log, _),) = broker.node.shards()
    log.append_records(Append(members).encoded(), FIRST_MS)
    disk.sync(log.take_unsynced_paths())


def leave(broker: MeasuredNode, member_id: str) -> None:
    """Send a heartbeat by which a member leaves."""
    broker.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=-1), 1)


def join(broker: MeasuredNode, member_id: str) -> Any:
    """Return the response to the heartbeat by which a member joins, or joins again."""
    return broker.ask(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=NAMES,
            topic_partitions=(),
        ),
        1,
    )


def first_target() -> tuple[float, float, float]:
    """Return milliseconds: of the longest step of a first target, of all, and beside the steps."""
    with tempfile.TemporaryDirectory(dir=".") as root:  # beside the sources: /tmp may be in memory
        disk = RealDisk(root)
        write_group(disk)
        broker = MeasuredNode(disk)
        broker.steps_ms.clear()
        join(broker, "member-last")
        broker.now_ms += 1_000
        assigned = join(broker, "member-last")
        assert len(assigned.assignment.topic_partitions) == TOPICS, assigned
        disk.close()
        return max(broker.steps_ms), sum(broker.steps_ms), sum(broker.computations_ms)


def run() -> list[dict[str, Any]]:
    """Return the rows of `make bench`."""
    longest_ms, all_ms, beside_ms = map(
        median, zip(*(first_target() for _ in range(3)), strict=True)
    )
    return [
        row("first_target_longest_step_ms", longest_ms, 50),
        row("first_target_steps_ms", all_ms, None),
        row("first_target_beside_ms", beside_ms, None),
    ]


def row(name: str, value: float, target: float | None) -> dict[str, Any]:
    """Return one row of the table."""
    return {"name": name, "value": value, "unit": "ms", "target": target, "better": "lower"}


if __name__ == "__main__":
    for each in run():
        print(each)
