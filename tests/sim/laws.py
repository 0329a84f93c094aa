"""The laws of the simulator by name, for the tests that look for each on the page and broken."""

WATCHED_LAWS: dict[str, str] = {
    "no-two-hands": "no two applications use the same partition at the same time",
    "epochs-never-back": (
        "no epoch decreases, neither those that an application has seen nor those of the "
        "coordinator"
    ),
    "converges": (
        "after the faults every member has its target within a bound, and all that its client-side "
        "assignors have said is saved"
    ),
    "silent": "a group that has converged writes nothing and changes no epoch without a cause",
    "computed-by-chosen": (
        "a target assignment is installed by the chosen member alone, for the group epoch that it "
        "was told last, and only if it is an assignment; any other request changes nothing"
    ),
    "computed-is-target": (
        "what the chosen member has installed is the target of all who are still members"
    ),
    "computed-by-members": (
        "the broker computes no target for a group whose members have a client-side assignor in "
        "common"
    ),
    "reason-bumps-epoch": (
        "a reason for a new assignment, once saved, brings a group that uses a client-side "
        "assignor a newer epoch"
    ),
    "saved-once-a-second": (
        "the metadata of a member's client-side assignors are saved at most once in an "
        "assignment interval, and once a second; those with a reason wait only for others with a "
        "reason, and another offer does not wait"
    ),
    "reason-is-heard": (
        "a reason that came too early brings a group that uses a client-side assignor a newer "
        "epoch, with the member's first heartbeat after the interval at the latest"
    ),
    "reason-outlives-a-crash": (
        "a reason that came too early, and was lost with its broker, brings a group that uses a "
        "client-side assignor a newer epoch, with the first full heartbeat of a member that lives "
        "or, without one, once it has kept the reason for its time"
    ),
    "told-once-a-second": "a chosen member is told of its group at most once a second",
    "answer-of-its-epoch": (
        "the metadata that come with a member's assignment were installed with that epoch, and the "
        "error is of that epoch's target or of a newer one; a member that is at its target is told "
        "all that came with it"
    ),
    "commit-is-fenced": "the coordinator refuses a commit with a fenced or stale epoch",
    "commit-with-cause": (
        "the coordinator refuses no commit of a member at its own epoch, nor at an older one for "
        "partitions that have stayed with the member since (KIP-1251)"
    ),
    "offsets-never-back": "a committed offset never decreases without a reset",
    "one-sink": "no offset is committed beyond records that the group's sink lacks",
    "refused-before-join": "no plain consumer joins a group whose committed offsets name a sink",
    "ticket-once": (
        "every ticket of a waiting request is used at most once, and exactly once if its "
        "connection stays open"
    ),
    "sink-once": "at the end, the sink has every record once",
    "all-is-read": (
        "at the end, the plain consumers have committed the end of every log, and nothing beyond it"
    ),
    "delivered-by-owner": "a plain consumer delivers only records of partitions that it uses",
    "delivered-in-order": (
        "while a plain consumer uses a partition, it delivers each record once, in order"
    ),
    "none-skipped": "no plain consumer begins beyond what its group has delivered of a partition",
    "goes-on-at-commit": (
        "a plain consumer begins a partition at the committed offset that it fetched once it had "
        "adopted the partition, or at 0 if there is none, and never before one whose commit was "
        "acknowledged when it asked"
    ),
    "commit-is-delivered": (
        "a plain consumer commits positions of partitions that it uses, and none undelivered"
    ),
    "released-with-commit": (
        "unless the commit of that position failed or the topic was deleted, a plain consumer that "
        "gives up a partition has committed its position"
    ),
    "poll-goes-on": "poll of a plain consumer raises no error that time mends",
    "query-goes-on": (
        "a query ends with no error that time mends once it has read, and with no error before it "
        "was retried"
    ),
    "range-is-read": (
        "a task of a query reads each record of its range once, in order; the last ones may be "
        "missing if the topic was deleted"
    ),
    "task-goes-on": (
        "a task of a query ends with no error before nothing has come for its whole time"
    ),
    "spans-continue": "a query never goes back before the end of its own last batch",
    "replay-equals-live": (
        "the state replayed from the log equals the saved state of the running coordinator"
    ),
    "compacted-replay-equals-live": "the same for a log that was compacted, wholly or in part",
    "fenced-with-cause": "no member is fenced that followed the protocol",
    "gone-with-cause": "no member is removed that sent its requests in time",
    "gone-in-time": (
        "no member of a stable classic group is silent for longer than its session timeout"
    ),
    "moves-with-cause": (
        "a leader with a sticky assignor takes no partition from a member that could keep it"
    ),
    "subscribed-only": "no member is assigned a partition of a topic that it does not subscribe to",
    "no-defect": (
        "no machine raises an undeclared exception, and no member fails permanently except "
        "for want of time"
    ),
    "durable": "everything that was acknowledged survives a crash",
}
"""The laws beside those of one group; docs/simulator.md has these sentences."""

TLA: dict[str, str] = {
    "TypeOK": "bounded-epochs, counts-agree",
    "LegalTargetAssignment": "legal-target",
    "NoDoubleClientAssignment": "one-holder, no-two-hands",
    "ValidPartitionEpoch": "holders-agree",
    "ValidStableGroupState": "stable-is-settled",
    "ValidMemberEpoch": "valid-member-epoch",
    # first version only: a client that reconciles has something under way that will end it
    "ValidReconcileState": "converges",
    "EventuallyConverges": "converges",
    "ClientSideMemberEpochIsMonotonic": "epochs-never-back",
    "GcSideMemberEpochIsMonotonic": "epochs-never-back",
}
"""The laws that stand for each invariant of Vanlightly's TLA+ sketch of KIP-848, both versions."""

STREAMS_LAWS: dict[str, str] = {
    "one-active": "no task is active in two threads that are members",
    "one-role": (
        "no process is given a task twice by one plan: neither as active and as standby, nor "
        "for two of its threads"
    ),
    "leader-triggers": (
        "by KIP-268 the leader alone joins again because all understand a newer version"
    ),
    "all-owned": "in a group at rest every task is active in exactly one thread",
    "one-version": (
        "in a group at rest all work by assignments in the newest version that all may speak"
    ),
    "few-warmups": "no more tasks warm up at once than max.warmup.replicas",
    "always-served": (
        "where nothing else happens to a group, no task is without an owner for longer than a "
        "bounce or a death takes"
    ),
}
"""The laws of Streams groups and what each says, beside the laws of every classic group."""
