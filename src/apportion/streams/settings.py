"""The settings of Kafka Streams that decide an assignment, with its names, defaults and bounds.

A StreamsConsumer takes them as options; the leader and the task assignors obey the same defaults.
"""

from apportion.settings import MAX_INT32, MAX_INT64, Setting

TASK_ASSIGNOR = Setting(
    "The task assignor, where this process leads.",
    "highavailability",
    # `fallback` is for when the ends of changelogs are unknown; nobody chooses it.
    choices=("highavailability", "sticky"),
)
NUM_STANDBY_REPLICAS = Setting(
    "Standby tasks for each stateful task.", 0, at_least=0, at_most=MAX_INT32
)
ACCEPTABLE_RECOVERY_LAG = Setting(
    "Records that a process may lack of a task's state and still run it at once.",
    10_000,
    at_least=0,
    at_most=MAX_INT64,
)
MAX_WARMUP_REPLICAS = Setting(
    "Tasks that may warm up on other processes at one time (KIP-441).",
    2,
    at_least=1,
    at_most=MAX_INT32,
)
PROBING_REBALANCE_INTERVAL_MS = Setting(
    "The time between two rebalances that ask whether a warm-up task has caught up.",
    600_000,
    at_least=60_000,
    at_most=MAX_INT64,
)
