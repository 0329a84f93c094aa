"""The settings of the members that simulated applications run, and what their scripts wait for."""

from typing import Any

from apportion.member.members import GroupMember
from apportion.sim.kernel.client import REQUEST_TIMEOUT_MS
from apportion.sim.kernel.scenario import Scenario

METADATA_INTERVAL_MS = 5_000  # how often a classic member refreshes topic metadata


def has_new_target(member: GroupMember) -> bool:
    """Return whether the member has a target assignment that its owner has not adopted."""
    view = member.view()
    return view.epoch > 0 and view.target is not None and view.target != view.owned


def member_settings(scenario: Scenario, instance_id: str | None) -> dict[str, Any]:
    """Return the settings that every simulated member has, of either group protocol."""
    return {
        "instance_id": instance_id,
        "rebalance_timeout_ms": scenario.rebalance_ms,
        "poll_limit_ms": scenario.rebalance_ms,
        "response_timeout_ms": REQUEST_TIMEOUT_MS,
    }


def classic_settings(scenario: Scenario, instance_id: str | None) -> dict[str, Any]:
    """Return the settings of every simulated classic member, except its assignors."""
    return {
        **member_settings(scenario, instance_id),
        "session_timeout_ms": scenario.session_ms,
        "heartbeat_interval_ms": scenario.heartbeat_ms,
        "metadata_interval_ms": METADATA_INTERVAL_MS,
    }
