"""The settings of groups, under Kafka's names with dots as underscores, and Kafka's rules for them.

A fault is one clear sentence. Defaults are Kafka's, except for both consumer minima, which let
groups notice a lost member sooner.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from apportion.assign.custom import CustomAssignor
from apportion.settings import MAX_INT32, Setting, bounds_fault_or_none, declared

ASSIGNORS = {  # every name that may stand in group.consumer.assignors -> the assignor's short name
    "uniform": "uniform",
    "range": "range",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}

# A broker of Kafka also refuses to start with a value outside these bounds.
BOUNDED = (  # (value, how it must not be to the bound, bound)
    ("group_consumer_session_timeout_ms", "below", "group_consumer_min_session_timeout_ms"),
    ("group_consumer_session_timeout_ms", "above", "group_consumer_max_session_timeout_ms"),
    ("group_consumer_heartbeat_interval_ms", "below", "group_consumer_min_heartbeat_interval_ms"),
    ("group_consumer_heartbeat_interval_ms", "above", "group_consumer_max_heartbeat_interval_ms"),
    (
        "group_consumer_assignment_interval_ms",
        "below",
        "group_consumer_min_assignment_interval_ms",
    ),
    (
        "group_consumer_assignment_interval_ms",
        "above",
        "group_consumer_max_assignment_interval_ms",
    ),
    ("group_min_session_timeout_ms", "above", "group_max_session_timeout_ms"),
)

HEARTBEAT_INTERVAL_MS = 5_000
"""Kafka's default of group.consumer.heartbeat.interval.ms."""
MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
"""Which way a group may change its protocol while it has members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Settings of groups that were checked: a value of this class keeps every rule.

    group_initial_rebalance_delay_ms: 0 as in the server.properties that Kafka ships; Kafka without
        a file takes 3,000.
    custom_assignors: those of `group_consumer_assignors` that are not built in, by name.
    heartbeat_interval_ms: what follows for the members of consumer groups: the configured interval,
        or its default. Kept, because each heartbeat needs it.
    Errors: ValueError says which rule a value would break.
    """

    group_min_session_timeout_ms: Annotated[
        int, Setting("The shortest session timeout that a classic member may ask for.", at_least=1)
    ] = 6_000
    group_max_session_timeout_ms: Annotated[
        int, Setting("The longest session timeout that a classic member may ask for.", at_least=1)
    ] = 1_800_000
    group_initial_rebalance_delay_ms: Annotated[
        int,
        Setting(
            "How long the first rebalance of an empty classic group waits for more members.",
            at_least=0,
        ),
    ] = 0
    group_max_size: Annotated[int, Setting("The most members of a classic group.", at_least=1)] = (
        MAX_INT32
    )
    # Kafka's minimum is 45,000. Here a lost host can be noticed within seconds if the user wants
    # that.
    group_consumer_session_timeout_ms: Annotated[
        int,
        Setting(
            "How long a member of a consumer group may be silent.", at_least=1, is_per_group=True
        ),
    ] = 45_000
    group_consumer_min_session_timeout_ms: Annotated[
        int, Setting("The least that group.consumer.session.timeout.ms may be.", at_least=1)
    ] = 1_000
    group_consumer_max_session_timeout_ms: Annotated[
        int, Setting("The most that group.consumer.session.timeout.ms may be.", at_least=1)
    ] = 60_000
    group_consumer_heartbeat_interval_ms: Annotated[
        int | None,
        Setting(
            "The longest heartbeat interval of the members of a consumer group, where the budget "
            "allows no shorter one.",
            at_least=1,
            is_per_group=True,
            default_words="5000, or a third of a shorter group.consumer.session.timeout.ms",
        ),
    ] = None
    # Kafka's minimum is 5,000. Here it can be set below that where the budget is off.
    group_consumer_min_heartbeat_interval_ms: Annotated[
        int, Setting("The least that group.consumer.heartbeat.interval.ms may be.", at_least=1)
    ] = 100
    group_consumer_max_heartbeat_interval_ms: Annotated[
        int, Setting("The most that group.consumer.heartbeat.interval.ms may be.", at_least=1)
    ] = 15_000
    group_consumer_max_size: Annotated[
        int, Setting("The most members of a consumer group.", at_least=1)
    ] = MAX_INT32
    # Kafka 4.3's default and bounds (KIP-1263).
    group_consumer_assignment_interval_ms: Annotated[
        int,
        Setting(
            "How long a consumer group's target assignment is kept before another is computed.",
            at_least=0,
            is_dynamic=True,
            is_per_group=True,
        ),
    ] = 1_000
    group_consumer_min_assignment_interval_ms: Annotated[
        int, Setting("The least that group.consumer.assignment.interval.ms may be.", at_least=0)
    ] = 0
    group_consumer_max_assignment_interval_ms: Annotated[
        int, Setting("The most that group.consumer.assignment.interval.ms may be.", at_least=0)
    ] = 15_000
    group_consumer_assignors: Annotated[
        tuple[str, ...],
        Setting(
            "The server-side assignors, the default first: uniform, range, and assignors of your "
            "own, each as module:Class or by the name of an entry point."
        ),
    ] = (
        "uniform",
        "range",
    )
    group_consumer_migration_policy: Annotated[
        str,
        Setting(
            "Which way a group with members may change its protocol.", choices=MIGRATION_POLICIES
        ),
    ] = "bidirectional"
    # Internal in Kafka, with the same bound.
    group_consumer_regex_refresh_interval_ms: Annotated[
        int,
        Setting(
            "The time after which a group's regular expressions are resolved again even if no "
            "topic has changed.",
            at_least=10_000,
        ),
    ] = 600_000
    # A week, as in Kafka. KIP-211 says from when it counts.
    offsets_retention_minutes: Annotated[
        int, Setting("How long committed offsets are kept after a group becomes empty.", at_least=1)
    ] = 10_080
    offsets_retention_check_interval_ms: Annotated[
        int, Setting("The time between two looks for offsets that have expired.", at_least=1)
    ] = 600_000
    # As in Kafka. A longer text is an error of its partition alone; the rest of the commit is
    # stored.
    offset_metadata_max_bytes: Annotated[
        int, Setting("The longest metadata text of a committed offset.", at_least=0)
    ] = 4_096
    apportion_heartbeat_budget_per_second: Annotated[
        int,
        Setting(
            "The heartbeats per second for which this broker asks the members of all consumer "
            "groups together: their intervals are as short as this allows, from 100 ms to "
            "group.consumer.heartbeat.interval.ms. 0: always that interval.",
            at_least=0,
        ),
    ] = 200
    apportion_assignor_timeout_ms: Annotated[
        int,
        Setting(
            "How long a custom assignor, or a member with a client-side one, may take for a target "
            "assignment before its answer is no longer waited for.",
            at_least=1,
        ),
    ] = 10_000
    apportion_assignor_offload_size: Annotated[
        int,
        Setting(
            "The number of members and partitions of a consumer group together, from which on its "
            "target assignment is computed beside the requests of others, and comes with a later "
            "heartbeat. 0: always.",
            at_least=0,
        ),
    ] = 10_000
    custom_assignors: Mapping[str, CustomAssignor] = field(default_factory=dict)
    heartbeat_interval_ms: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Check the broker's group settings against their bounds and each other.

        Raises ValueError, which names the setting as server.properties does.
        """
        check_bounds(GroupSettings, self)
        for name, wrong_side, bound_name in BOUNDED:
            value, bound = getattr(self, name), getattr(self, bound_name)
            if value is None:  # the default keeps to every bound
                continue
            if value < bound if wrong_side == "below" else value > bound:
                raise ValueError(
                    f"{dotted(name)} ({value}) must not be {wrong_side} {dotted(bound_name)} "
                    f"({bound})."
                )
        session_ms = self.group_consumer_session_timeout_ms
        interval_ms = self.heartbeat_interval_for(session_ms)
        object.__setattr__(self, "heartbeat_interval_ms", interval_ms)
        # A member could not heartbeat in time, and would be removed for ever.
        if interval_ms >= session_ms:
            raise ValueError(
                f"group.consumer.heartbeat.interval.ms ({interval_ms}) must be below "
                f"group.consumer.session.timeout.ms ({session_ms})."
            )
        # Kafka takes the policy in upper or lower case.
        policy = self.group_consumer_migration_policy.lower()
        if policy not in MIGRATION_POLICIES:
            policies = ", ".join(MIGRATION_POLICIES)
            raise ValueError(
                f"group.consumer.migration.policy must be one of {policies}, not {policy!r}."
            )
        object.__setattr__(self, "group_consumer_migration_policy", policy)
        object.__setattr__(
            self,
            "group_consumer_assignors",
            _assignor_names(self.group_consumer_assignors, self.custom_assignors),
        )

    def value_of(self, name: str) -> Any:
        """Return what holds for a setting, also where its default depends on other settings."""
        return (
            self.heartbeat_interval_ms
            if name == "group_consumer_heartbeat_interval_ms"
            else getattr(self, name)
        )

    def heartbeat_interval_for(self, session_timeout_ms: int) -> int:
        """Return the configured heartbeat interval, or its default for that session timeout."""
        if self.group_consumer_heartbeat_interval_ms is not None:
            return self.group_consumer_heartbeat_interval_ms
        # A third of the session: two heartbeats may be lost, as with Kafka's classic defaults.
        interval_ms = min(HEARTBEAT_INTERVAL_MS, session_timeout_ms // 3)
        least_ms = self.group_consumer_min_heartbeat_interval_ms
        return min(max(interval_ms, least_ms), self.group_consumer_max_heartbeat_interval_ms)


def dotted(name: str) -> str:
    """Return the name of a setting as Kafka writes it."""
    return name.replace("_", ".")


def check_bounds(owner: type, settings: object) -> None:
    """Refuse a number out of its declared bounds, in the settings of groups or of the broker.

    Errors: ValueError names the setting as server.properties does.
    """
    for name, setting in declared(owner).items():
        value = getattr(settings, name)
        if value is not None and (fault := bounds_fault_or_none(setting, value)) is not None:
            raise ValueError(f"{dotted(name)} must {fault}, not {value}.")


def _assignor_names(
    configured: tuple[str, ...], custom: Mapping[str, CustomAssignor]
) -> tuple[str, ...]:
    """Return the short names of `group.consumer.assignors`, which may have Kafka's class names.

    Errors: ValueError if it is empty, or names an unknown assignor or one of them twice.
    """
    if not configured:
        raise ValueError("group.consumer.assignors must name at least one assignor.")
    for name in configured:
        if name not in ASSIGNORS and name not in custom:
            raise ValueError(
                f"group.consumer.assignors: there is no assignor {name!r}; there are "
                "uniform and range."
            )
    names = tuple(ASSIGNORS.get(name, name) for name in configured)
    if len(dict.fromkeys(names)) < len(names):
        raise ValueError("group.consumer.assignors must name each assignor once.")
    return names
