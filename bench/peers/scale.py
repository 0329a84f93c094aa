"""Groups at scale: one of 2,000 members that join at once, and 10,000 groups of 3 members."""

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from itertools import count
from typing import NamedTuple

from bench.peers.brokers import Brokers, PeerBroker
from bench.peers.crowd import Crowd, CrowdShape
from bench.peers.rounds import Samples, Say, interleaved
from bench.peers.rows import BROKERS, OURS, PeerMissing
from bench.peers.wires import Wire

STORM = CrowdShape(groups=1, members=2_000, partitions=2_000, connections=2_000, join_s=1.0)
STORM_WARM_UP = "a round before the first"
STORM_ROWS = tuple(f"storm_join_2000_{of}" for of in ("s", "cpu_s", "rss_mb", "p99_ms"))
MANY = CrowdShape(groups=10_000, members=3, partitions=3, connections=300, join_s=10.0)
FEW = MANY._replace(groups=200, join_s=1.0)
MANY_SECONDS = 60.0
MANY_WARM_UP = (
    f"{FEW.groups} such groups join, rest for an interval and leave before the first round; before "
    f"members are measured at rest, each has sent a heartbeat since its group settled"
)
MANY_ROWS = tuple(f"many_groups_{of}" for of in ("join_cpu_s", "heartbeat_us", "rss_mb", "p99_ms"))


class Scene(NamedTuple):
    """What the members of new groups do on one topic.

    starts: the broker of each side, by its name in `STARTS`. warm_up: before the first round of a
    side. play: a round, which returns the values of its rows. Both take what their groups' names
    begin with, and raise PeerMissing.
    """

    topic: str
    partitions: int
    starts: Mapping[str, str]
    warm_up: Callable[[PeerBroker, str], object]
    play: Callable[[PeerBroker, str], dict[str, float]]


def measure_storm(brokers: Brokers, rounds: int, say: Say) -> Samples:
    """Measure STORM_ROWS."""
    starts = {side: side for side in (OURS, *BROKERS)}
    return played(Scene("storm", STORM.partitions, starts, storm, storm), brokers, rounds, say)


def measure_many_groups(brokers: Brokers, rounds: int, say: Say) -> Samples:
    """Measure MANY_ROWS."""
    starts = {OURS: "ours_at_5s"} | {side: side for side in BROKERS}
    scene = Scene("many", MANY.partitions, starts, few_groups, many_groups)
    return played(scene, brokers, rounds, say)


def played(scene: Scene, brokers: Brokers, rounds: int, say: Say) -> Samples:
    """Play the rounds of a scene, on each side after its warm-up."""
    numbers = count()
    warm: set[str] = set()

    def play(side: str) -> dict[str, float]:
        broker = brokers.get(scene.starts[side])
        if side not in warm:
            with Wire(broker.bootstrap) as wire:
                wire.create_topic(scene.topic, scene.partitions)
                wire.wait_for_coordinator(scene.topic)
            scene.warm_up(broker, f"{scene.topic}-{next(numbers)}")
            warm.add(side)
        return scene.play(broker, f"{scene.topic}-{next(numbers)}")

    return interleaved({side: partial(play, side) for side in scene.starts}, rounds, say)


def storm(broker: PeerBroker, group: str) -> dict[str, float]:
    """Let the members of a new group join and leave; return the values of STORM_ROWS."""
    with closing(Crowd(broker, "storm", group, STORM)) as crowd:
        before = broker.cpu_seconds()
        joined = crowd.join()
        used = broker.cpu_seconds() - before
        megabytes = broker.resident_megabytes()
        crowd.leave()  # or their sessions would expire in rounds of others
    return dict(zip(STORM_ROWS, (joined.seconds, used, megabytes, joined.p99_ms), strict=True))


def few_groups(broker: PeerBroker, prefix: str) -> None:
    """Let some groups do once what the many do, or the JVM would meet it cold."""
    with closing(Crowd(broker, "many", prefix, FEW)) as crowd:
        crowd.join()
        crowd.spread()
        crowd.leave()


def many_groups(broker: PeerBroker, prefix: str) -> dict[str, float]:
    """Let new groups settle, rest and leave; return the values of MANY_ROWS."""
    with closing(Crowd(broker, "many", prefix, MANY)) as crowd:
        before = broker.cpu_seconds()
        crowd.join()
        joined = broker.cpu_seconds()
        crowd.spread()
        at_rest = broker.cpu_seconds()
        rest = crowd.rest(MANY_SECONDS)
        used = broker.cpu_seconds() - at_rest
        megabytes = broker.resident_megabytes()
        crowd.leave()
    if not rest.responses:
        raise PeerMissing(f"no heartbeat was answered within {MANY_SECONDS:.0f} s")
    each_us = 1e6 * used / rest.responses
    return dict(zip(MANY_ROWS, (joined - before, each_us, megabytes, rest.p99_ms), strict=True))
