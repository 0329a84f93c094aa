"""The states of a KIP-848 member, and which of them may follow which.

KIP-848 keeps the member's assignment on the coordinator, which asks the member to give up
partitions before it assigns new ones. The member reports with each heartbeat what it owns. The
states have the names of `MemberState` in Kafka's Java client:

| state | waits for | leaves it when |
|---|---|---|
| UNSUBSCRIBED | its owner | the owner subscribes: JOINING |
| JOINING | the response to the heartbeat with epoch 0 | accepted: RECONCILING or STABLE |
| RECONCILING | its owner, which must revoke and adopt partitions | adopted: ACKNOWLEDGING |
| ACKNOWLEDGING | its turn to send a heartbeat with what is owned | sent: STABLE or RECONCILING |
| STABLE | the next target; heartbeats keep the interval | the target changes: RECONCILING |
| LEAVING | the response to the heartbeat with epoch -1 or -2 | UNSUBSCRIBED, STALE or FATAL |
| STALE | its owner, which exceeded `poll_limit_ms` | the owner polls again: JOINING |
| FATAL | nothing: `View.error` says why | the owner leaves: UNSUBSCRIBED |

Two states of the Java client are transitions here. FENCED: everything owned is reported as `Lost`,
and the member is JOINING again with epoch 0 and the same id. PREPARE_LEAVING: the owner stops using
its partitions before it says `Leave`.
"""

from apportion.member.membership import FROM_ANY_STATE, MembershipState

NEXT = {  # state -> states that may follow
    MembershipState.UNSUBSCRIBED: {MembershipState.JOINING},
    MembershipState.JOINING: {MembershipState.RECONCILING, MembershipState.STABLE} | FROM_ANY_STATE,
    MembershipState.RECONCILING: {MembershipState.ACKNOWLEDGING, MembershipState.STABLE}
    | FROM_ANY_STATE,
    MembershipState.ACKNOWLEDGING: {MembershipState.RECONCILING, MembershipState.STABLE}
    | FROM_ANY_STATE,
    MembershipState.STABLE: {MembershipState.RECONCILING, MembershipState.ACKNOWLEDGING}
    | FROM_ANY_STATE,
    # FATAL: its assignor has ended the membership.
    MembershipState.LEAVING: {
        MembershipState.UNSUBSCRIBED,
        MembershipState.STALE,
        MembershipState.FATAL,
    },
    MembershipState.STALE: {MembershipState.JOINING, MembershipState.UNSUBSCRIBED},
    MembershipState.FATAL: {MembershipState.UNSUBSCRIBED},
}
IN_GROUP = (MembershipState.RECONCILING, MembershipState.ACKNOWLEDGING, MembershipState.STABLE)
"""The states of a member that the coordinator has admitted."""
