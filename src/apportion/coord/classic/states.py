"""The states of a classic group, and the transitions between them.

The problem: the classic protocol moves a group from one generation to the next as a whole. No
member may use the assignment of a new generation before all know it, and a member that has died may
not hold up the others for ever.

The method is a barrier with two phases, as in Kafka's `ClassicGroup`; NEXT is its table of states:

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance ...

- PreparingRebalance: somebody came, left or changed its protocols. Every member must send
  JoinGroup; the requests are parked. At the last one, or at the rebalance timeout, a new generation
  begins with those that have joined, in the JoinGroup responses (`rebalance.py`).
- CompletingRebalance: every member sends SyncGroup, which is parked until the leader's brings the
  assignment. That is saved first and then given to all (`sync.py`).
- Stable: members heartbeat, until the next change sends them back to JoinGroup.

The rebalance ends because each phase has a deadline after which the missing members are removed:
JOIN and SYNC, both the longest rebalance timeout of the members. A step costs the work of one
request; only the ends of the phases look at every member, since counters answer the questions of a
single join.

Example: a and b are Stable at generation 3, and c joins.

    c: JoinGroup        PreparingRebalance; parked
    a, b: Heartbeat     REBALANCE_IN_PROGRESS
    a, b: JoinGroup     all have joined: generation 4, CompletingRebalance; a leads
    b, c: SyncGroup     parked
    a: SyncGroup        with the assignment: saved, Stable; all three get theirs
"""

from apportion.wire.group_states import GroupState

NEXT = {  # state -> the states that may follow
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {
        GroupState.COMPLETING_REBALANCE,
        GroupState.EMPTY,
    },
    GroupState.COMPLETING_REBALANCE: {
        GroupState.STABLE,
        GroupState.PREPARING_REBALANCE,
    },
    GroupState.STABLE: {GroupState.PREPARING_REBALANCE},
}
