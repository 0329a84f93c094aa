"""Groups at scale: one of 2,000 members that join at once, and 10,000 groups of 3 members."""

from contextlib import closing
from functools import partial
from itertools import count

from bench.peers.brokers import Brokers, PeerBroker
from bench.peers.crowd import Crowd, CrowdShape
from bench.peers.rounds import Samples, Say, interleaved
from bench.peers.rows import BROKERS, OURS
from bench.peers.wires import Wire

STORM = CrowdShape(groups=1, members=2_000, partitions=2_000, connections=2_000, join_s=1.0)
STORM_WARM_UP = "a round before the first"
MANY = CrowdShape(groups=10_000, members=3, partitions=3, connections=300, join_s=10.0)
MANY_SECONDS = 60.0
MANY_WARM_UP = "all groups have settled, and each member has sent a heartbeat since"


def measure_storm(brokers: Brokers, rounds: int, say: Say) -> Samples:
    """Measure storm_join_2000_s and storm_join_2000_cpu_s."""
    names = count()
    warm: set[str] = set()

    def play(side: str) -> dict[str, float]:
        broker = brokers.get(side)
        if side not in warm:
            _topic(broker, "storm", STORM.partitions)
            storm(broker, f"storm-{next(names)}")
            warm.add(side)
        return storm(broker, f"storm-{next(names)}")

    return interleaved({side: partial(play, side) for side in (OURS, *BROKERS)}, rounds, say)


def storm(broker: PeerBroker, group: str) -> dict[str, float]:
    """Let the members of a new group join and leave; return the values of both rows."""
    with closing(Crowd(broker, "storm", group, STORM)) as crowd:
        before = broker.cpu_seconds()
        seconds = crowd.seconds_to_join()
        used = broker.cpu_seconds() - before
        crowd.leave()  # or their sessions would expire in rounds of others
    return {"storm_join_2000_s": seconds, "storm_join_2000_cpu_s": used}


def measure_many_groups(brokers: Brokers, rounds: int, say: Say) -> Samples:
    """Measure many_groups_join_cpu_s, many_groups_cpu_pct, many_groups_rss_mb and _p99_ms."""
    names = count()
    starts = {OURS: "ours_at_5s"}

    def play(side: str) -> dict[str, float]:
        broker = brokers.get(starts.get(side, side))
        _topic(broker, "many", MANY.partitions)
        return many_groups(broker, f"many-{next(names)}")

    return interleaved({side: partial(play, side) for side in (OURS, *BROKERS)}, rounds, say)


def many_groups(broker: PeerBroker, prefix: str) -> dict[str, float]:
    """Let new groups settle, rest and leave; return the values of all four rows."""
    with closing(Crowd(broker, "many", prefix, MANY)) as crowd:
        before = broker.cpu_seconds()
        crowd.seconds_to_join()
        joined = broker.cpu_seconds()
        crowd.spread()
        at_rest = broker.cpu_seconds()
        rest = crowd.rest(MANY_SECONDS)
        used = broker.cpu_seconds() - at_rest
        megabytes = broker.resident_megabytes()
        crowd.leave()
    return {
        "many_groups_join_cpu_s": joined - before,
        "many_groups_cpu_pct": 100 * used / MANY_SECONDS,
        "many_groups_rss_mb": megabytes,
        "many_groups_p99_ms": rest.p99_ms,
    }


def _topic(broker: PeerBroker, name: str, partitions: int) -> None:
    """Create the topic unless it is there, and wait for a coordinator. Raises PeerMissing."""
    with Wire(broker.bootstrap) as wire:
        wire.create_topic(name, partitions)
        wire.wait_for_coordinator(name)
