"""Rebalances: how long it takes until a librdkafka member that joins or leaves has changed a group.

The members are confluent-kafka's, with the consumer protocol (KIP-848) and default settings.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from bench.peers.brokers import Brokers
from bench.peers.bulk import shared_settings
from bench.peers.rounds import Samples, Say, interleaved
from bench.peers.rows import OURS, PeerMissing
from bench.peers.wires import GROUP_RESOURCE, Wire
from confluent_kafka import Consumer

MEMBERS, PARTITIONS = 10, 900
LIMIT_S = 90
POLL_S = 0.05
REST_S = 1.0  # the members of a group that has settled rest before the next change
WARM_UP = "the ten members have joined"
TOPIC = "rebalances"
SIDES = {OURS: OURS, "kafka": "kafka", "kafka_500ms": "kafka", "kfake": "kfake"}


class PolledMember:
    """A librdkafka member in a thread that polls it; `owned` is how many partitions it has."""

    def __init__(self, bootstrap: str, group: str, changed: threading.Condition) -> None:
        """Join the group. changed: notified at each assignment and revocation."""
        self.owned = 0
        self._changed = changed
        self._leaves = threading.Event()
        settings: dict[str, Any] = {
            **shared_settings(bootstrap),
            "group.id": group,
            "group.protocol": "consumer",
        }
        self._consumer = Consumer(settings)
        self._consumer.subscribe(
            [TOPIC],
            on_assign=partial(self._change, 1),
            on_revoke=partial(self._change, -1),
            on_lost=partial(self._change, -1),
        )
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Begin to leave the group."""
        self._leaves.set()

    def wait(self) -> None:
        """Wait until the member has left."""
        self._thread.join(LIMIT_S)

    def _poll(self) -> None:
        while not self._leaves.is_set():
            self._consumer.poll(POLL_S)
        self._consumer.close()

    def _change(self, sign: int, _consumer: Consumer, partitions: list[Any]) -> None:
        with self._changed:
            self.owned += sign * len(partitions)
            self._changed.notify_all()


class PolledGroup:
    """A group of MEMBERS that have PARTITIONS."""

    def __init__(self, bootstrap: str, group: str) -> None:
        """Let all members join and wait until each has its share. Raises PeerMissing."""
        self._bootstrap, self._group = bootstrap, group
        self._changed = threading.Condition()
        self._members = [self._member() for _ in range(MEMBERS)]
        self._wait_for_shares("settle")

    def change(self) -> dict[str, float]:
        """Let one more member join and leave; return the seconds of both. Raises PeerMissing."""
        time.sleep(REST_S)
        started = time.perf_counter()
        newcomer = self._member()
        self._members.append(newcomer)
        self._wait_for_shares("share with an eleventh")
        joined = time.perf_counter()
        time.sleep(REST_S)
        left = time.perf_counter()
        newcomer.leave()
        self._members.remove(newcomer)
        self._wait_for_shares("take over from one that left")
        ended = time.perf_counter()
        newcomer.wait()
        return {"join_10x900": joined - started, "leave_10x900": ended - left}

    def close(self) -> None:
        """Let all members leave."""
        for member in self._members:
            member.leave()
        for member in self._members:
            member.wait()

    def _member(self) -> PolledMember:
        return PolledMember(self._bootstrap, self._group, self._changed)

    def _wait_for_shares(self, what: str) -> None:
        """Wait until all partitions are owned, by each member at most one more than by another."""

        def is_shared() -> bool:
            owned = [member.owned for member in self._members]
            return sum(owned) == PARTITIONS and max(owned) - min(owned) <= 1

        with self._changed:
            if not self._changed.wait_for(is_shared, LIMIT_S):
                owned = [member.owned for member in self._members]
                raise PeerMissing(f"the members did not {what} within {LIMIT_S} s: {owned}")


@contextmanager
def settled_group(brokers: Brokers, side: str) -> Iterator[PolledGroup]:
    """Give a group of its own for this side."""
    broker, group = brokers.get(SIDES[side]), f"rebalances-{side}"
    with Wire(broker.bootstrap) as wire:
        wire.create_topic(TOPIC, PARTITIONS)
        if side == "kafka_500ms":
            wire.alter(GROUP_RESOURCE, group, "consumer.heartbeat.interval.ms", "500")
    settled = PolledGroup(broker.bootstrap, group)
    try:
        yield settled
    finally:
        settled.close()


def measure(brokers: Brokers, rounds: int, say: Say) -> Samples:
    """Measure join_10x900 and leave_10x900.

    Each side has a group of its own for all rounds: their members rest while others are measured.
    """
    groups: dict[str, PolledGroup] = {}
    with ExitStack() as stack:

        def play(side: str) -> dict[str, float]:
            if side not in groups:
                groups[side] = stack.enter_context(settled_group(brokers, side))
            return groups[side].change()

        return interleaved({side: partial(play, side) for side in SIDES}, rounds, say)
