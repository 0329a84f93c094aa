"""The real member that a simulated application runs, for either group protocol."""

from dataclasses import replace

from apportion.member.assignors.builtin import CLIENT_ASSIGNORS
from apportion.member.classic.machine import ClassicMember
from apportion.member.classic.requests import ClassicSettings
from apportion.member.consumer.machine import ConsumerMember
from apportion.member.consumer.requests import ConsumerSettings
from apportion.sim.actors.protocols import ProtocolChoice
from apportion.sim.kernel.client import REQUEST_TIMEOUT_MS
from apportion.sim.kernel.scenario import Scenario

METADATA_INTERVAL_MS = 5_000  # how often a classic member refreshes topic metadata

AnyMember = ConsumerMember | ClassicMember


def has_new_target(member: AnyMember) -> bool:
    """Return whether the member has a target assignment that its owner has not adopted."""
    view = member.view()
    return view.epoch > 0 and view.target is not None and view.target != view.owned


def classic_member(
    scenario: Scenario, group_id: str, instance_id: str | None, choice: ProtocolChoice
) -> ClassicMember:
    """Return a member that uses JoinGroup and SyncGroup, with the assignors of `choice`."""
    assignors = tuple(CLIENT_ASSIGNORS[name]() for name in choice.assignors)
    settings = classic_settings(scenario, group_id, instance_id)
    return ClassicMember(replace(settings, assignors=assignors))


def consumer_member(
    scenario: Scenario, group_id: str, instance_id: str | None, member_id: str
) -> ConsumerMember:
    """Return a KIP-848 member for a simulated application, under an id of its client."""
    return ConsumerMember(
        ConsumerSettings(
            group_id=group_id,
            member_id=member_id,
            instance_id=instance_id,
            rebalance_timeout_ms=scenario.rebalance_ms,
            poll_limit_ms=scenario.rebalance_ms,
            response_timeout_ms=REQUEST_TIMEOUT_MS,
        )
    )


def classic_settings(scenario: Scenario, group_id: str, instance_id: str | None) -> ClassicSettings:
    """Return the settings of every simulated classic member, except its assignors."""
    return ClassicSettings(
        group_id=group_id,
        instance_id=instance_id,
        session_timeout_ms=scenario.session_ms,
        heartbeat_interval_ms=scenario.heartbeat_ms,
        rebalance_timeout_ms=scenario.rebalance_ms,
        poll_limit_ms=scenario.rebalance_ms,
        metadata_interval_ms=METADATA_INTERVAL_MS,
        response_timeout_ms=REQUEST_TIMEOUT_MS,
    )
