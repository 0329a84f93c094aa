"""The states of a classic member, and which of them may follow which (KIP-429, KIP-345).

The coordinator moves a classic group from one generation to the next: all members send JoinGroup,
one of them, the leader, assigns the partitions, and SyncGroup tells each member its own. Kafka's
Java client has the same steps in `ConsumerCoordinator` (UNJOINED, PREPARING_REBALANCE,
COMPLETING_REBALANCE, STABLE); here the owner's part is a state, too:

| state | waits for | leaves it when |
|---|---|---|
| UNSUBSCRIBED | its owner | the owner subscribes: JOINING |
| JOINING | the JoinGroup response, held back until all members joined | it arrives: SYNCING |
| SYNCING | topic metadata, if it leads, then SyncGroup | assigned: RECONCILING or STABLE |
| RECONCILING | its owner, which must revoke and adopt partitions | it has adopted: STABLE |
| STABLE | the next rebalance; it sends heartbeats | topics changed: RECONCILING |
| LEAVING | the LeaveGroup response | it arrives, or none comes: UNSUBSCRIBED or STALE |
| STALE | its owner, which exceeded `poll_limit_ms` | the owner polls again: JOINING |
| FATAL | nothing: `View.error` says why | the owner leaves: LEAVING or UNSUBSCRIBED |

A rebalance leads from RECONCILING and STABLE back to JOINING, and a failed SyncGroup from SYNCING.
Under the eager protocol the member first revokes everything, under the cooperative one (KIP-429)
only what is no longer subscribed. A lost membership (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION) leads
to JOINING as well; everything owned is reported as `Lost` first, which is a transition and has no
state of its own. An error that cannot be retried leads to FATAL from any state.
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
IN_A_GENERATION = (MembershipState.SYNCING, MembershipState.RECONCILING, MembershipState.STABLE)
"""States in which the member has a generation, and so heartbeats."""
WITH_ASSIGNMENT = (MembershipState.RECONCILING, MembershipState.STABLE)
"""States in which the member knows its assignment of this generation, and so may rejoin."""
