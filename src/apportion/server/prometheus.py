"""The metrics of a broker, as Prometheus and scripts read them.

FAMILIES is the one list of what there is; docs/broker.md prints it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from apportion.coord.metrics import STATES, BrokerMetrics, GroupMetrics
from apportion.server.metric_families import CONTENT_TYPE, Family, Samples, prometheus_text
from apportion.server.metrics_listener import MetricsFormat
from apportion.wire.group_states import GroupState

GROUP_LABELS = ("group", "protocol")


def _of_groups(value: Callable[[GroupMetrics], float | None]) -> Callable[[BrokerMetrics], Samples]:
    """Return what reads one value of each group, but not of those for which it is None."""

    def samples(broker: BrokerMetrics) -> Samples:
        for group in broker.groups:
            found = value(group)
            if found is not None:
                yield (group.group_id, group.protocol), found

    return samples


def _of_parts(
    values: Callable[[GroupMetrics], Mapping[Any, Any]],
) -> Callable[[BrokerMetrics], Samples]:
    """Return what reads several values of each group, by the text of one more label."""

    def samples(broker: BrokerMetrics) -> Samples:
        for group in broker.groups:
            for part, value in values(group).items():
                yield (group.group_id, group.protocol, part), value

    return samples


def _present_state(group: GroupMetrics) -> dict[GroupState, int]:
    return {state: int(state == group.state) for state in STATES[group.protocol]}


FAMILIES: tuple[Family[BrokerMetrics], ...] = (
    Family(
        "apportion_group_count",
        False,
        ("protocol", "state"),
        "Groups in each state.",
        lambda broker: broker.group_counts().items(),
        "group-count, consumer-group-count",
    ),
    Family(
        "apportion_heartbeat_budget_per_second",
        False,
        (),
        "The heartbeats per second that members of consumer groups are asked for at most, as long "
        "as the configured interval does not demand more.",
        lambda broker: [((), broker.heartbeat_budget_per_second)],
    ),
    Family(
        "apportion_booked_heartbeats",
        True,
        (),
        "Heartbeats that members of consumer groups were asked for, one in each response. Its rate "
        "is to be compared with the budget.",
        lambda broker: [((), broker.booked_heartbeats)],
    ),
    Family(
        "apportion_group_members",
        False,
        GROUP_LABELS,
        "Members of the group.",
        _of_groups(lambda group: group.members),
    ),
    Family(
        "apportion_group_epoch",
        False,
        GROUP_LABELS,
        "The group epoch; in a classic group the generation.",
        _of_groups(lambda group: group.epoch),
    ),
    Family(
        "apportion_group_assignment_epoch",
        False,
        GROUP_LABELS,
        "The epoch of the target assignment, in a consumer group.",
        _of_groups(lambda group: group.assignment_epoch),
    ),
    Family(
        "apportion_group_unowned_partitions",
        False,
        GROUP_LABELS,
        "Partitions of subscribed topics that no member has. Absent where the topics cannot be "
        "known, as those of Kafka Connect.",
        _of_groups(lambda group: group.unowned_partitions),
    ),
    Family(
        "apportion_group_rebalances",
        True,
        GROUP_LABELS,
        "Rebalances: new group epochs; in a classic group generations.",
        _of_groups(lambda group: group.rebalances),
        "consumer-group-rebalance-count, group-completed-rebalance-count",
    ),
    Family(
        "apportion_group_targets_computed",
        True,
        GROUP_LABELS,
        "Target assignments of a consumer group that were computed and saved. One may serve "
        "several group epochs.",
        _of_groups(lambda group: group.targets_computed),
    ),
    Family(
        "apportion_group_heartbeats",
        True,
        GROUP_LABELS,
        "Heartbeats that were accepted, with those by which members of the consumer protocol join.",
        _of_groups(lambda group: group.heartbeats),
    ),
    Family(
        "apportion_group_removed_members",
        True,
        (*GROUP_LABELS, "reason"),
        "Members that are gone: they `left`, were silent for the `session_timeout`, did not revoke "
        "or rejoin within the `rebalance_timeout`, were `fenced` by another process with their "
        "group instance id, or found the `group_full`.",
        _of_parts(lambda group: group.removed_members),
    ),
    Family(
        "apportion_group_state",
        False,
        (*GROUP_LABELS, "state"),
        "1 for the state that the group is in, 0 for the others.",
        _of_parts(_present_state),
    ),
    Family(
        "apportion_group_state_seconds",
        True,
        (*GROUP_LABELS, "state"),
        "Seconds that the group was in each state.",
        _of_parts(lambda group: group.state_seconds),
    ),
)


def json_text(metrics: BrokerMetrics) -> bytes:
    """Return the metrics as JSON."""
    counts = [
        {"protocol": protocol, "state": state, "groups": groups}
        for (protocol, state), groups in metrics.group_counts().items()
    ]
    return json.dumps({**asdict(metrics), "group_count": counts}, indent=1).encode()


FORMATS: dict[str, MetricsFormat[BrokerMetrics]] = {
    "/metrics": MetricsFormat(CONTENT_TYPE, lambda metrics: prometheus_text(FAMILIES, metrics)),
    "/metrics.json": MetricsFormat("application/json", json_text),
}
"""The formats of a broker's metrics, by path."""
