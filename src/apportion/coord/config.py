"""What an operator may set about groups: Kafka's names with dots as underscores, Kafka's rules, one clear sentence for a fault.

Defaults are Kafka's, except where groups settle faster here: the heartbeat interval and both consumer minima.
"""

from dataclasses import dataclass

ASSIGNORS = {  # every name that may stand in group.consumer.assignors -> the assignor's short name
    "uniform": "uniform",
    "range": "range",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}

MINIMUMS = {  # setting -> the smallest value that means anything
    "group_consumer_session_timeout_ms": 1,
    "group_consumer_min_session_timeout_ms": 1,
    "group_consumer_max_session_timeout_ms": 1,
    "group_consumer_heartbeat_interval_ms": 1,
    "group_consumer_min_heartbeat_interval_ms": 1,
    "group_consumer_max_heartbeat_interval_ms": 1,
    "group_consumer_max_size": 1,
    "group_min_session_timeout_ms": 1,
    "group_max_session_timeout_ms": 1,
    "group_initial_rebalance_delay_ms": 0,
    "group_max_size": 1,
    "offsets_retention_minutes": 1,
    "offsets_retention_check_interval_ms": 1,
    "offset_metadata_max_bytes": 0,
    "apportion_consumer_unsettled_heartbeat_interval_ms": 1,
}

BOUNDED = (  # (least, value, most)
    (
        "group_consumer_min_session_timeout_ms",
        "group_consumer_session_timeout_ms",
        "group_consumer_max_session_timeout_ms",
    ),
    (
        "group_consumer_min_heartbeat_interval_ms",
        "group_consumer_heartbeat_interval_ms",
        "group_consumer_max_heartbeat_interval_ms",
    ),
)

MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
"""Which way a group may change its protocol while it has members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Settings that were checked: a value of this class keeps every rule. ValueError says which one a value would break.

    group_initial_rebalance_delay_ms: 0 as in the server.properties that Kafka ships; Kafka without a file takes 3,000.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 0
    group_max_size: int = 2_147_483_647
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 1_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 1_000
    group_consumer_min_heartbeat_interval_ms: int = 100
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: str = "bidirectional"
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4_096
    apportion_consumer_unsettled_heartbeat_interval_ms: int = 500

    def __post_init__(self) -> None:
        for name, least in MINIMUMS.items():
            if getattr(self, name) < least:
                raise ValueError(f"{dotted(name)} must be at least {least}, not {getattr(self, name)}.")
        for least_name, name, most_name in BOUNDED:
            least, value, most = (getattr(self, each) for each in (least_name, name, most_name))
            if value < least:
                raise ValueError(f"{dotted(name)} ({value}) must not be below {dotted(least_name)} ({least}).")
            if value > most:
                raise ValueError(f"{dotted(name)} ({value}) must not be above {dotted(most_name)} ({most}).")
        least_ms, most_ms = self.group_min_session_timeout_ms, self.group_max_session_timeout_ms
        if least_ms > most_ms:
            raise ValueError(
                f"group.min.session.timeout.ms ({least_ms}) must not be above group.max.session.timeout.ms ({most_ms})."
            )
        session_ms, beat_ms = self.group_consumer_session_timeout_ms, self.group_consumer_heartbeat_interval_ms
        if beat_ms >= session_ms:
            raise ValueError(
                f"group.consumer.heartbeat.interval.ms ({beat_ms}) must be below group.consumer.session.timeout.ms ({session_ms})."
            )
        policy = self.group_consumer_migration_policy.lower()
        if policy not in MIGRATION_POLICIES:
            policies = ", ".join(MIGRATION_POLICIES)
            raise ValueError(f"group.consumer.migration.policy must be one of {policies}, not {policy!r}.")
        object.__setattr__(self, "group_consumer_migration_policy", policy)
        object.__setattr__(self, "group_consumer_assignors", _assignor_names(self.group_consumer_assignors))

    def heartbeat_interval_ms(self, *, converged: bool) -> int:
        """How long a member waits until its next heartbeat: shorter while its group has not converged."""
        usual_ms = self.group_consumer_heartbeat_interval_ms
        return usual_ms if converged else min(usual_ms, self.apportion_consumer_unsettled_heartbeat_interval_ms)


def dotted(name: str) -> str:
    """The name of a setting as Kafka writes it."""
    return name.replace("_", ".")


def _assignor_names(said: tuple[str, ...]) -> tuple[str, ...]:
    if not said:
        raise ValueError("group.consumer.assignors must name at least one assignor.")
    for word in said:
        if word not in ASSIGNORS:
            raise ValueError(f"group.consumer.assignors: there is no assignor {word!r}; there are uniform and range.")
    names = tuple(ASSIGNORS[word] for word in said)
    if len(dict.fromkeys(names)) < len(names):
        raise ValueError("group.consumer.assignors must name each assignor once.")
    return names
