"""The states of a classic member, and which of them may follow which.

One incarnation of a member runs through this table, as Kafka's Java client does inside
`ConsumerCoordinator`:

| state | waits for | leaves it when |
|---|---|---|
| UNSUBSCRIBED | its owner | the owner subscribes: JOINING |
| JOINING | the JoinGroup response, which the coordinator holds back until all members have joined |
it arrives: SYNCING |
| SYNCING | topic metadata, if it leads, then the SyncGroup response | its assignment is known:
RECONCILING or STABLE |
| RECONCILING | its owner, which must stop using what was revoked and adopt what was assigned | the
owner has adopted: STABLE |
| STABLE | the next rebalance; heartbeats go out | topics changed, or an offer was withdrawn:
RECONCILING |
| LEAVING | the LeaveGroup response | it arrives, or nobody answers: UNSUBSCRIBED, or STALE |
| STALE | its owner, which did not poll within `poll_limit_ms` | the owner polls again: JOINING |
| FATAL | nothing: `View.error` says why | the owner leaves: LEAVING or UNSUBSCRIBED |

A rebalance leads from RECONCILING and STABLE back to JOINING, and a failed SyncGroup from SYNCING.
So does a lost membership (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION), which first reports everything it
owned as `Lost`: that reset is a transition and has no state of its own. An error that cannot be
retried leads to FATAL from any state.
"""

from apportion.member.membership import FROM_ANY_STATE, MembershipState

NEXT = {  # state -> states that may follow
    MembershipState.UNSUBSCRIBED: {MembershipState.JOINING},
    MembershipState.JOINING: {MembershipState.SYNCING} | FROM_ANY_STATE,
    MembershipState.SYNCING: {MembershipState.RECONCILING, MembershipState.STABLE} | FROM_ANY_STATE,
    MembershipState.RECONCILING: {MembershipState.STABLE} | FROM_ANY_STATE,
    MembershipState.STABLE: {MembershipState.RECONCILING} | FROM_ANY_STATE,
    MembershipState.LEAVING: {MembershipState.UNSUBSCRIBED, MembershipState.STALE},
    MembershipState.STALE: {MembershipState.JOINING, MembershipState.UNSUBSCRIBED},
    MembershipState.FATAL: {MembershipState.UNSUBSCRIBED, MembershipState.LEAVING},
}
SILENT = (MembershipState.UNSUBSCRIBED, MembershipState.STALE, MembershipState.FATAL)
"""States in which the member sends nothing."""

IN_A_GENERATION = (MembershipState.SYNCING, MembershipState.RECONCILING, MembershipState.STABLE)
"""States in which the member has a generation, and so heartbeats."""
