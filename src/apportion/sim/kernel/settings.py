"""The settings of the simulated world: `--help` prints them, and a scenario keeps their bounds.

Imports no part of the simulator, because the command line has to start fast.
"""

from typing import Annotated, TypedDict

from apportion.coord.config import ASSIGNORS, GroupSettings
from apportion.settings import Setting

CONSUMER, CLASSIC, MIXED = "consumer", "classic", "mixed"
PROTOCOLS = (CONSUMER, CLASSIC, MIXED)
UNRELIABLE = "unreliable"
SERVER_ASSIGNORS = (*dict.fromkeys(ASSIGNORS.values()), UNRELIABLE)
NO_LOCAL_ASSIGNOR = "none"
LOCAL_ASSIGNORS = (NO_LOCAL_ASSIGNOR, "range", "sticky", "lag-weighted", UNRELIABLE)
LIMITS = GroupSettings()
"""The coordinator's own limits, as the simulated broker has them."""


class WorldSettings(TypedDict, total=False):
    """Sizes, timeouts and faults of a scenario; what is not given is drawn from the seed."""

    workers: Annotated[
        int | None,
        Setting("Applications that read in batches, as Spark does.", at_least=0, at_most=1_000),
    ]
    readers: Annotated[
        int | None,
        Setting("Plain consumers, in a group of their own.", at_least=0, at_most=1_000),
    ]
    streams: Annotated[
        int | None,
        Setting(
            "Processes of a Streams application over the consumer protocol, in a group of their "
            "own; none by default.",
            at_least=0,
            at_most=1_000,
        ),
    ]
    statics: Annotated[
        int | None, Setting("How many of the applications are static members.", at_least=0)
    ]
    topics: Annotated[int | None, Setting("Topics.", at_least=1, at_most=1_000)]
    partitions: Annotated[
        int | None, Setting("Partitions of each topic.", at_least=1, at_most=10_000)
    ]
    seconds: Annotated[
        int | None,
        Setting(
            "Simulated time with faults, before the groups must settle.",
            at_least=1,
            at_most=86_400,
        ),
    ]
    heartbeat_ms: Annotated[
        int | None,
        Setting(
            "The longest heartbeat interval; classic members have no other.",
            at_least=LIMITS.group_consumer_min_heartbeat_interval_ms,
            at_most=LIMITS.group_consumer_max_heartbeat_interval_ms,
        ),
    ]
    session_ms: Annotated[
        int | None,
        Setting(
            "The session timeout.",
            at_least=LIMITS.group_consumer_min_session_timeout_ms,
            at_most=LIMITS.group_max_session_timeout_ms,
        ),
    ]
    # With more than these bounds of delay_us and flush_us, a calm world is not silent within the
    # time that it is given.
    delay_us: Annotated[
        int | None,
        Setting(
            "The mean time of a message on its way, in microseconds.", at_least=0, at_most=100_000
        ),
    ]
    heartbeat_budget: Annotated[
        int | None,
        Setting(
            "Heartbeats per second of all consumer groups, whose intervals are then as short as "
            "this allows; 0: always the heartbeat interval.",
            at_least=0,
            at_most=100_000,
        ),
    ]
    offload_size: Annotated[
        int | None,
        Setting(
            "The number of members and partitions of a group from which on its target assignment "
            "is computed beside the requests of others.",
            at_least=0,
        ),
    ]
    assignment_interval_ms: Annotated[
        int | None,
        Setting(
            "How long a target assignment is kept before another is computed.",
            at_least=LIMITS.group_consumer_min_assignment_interval_ms,
            at_most=LIMITS.group_consumer_max_assignment_interval_ms,
        ),
    ]
    rebalance_ms: Annotated[
        int | None,
        Setting(
            "The rebalance timeout: how long a member may take to revoke partitions.",
            at_least=2_000,
            at_most=3_600_000,
        ),
    ]
    batch_ms: Annotated[
        int | None,
        Setting("The mean duration of a micro-batch.", at_least=1, at_most=1_200_000),
    ]
    produce_every_ms: Annotated[
        int | None, Setting("The time between two new records.", at_least=1, at_most=60_000)
    ]
    flush_us: Annotated[
        int | None,
        Setting("The mean duration of a flush, in microseconds.", at_least=0, at_most=500_000),
    ]
    shards: Annotated[
        int | None, Setting("Partitions of __consumer_offsets.", at_least=1, at_most=1_000)
    ]
    assignor: Annotated[
        str | None,
        Setting(
            "The server-side assignor: uniform or range; or unreliable, a custom one that is late, "
            "raises, or answers what is no assignment, until the faults end.",
            choices=SERVER_ASSIGNORS,
        ),
    ]
    local_assignor: Annotated[
        str | None,
        Setting(
            "The client-side assignor of members of the consumer protocol: none (the default), "
            "range, sticky, lag-weighted; or unreliable, one of faulty members, which until the "
            "faults end are late, crash, or install what is no assignment.",
            choices=LOCAL_ASSIGNORS,
        ),
    ]
    protocol: Annotated[
        str | None,
        Setting(
            "The group protocol of the members: consumer (the default), classic or mixed.",
            choices=PROTOCOLS,
        ),
    ]
    looks: Annotated[
        bool | None,
        Setting(
            "Whether every application that reads in batches looks at the cluster before it joins, "
            "as Spark's load() does; it does not by default."
        ),
    ]
    encodes: Annotated[
        bool | None, Setting("Whether every message is encoded to bytes and decoded again.")
    ]
    fault: Annotated[
        list[str] | None,
        Setting(
            "Only faults of this kind; may be given more than once. `none` for no faults. Kinds: "
            "broker-crash, broker-pause, disk-refuses, crash, restart, replace, roll, pause, slow, "
            "cut, half-open-up, half-open-down, lost-reply, lost-join, clock-jump, "
            "more-partitions, topic-again, subscribe, switch, switch-all, stray, "
            "stray-consumer, alter-group, regex, topology."
        ),
    ]
