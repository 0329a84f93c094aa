"""The rows: what each measures, against whom, what is not alike, and how samples become ratios."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

OURS = "ours"


class PeerMissing(Exception):
    """A peer cannot be had or did not do its work; the text says why, in one sentence."""


class PeerRow(NamedTuple):
    """A row of the table. better: "higher" or "lower". peers: their names, in order."""

    name: str
    unit: str
    better: str
    peers: tuple[str, ...]
    what: str
    unlike: str


SPARK_4_2 = Path(__file__).parents[2] / "tests" / "compat" / "spark" / "4.2.lock"


def pinned(lock: Path, package: str) -> str:
    """Return the version of a package in a lock with hashes."""
    [version] = re.findall(rf"^{package}==(\S+)", lock.read_text(), re.MULTILINE)
    return str(version)


PER_CPU = "1/CPU s"
BROKERS = ("kafka", "kfake")
IN_PROCESSOR_TIME = "for each second of the broker's processor time, user and system, all threads"
CONNECTOR = ("connector",)
CONNECTIONS, MANY_CONNECTIONS = 100, 2_000
FROM_WRITE = "from the write of the request to its response"
MEMORY = "Kafka's includes what its JVM (-Xmx1G) has not given back."
LOAD_SHARES = (
    "The program that has the members shares the two cores, and pauses of its own are in it."
)

ROWS = (
    PeerRow(
        "produce_100b",
        "messages/s",
        "higher",
        BROKERS,
        "2,000,000 messages of 100 bytes into 4 partitions, acks=all, by librdkafka with its "
        "defaults, until all are acknowledged",
        "Apportion syncs the disk before it acknowledges, Kafka leaves that to the operating "
        "system, and kfake keeps messages in memory. The client shares the two cores.",
    ),
    PeerRow(
        "fetch_100b",
        "messages/s",
        "higher",
        BROKERS,
        "the same messages read back by one librdkafka client that fetches ahead without pauses",
        "The client does most of the work, so that brokers which are faster than it look alike.",
    ),
    PeerRow(
        "commits",
        PER_CPU,
        "higher",
        BROKERS,
        f"OffsetCommit requests with 4 partitions, each of a member of its own group, on 16 "
        f"connections with one outstanding request each, {IN_PROCESSOR_TIME}",
        "All three sync the disk before they answer: Kafka by flush.messages=1 on "
        "__consumer_offsets, which is not its default, kfake by SyncWrites.",
    ),
    *(
        PeerRow(
            f"heartbeats_{connections}",
            PER_CPU,
            "higher",
            BROKERS,
            f"heartbeats (KIP-848) of members at rest on {connections:,} connections with one "
            f"outstanding request each, {IN_PROCESSOR_TIME}",
            "Processor time, not seconds: Kafka and kfake may use both cores, apportion uses one.",
        )
        for connections in (CONNECTIONS, MANY_CONNECTIONS)
    ),
    *(
        PeerRow(
            f"{change}_10x900",
            "s",
            "lower",
            ("kafka", "kafka_500ms", "kfake"),
            f"one librdkafka member {change}s 10 that have 900 partitions, until every member has "
            f"its share; default settings",
            "Apportion lets members of a small group heartbeat more often than every 5 s, which "
            "Kafka's defaults forbid. kafka_500ms is Kafka with consumer.heartbeat.interval.ms=500 "
            "for this group.",
        )
        for change in ("join", "leave")
    ),
    *(
        PeerRow(
            f"spark_noop_{compression}",
            "rows/s",
            "higher",
            CONNECTOR,
            f"rows of 100 bytes, {stored}, into Spark's noop sink, 1,000,000 a batch, over the "
            f"time of addBatch; the median of the batches after the first",
            "The connector is of Spark 4.2.0 and runs on 4.3, since Maven has no newer one. "
            "Apportion's rows pass through Python workers, the connector's stay in the JVM.",
        )
        for compression, stored in (("plain", "not compressed"), ("lz4", "lz4"))
    ),
    PeerRow(
        "spark_delta",
        "rows/s",
        "higher",
        CONNECTOR,
        "JSON flights, parsed, into a Delta table, 200,000 a batch, over the time of addBatch; the "
        "median of the batches after the first",
        f"Both run on Spark {pinned(SPARK_4_2, 'pyspark')}, the newest that Delta's own writer "
        "supports. The connector writes with delta-spark, apportion with its own Delta writer.",
    ),
    PeerRow(
        "spark_first_batch",
        "s",
        "lower",
        CONNECTOR,
        "from the start of the first query of a new session until its batch of 10,000 rows is "
        "done; the start of Spark itself is not counted",
        "Apportion's query joins a consumer group first, the connector's has none. Spark starts "
        "five Python processes for it, and none for the connector's; they have PySpark's bytecode, "
        "as README's Install adds it.",
    ),
    PeerRow(
        "spark_one_row",
        "s",
        "lower",
        CONNECTOR,
        "from the acknowledgement of a record to the end of the batch that has it alone, as the "
        "query's progress says it, in a query that waits for records; the median of 15 after 5",
        "As in spark_first_batch.",
    ),
    *(
        PeerRow(
            f"spark_available_now_{name}",
            "s",
            "lower",
            CONNECTOR,
            f"trigger(availableNow) over {rows} in a new session, from the start of the query to "
            f"its end, default settings",
            "As in spark_first_batch.",
        )
        for name, rows in (
            ("0", "an empty topic"),
            ("10k", "10,000 rows of 100 bytes"),
            ("3m", "3,000,000 rows of 100 bytes"),
        )
    ),
    PeerRow(
        f"classic_heartbeats_{CONNECTIONS}",
        PER_CPU,
        "higher",
        BROKERS,
        f"Heartbeat requests of the members of 5 classic groups on {CONNECTIONS} connections with "
        f"one outstanding request each, {IN_PROCESSOR_TIME}",
        "As in heartbeats_100.",
    ),
    PeerRow(
        f"empty_fetches_{CONNECTIONS}",
        PER_CPU,
        "higher",
        BROKERS,
        f"Fetch requests of an empty partition, with max_wait_ms=0 and without a session, on "
        f"{CONNECTIONS} connections with one outstanding request each, {IN_PROCESSOR_TIME}",
        "As in heartbeats_100. Clients of Kafka fetch in sessions, which apportion does not open.",
    ),
    *(
        PeerRow(
            f"{row}_tls",
            PER_CPU,
            "higher",
            ("kafka",),
            f"{row} over TLS: TLS 1.3 and one certificate of an elliptic key for both",
            "As without TLS; OpenSSL here, Java's own TLS there. kfake is left out.",
        )
        for row in (
            f"classic_heartbeats_{CONNECTIONS}",
            f"empty_fetches_{CONNECTIONS}",
            f"heartbeats_{CONNECTIONS}",
            "commits",
        )
    ),
    *(
        PeerRow(
            f"storm_join_2000_{of}",
            unit,
            "lower",
            BROKERS,
            f"2,000 members of one group (KIP-848), which join within a second: {what} each has "
            f"its one partition of 2,000 and has acknowledged it",
            unlike,
        )
        for of, unit, what, unlike in (
            (
                "s",
                "s",
                "seconds until",
                "Most of it is the interval of heartbeats. Apportion's first members have shorter "
                "ones than 5 s, the others the same as Kafka's.",
            ),
            (
                "cpu_s",
                "s",
                "the broker's processor time until",
                "All heartbeats until then are included; a group that takes longer has more.",
            ),
            (
                "rss_mb",
                "MB",
                "the broker's memory when",
                f"{MEMORY} All have had one storm or more.",
            ),
            (
                "p99_ms",
                "ms",
                f"the 99th percentile of a heartbeat, {FROM_WRITE}, until",
                LOAD_SHARES,
            ),
        )
    ),
    *(
        PeerRow(
            f"many_groups_{of}",
            unit,
            "lower",
            BROKERS,
            f"10,000 groups of 3 members (KIP-848) on 300 connections {what}",
            unlike,
        )
        for of, unit, what, unlike in (
            (
                "join_cpu_s",
                "s",
                "that join within 10 s: the broker's processor time until each member has its "
                "one partition",
                "A broker that is slower has to answer more heartbeats until then.",
            ),
            (
                "heartbeat_us",
                "µs",
                "with a heartbeat of each every 5 s: the broker's processor time of a minute, user "
                "and system, all threads, for each heartbeat that it answered in it",
                "apportion.heartbeat.budget.per.second=0 gives apportion Kafka's interval.",
            ),
            (
                "rss_mb",
                "MB",
                "at rest: the broker's memory after that minute",
                f"{MEMORY} In a run of all rows Kafka and kfake have had the storm, apportion's "
                f"is a new process.",
            ),
            (
                "p99_ms",
                "ms",
                f"at rest: the 99th percentile of a heartbeat in that minute, {FROM_WRITE}",
                LOAD_SHARES,
            ),
        )
    ),
)


def ratio(better: str, ours: float, peer: float) -> float:
    """Return how many times better ours is: above 1 where apportion is ahead."""
    return ours / peer if better == "higher" else peer / ours


def rounded(value: float) -> float:
    """Return the value to four digits."""
    return float(f"{value:.4g}")


def figure(value: float) -> str:
    """Return a number as people read it: three digits, with commas."""
    return f"{value:,.3g}" if value < 1_000 else f"{float(f'{value:.3g}'):,.0f}"


def result(
    row: PeerRow,
    samples: Mapping[str, Sequence[float]],
    missing: Mapping[str, str],
    seconds: float = 0,
) -> dict[str, Any]:
    """Return the row of peers.json: medians, ratios, and the least and the greatest sample.

    samples: by side. missing: why a side has none. seconds: what the row took. Apportion's figure
    is None where no peer has one: no figure stands alone.
    """
    medians = {side: median(values) for side, values in samples.items() if values}
    peers = {name: medians[name] for name in row.peers if name in medians}
    ours = medians.get(OURS) if peers else None
    return {
        "name": row.name,
        "unit": row.unit,
        "better": row.better,
        "ours": None if ours is None else rounded(ours),
        "peers": {name: rounded(value) for name, value in peers.items()},
        "ratios": {name: rounded(ratio(row.better, ours, value)) for name, value in peers.items()}
        if ours is not None
        else {},
        "spread": {
            side: [rounded(min(values)), rounded(max(values))]
            for side, values in samples.items()
            if values and (side in peers or (side == OURS and ours is not None))
        },
        "missing": {side: missing[side] for side in (OURS, *row.peers) if side in missing},
        "rounds": max((len(values) for values in samples.values()), default=0),
        "seconds": round(seconds),
    }
