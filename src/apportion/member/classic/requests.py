"""A classic member's settings, and the requests that it sends to its coordinator."""

from dataclasses import dataclass, field, replace

from apportion.assign.by_name import Subscription, TopicParts
from apportion.errors import Code
from apportion.member.assignors.interface import Assignor
from apportion.member.assignors.runs import checked_user_data
from apportion.member.assignors.serde import encode_subscription
from apportion.member.assignors.strategy import strategy
from apportion.member.classic.generation import Generation
from apportion.member.settings import (
    HEARTBEAT_INTERVAL_MS,
    METADATA_MAX_AGE_MS,
    SESSION_TIMEOUT_MS,
    MemberSettings,
)
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from apportion.wire.messages.sync_group import SyncGroupRequest

PROTOCOL_TYPE = "consumer"
REASON_CHARS = 255  # of the reason for joining (KIP-800)


@dataclass(frozen=True, slots=True)
class ClassicSettings(MemberSettings):
    """Identity and timeouts of a classic member.

    assignors: in order of preference; objects of this member alone, as some keep state.
    metadata_interval_ms: how often topics are checked for changes (metadata.max.age.ms).
    revokes_before_rejoin: rejoin only once the owner uses nothing that was revoked, whoever else
    waits for the group.
    """

    assignors: tuple[Assignor, ...] = field(default_factory=strategy)
    session_timeout_ms: int = SESSION_TIMEOUT_MS.default
    heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS.default
    metadata_interval_ms: int = METADATA_MAX_AGE_MS.default
    revokes_before_rejoin: bool = False

    def explain(self, code: Code) -> str:
        """Return the sentence for an error of the classic protocol, with what to change."""
        if code is Code.INVALID_SESSION_TIMEOUT:
            limits = "group.min.session.timeout.ms and group.max.session.timeout.ms"
            return (
                f"{code.sentence} It was {self.session_timeout_ms} ms; the range is the broker's "
                f"{limits}."
            )
        if code is Code.INCONSISTENT_GROUP_PROTOCOL:
            names = ", ".join(assignor.name for assignor in self.assignors)
            return f"{code.sentence} It offers {names}."
        return code.sentence

    def assignor_or_none(self, name: str) -> Assignor | None:
        """Return the member's assignor of that name."""
        return next((assignor for assignor in self.assignors if assignor.name == name), None)


def join_request(
    settings: ClassicSettings,
    member_id: str,
    topics: tuple[str, ...],
    *,
    owned: tuple[TopicParts, ...],
    owned_generation: int,
    reason: str | None,
) -> JoinGroupRequest:
    """Return the JoinGroup request: one protocol with a subscription for each assignor.

    owned: what the member claims (KIP-429), assigned in `owned_generation`, -1 for none (KIP-792).
    reason: why it rejoins, for the coordinator's log (KIP-800). Raises Refused as
    `checked_user_data` does.
    """
    # The generation in which the partitions were assigned, not the present one: KIP-792 lets the
    # leader see which of two claims is older.
    subscription = Subscription(
        topics, None, owned, owned_generation, settings.rack_id, settings.instance_id
    )
    return JoinGroupRequest(
        group_id=settings.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
        member_id=member_id,
        group_instance_id=settings.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=tuple(
            JoinGroupRequestProtocol(
                name=assignor.name,
                metadata=encode_subscription(
                    replace(subscription, user_data=_user_data(assignor, topics))
                ),
            )
            for assignor in settings.assignors
        ),
        # The broker would cut it at the same length.
        reason=None if reason is None else reason[:REASON_CHARS],
    )


def _user_data(assignor: Assignor, topics: tuple[str, ...]) -> bytes | None:
    return checked_user_data(assignor, lambda: assignor.user_data(topics))


def sync_request(
    settings: ClassicSettings, member_id: str, generation: Generation
) -> SyncGroupRequest:
    """Return the SyncGroup request; a leader's carries all assignments."""
    assert generation.assignments is not None
    return SyncGroupRequest(
        group_id=settings.group_id,
        generation_id=generation.number,
        member_id=member_id,
        group_instance_id=settings.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=generation.protocol,
        assignments=generation.assignments,
    )


def heartbeat_request(
    settings: ClassicSettings, member_id: str, generation: Generation
) -> HeartbeatRequest:
    """Return the Heartbeat request of this generation."""
    return HeartbeatRequest(
        group_id=settings.group_id,
        generation_id=generation.number,
        member_id=member_id,
        group_instance_id=settings.instance_id,
    )


def leave_request(settings: ClassicSettings, member_id: str) -> LeaveGroupRequest:
    """Return the LeaveGroup request; KIP-345: it names the instance id of a static member."""
    identity = MemberIdentity(
        member_id=member_id, group_instance_id=settings.instance_id, reason="the consumer leaves"
    )
    return LeaveGroupRequest(group_id=settings.group_id, members=(identity,))
