from xml.etree import ElementTree

from demo.picture import ownership_svg
from demo.timeline import (
    CommitGaps,
    Event,
    HostLoss,
    OwnershipPeriod,
    Sample,
    WorkerLoss,
    commit_gaps,
    events,
    ownership_periods,
    worker_events,
)


def sample(
    at_ms: int, owners: str, stable: bool = True, committed: dict[int, int] | None = None
) -> Sample:
    owned = {partition: owner for partition, owner in enumerate(owners) if owner}
    return Sample(at_ms, owned, frozenset(owned.values()), stable, committed or {})


def test_a_dead_member_owns_nothing_from_its_death_on() -> None:
    samples = [sample(0, "ab"), sample(100, "ab"), sample(200, "ab"), sample(300, "aa")]
    assert ownership_periods(samples, [HostLoss(150, "b")], 2) == [
        OwnershipPeriod(0, "a", 0, 300),
        OwnershipPeriod(1, "b", 0, 150),
        OwnershipPeriod(1, None, 150, 300),
        OwnershipPeriod(1, "a", 300, 300),
    ]


def test_a_lost_host_costs_the_time_from_its_death_to_the_next_owner() -> None:
    samples = [
        sample(0, "ab"),
        sample(200, "ab"),
        sample(300, "a ".replace(" ", "")),
        sample(400, "aa"),
    ]
    samples[2] = Sample(300, {0: "a"}, frozenset("a"), False, {})
    assert events(samples, [HostLoss(150, "b")], 2) == [
        Event("join", "a", 0, 0, 2, 0),
        Event("join", "b", 0, 0, 2, 0),
        Event("session", "b", 150, 250, 1, 250),
    ]


def test_a_join_and_a_leave_count_what_moved_and_what_stood_still() -> None:
    samples = [
        sample(0, "aa"),
        Sample(100, {0: "a"}, frozenset("ab"), False, {}),
        sample(200, "ab"),
        Sample(300, {1: "b"}, frozenset("b"), False, {}),
        sample(400, "bb"),
    ]
    assert events(samples, [], 2)[1:] == [
        Event("join", "b", 100, 100, 1, 100),
        Event("leave", "a", 300, 100, 1, 100),
    ]


def test_a_rebalance_that_never_ends_has_no_time_of_convergence() -> None:
    samples = [sample(0, "aa"), Sample(100, {0: "a"}, frozenset("ab"), False, {})]
    assert events(samples, [], 2)[-1] == Event("join", "b", 100, None, 1, 0)


def seen(at_ms: int, owners: str, committed: int, end: int) -> Sample:
    """A sample in which every partition has these offsets."""
    group = sample(at_ms, owners, committed=dict.fromkeys(range(len(owners)), committed))
    return group._replace(ends=dict.fromkeys(range(len(owners)), end))


def test_a_lost_worker_costs_the_time_until_all_that_was_in_the_topic_is_written() -> None:
    samples = [
        seen(0, "ab", 0, 10),
        seen(200, "ab", 5, 20),
        seen(400, "ab", 15, 30),
        seen(600, "ab", 20, 40),
    ]
    lost = WorkerLoss(150, "worker-2", 2)
    assert worker_events(samples, [lost], 2) == [Event("worker", "worker-2", 150, 450, 0, 0)]
    assert worker_events(samples[:3], [lost], 2) == [Event("worker", "worker-2", 150, None, 0, 0)]


def test_partitions_that_moved_when_a_worker_was_lost_are_counted() -> None:
    samples = [seen(0, "ab", 0, 10), seen(200, "aa", 5, 20), seen(400, "aa", 20, 30)]
    samples[1] = samples[1]._replace(owners={0: "a"})
    assert worker_events(samples, [WorkerLoss(100, "worker-2", 1)], 2) == [
        Event("worker", "worker-2", 100, 300, 1, 200)
    ]


def test_commit_gaps_are_told_apart_by_whether_a_rebalance_ran() -> None:
    offsets = [0, 10, 10, 20, 20, 20, 30]
    samples = [sample(at * 100, "a", committed={0: offset}) for at, offset in enumerate(offsets)]
    calm = commit_gaps(samples, [], 1)
    busy = commit_gaps(samples, [Event("join", "b", 350, 100, 0, 0)], 1)
    assert (calm, busy) == (CommitGaps(0, 300, 0), CommitGaps(300, 200, 0))


def test_the_picture_shows_every_spell_and_every_event() -> None:
    drawn = ownership_svg(
        [OwnershipPeriod(0, "app <one>", 0, 1000), OwnershipPeriod(1, None, 0, 1000)],
        [Event("session", "app <one>", 500, 100, 1, 100)],
        2,
        1000,
        "a & b",
    )
    texts = "".join(ElementTree.fromstring(drawn).itertext())
    assert "partition 0: app <one>, 1.0 s" in texts
    assert "partition 1: nobody, 1.0 s" in texts
    assert "app <one> host lost" in texts


def test_the_time_in_which_a_partition_had_nothing_to_commit_is_no_gap() -> None:
    seen = [(0, 10), (10, 10), (10, 10), (10, 20), (20, 20)]  # committed, end
    samples = [
        Sample(at * 100, {0: "a"}, frozenset("a"), True, {0: seen[at][0]}, {0: seen[at][1]})
        for at in range(5)
    ]
    assert commit_gaps(samples, [], 1) == CommitGaps(0, 200, 0)


def test_a_sample_tells_rows_lag_and_shares() -> None:
    seen = Sample(
        0, {0: "a", 1: "b", 2: "a"}, frozenset("ab"), True, {0: 5, 1: 7, 2: 0}, {0: 6, 1: 7, 2: 4}
    )
    assert (
        seen.written,
        seen.lag,
        seen.owned_by("a"),
        seen.has_converged(3),
        seen.has_converged(4),
    ) == (
        12,
        5,
        [0, 2],
        True,
        False,
    )


def test_a_gap_in_which_the_owner_changed_is_told_apart() -> None:
    # a commits 30 and lets go at once
    seen = [("a", 0), ("a", 10), ("a", 20), ("b", 30), ("b", 30), ("b", 40)]
    samples = [
        Sample(at * 100, {0: owner}, frozenset("ab"), True, {0: offset})
        for at, (owner, offset) in enumerate(seen)
    ]
    assert commit_gaps(samples, [], 1) == CommitGaps(0, 100, 200)


def test_offsets_committed_before_the_first_look_begin_no_gap() -> None:
    samples = [
        sample(at * 100, "a", committed=seen)
        for at, seen in enumerate([{}, {0: 0}, {0: 0}, {0: 10}, {0: 20}])
    ]
    assert commit_gaps(samples, [], 1) == CommitGaps(0, 100, 0)
