"""The rehearsal of an upgrade, in a quiet world and in one with faults."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from apportion.errors import Code
from apportion.sim.kernel.clock import Simulation
from apportion.sim.kernel.scenario import draw_faults
from apportion.sim.kernel.trace import Trace
from apportion.sim.streams.cluster import StreamsCluster
from apportion.sim.streams.instance import Instance
from apportion.sim.streams.play import RehearsalResult, rehearse
from apportion.sim.streams.rehearsal import Rehearsal, RehearsalRefused
from apportion.sim.streams.settings import LEADERS
from apportion.sim.streams.thread import StreamThread
from apportion.streams.metadata.releases import known_release
from apportion.streams.metadata.upgrades import RollingBounce
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from tests.profiles import simulated_seeds

FAULTS = (
    *("broker-crash", "broker-pause", "disk-refuses", "crash", "restart", "roll", "pause", "slow"),
    *("cut", "half-open-up", "half-open-down", "lost-reply", "clock-jump"),
)
"""The faults that a rehearsal may have: those that change neither topics nor subscriptions."""

UPGRADES = (
    ("0.10.0", "1.1"),
    ("1.1", "2.0"),
    ("2.0", "post-2.0"),
    ("2.0", "2.3"),
    ("2.3", "3.9"),
    ("1.1", "4.0"),
    ("2.4", "4.4"),
    ("4.4", "future"),
    ("future", "4.4"),
    ("4.0", "2.3"),
    ("3.9", "1.1"),
    ("2.3", "1.1"),
    ("post-2.0", "2.0"),
)


def draw_rehearsal(seed: int, kinds: Sequence[str] = FAULTS, threads: int = 1) -> Rehearsal:
    """Draw a rolling upgrade to rehearse from the seed, with simulated faults of these kinds."""
    rng = Random(f"{seed} rehearsal")
    from_, to = rng.choice(UPGRADES)
    quiet = Rehearsal(
        from_=from_,
        to=to,
        instances=rng.randint(2, 5),
        partitions=rng.randint(1, 6),
        standbys=rng.choice((0, 0, 1, 2)),
        threads=threads,
        leader=rng.choice(LEADERS),
        seed=seed,
        away_ms=rng.choice((500, 3_000, 15_000)),
        session_ms=rng.choice((4_000, 6_000, 10_000)),
        probing_ms=rng.choice((20_000, 600_000)),
    )
    steps = quiet.instances * len(quiet.upgrade.bounces)
    scenario = replace(
        quiet.scenario, duration_ms=steps * (quiet.away_ms + quiet.scenario.session_ms)
    )
    return replace(quiet, faults=draw_faults(scenario, tuple(kinds)))


def versions(rehearsed: RehearsalResult) -> list[int]:
    return [rehearsed.version_before, *(step.version for step in rehearsed.steps)]


def test_from_1_1_to_4_0_two_bounces_lead_by_way_of_3_9() -> None:
    rehearsed = rehearse(Rehearsal(from_="1.1", to="4.0"))
    assert rehearsed.held
    assert versions(rehearsed) == [2] * 12 + [11]
    assert [step.led for step in rehearsed.steps] == ([False] * 5 + [True]) * 2
    assert [str(step.runs_as) for step in rehearsed.steps] == ["3.9 with upgrade.from=1.1"] * 6 + [
        "4.0"
    ] * 6


def test_an_eager_group_stops_as_a_whole_and_a_cooperative_one_in_part() -> None:
    eager, cooperative = (
        rehearse(Rehearsal(from_="2.0", to="2.3")),
        rehearse(Rehearsal(from_="2.4", to="2.8")),
    )
    assert {step.stopped for step in eager.steps} == {12}
    assert {step.stopped for step in cooperative.steps} == {2}


def test_without_upgrade_from_the_old_leaders_die_one_after_the_other() -> None:
    rehearsed = rehearse(Rehearsal(from_="1.1", to="2.0", instances=3, bounces=1, leader="first"))
    assert not rehearsed.held
    assert rehearsed.broken is None
    first, *others = rehearsed.steps
    assert sorted(first.died) == sorted(step.instance for step in others)
    assert {why.split(", ", 1)[1] for why in first.died.values()} == {
        "this leader understands 2, which cannot probe: stop it, or set its upgrade.from"
    }


def test_without_upgrade_from_an_eager_leader_assigns_tasks_that_others_still_run() -> None:
    rehearsed = rehearse(Rehearsal(from_="2.3", to="3.9", bounces=1))
    assert rehearsed.broken is not None
    assert rehearsed.broken.law == "one-active"


@pytest.mark.parametrize("leader", ["first", "middle", "last", 2])
def test_the_leader_is_bounced_when_it_shall_be(leader: int | str) -> None:
    rehearsed = rehearse(Rehearsal(from_="2.0", to="post-2.0", instances=3, leader=leader))
    assert rehearsed.held
    index = {"first": 0, "middle": 1, "last": 2, 2: 1}[leader]
    assert rehearsed.steps[index].led
    assert versions(rehearsed) == [3, 3, 3, 12]


@pytest.mark.parametrize("victim", ["instance", "leader", "broker"])
def test_somebody_may_die_on_the_way(victim: str) -> None:
    rehearsed = rehearse(Rehearsal(from_="2.4", to="4.4", instances=3, crash_at=2, victim=victim))
    assert rehearsed.held
    assert [bool(step.crashed) for step in rehearsed.steps] == [False, True, False]


def test_the_oldest_releases_leave_when_they_are_closed() -> None:
    rehearsed = rehearse(Rehearsal(from_="0.10.0", to="0.10.1", instances=3))
    assert rehearsed.held
    assert max(step.unowned_ms for step in rehearsed.steps) < 5_000


@pytest.mark.parametrize("session_ms", [2_000, 3_000, 100_000])
def test_members_beat_often_enough_for_any_session(session_ms: int) -> None:
    assert rehearse(Rehearsal(from_="3.9", to="4.0", instances=2, session_ms=session_ms)).held


def test_one_seed_is_one_history() -> None:
    assert rehearse(draw_rehearsal(3)) == rehearse(draw_rehearsal(3))
    assert (
        rehearse(Rehearsal(from_="2.4", to="2.8", seed=1)).digest
        != rehearse(Rehearsal(from_="2.4", to="2.8", seed=2)).digest
    )


# 269: a restoring task becomes a standby. 1885, 5375: as they were played once, a SyncGroup that is
# refused, a JoinGroup without news: then silence
@pytest.mark.parametrize("seed", [*simulated_seeds(5), 269, 1885, 5375])
def test_every_law_holds_in_an_upgrade_under_faults(seed: int) -> None:
    rehearsed = rehearse(draw_rehearsal(seed))
    assert (rehearsed.broken, rehearsed.died) == (None, {})


@pytest.mark.parametrize("threads", [2, 3])
# 1052, 1132: as they were played once, a thread that cannot be read; state that nobody spoke of
@pytest.mark.parametrize("seed", [*simulated_seeds(2), 1052, 1132])
def test_every_law_holds_under_faults_where_threads_die_one_by_one(seed: int, threads: int) -> None:
    rehearsed = rehearse(draw_rehearsal(seed, threads=threads))
    assert (rehearsed.broken, rehearsed.died) == (None, {})


def test_an_instance_is_bounced_with_all_its_threads() -> None:
    rehearsed = rehearse(Rehearsal(from_="2.4", to="4.4", instances=2, threads=3))
    assert rehearsed.held
    assert [step.stopped for step in rehearsed.steps] == [6, 6]
    assert {change.instance for change in rehearsed.instance_changes} == {"app1", "app2"}
    assert [change.tasks for change in rehearsed.instance_changes][-1] == 6


def test_a_leader_that_cannot_read_a_newcomer_takes_its_whole_process_with_it() -> None:
    trace = Trace()
    rehearsed = rehearse(
        Rehearsal(from_="1.1", to="2.0", instances=2, threads=2, bounces=1, leader="first"), trace
    )
    assert (sorted(rehearsed.died), rehearsed.broken) == (["app1"], None)
    (died_us,) = [line.at_us for line in trace.lines if line.text.startswith("dies: ")]
    assert [(line.at_us, line.process) for line in trace.lines if line.text == "ends"] == [
        (died_us, "app1-1"),
        (died_us, "app1-2"),
    ]


def running(instances: int, threads: int) -> StreamsCluster:
    """A cluster in which every thread is at rest, and some seconds have passed since."""
    rehearsal = Rehearsal(from_="2.4", to="4.4", instances=instances, threads=threads)
    applications: list[Instance[Any]] = [
        Instance(f"app{number}", rehearsal.upgrade.bounces[0]) for number in range(1, instances + 1)
    ]
    cluster = StreamsCluster(
        Simulation(rehearsal.scenario), applications, AssignmentConfigs(), rehearsal.probing_ms
    )
    cluster.start()
    while not (cluster.is_at_rest() and cluster.simulation.now_ms > 30_000):
        cluster.simulation.run(cluster.simulation.now_us + 250_000)
    return cluster


def run_until_down(cluster: StreamsCluster, *threads: StreamThread) -> None:
    """Let threads that are being closed commit and give up their tasks."""
    while any(thread.is_up for thread in threads):
        cluster.simulation.run(cluster.simulation.now_us + 10_000)


def test_a_closed_instance_keeps_its_state_and_a_killed_one_its_last_checkpoint() -> None:
    cluster = running(instances=2, threads=2)
    closed, dead = cluster.instances
    saved = dict(dead.disk)
    had = dict(closed.state)
    assert had
    assert saved != dead.state
    closed.close(closed.runs_as)
    for thread in dead.threads:
        thread.die(closes_connections=True)
    run_until_down(cluster, *closed.threads)
    for instance in cluster.instances:
        instance.threads[0].start()
    assert (closed.state, dead.state) == (had, saved)


def test_a_thread_that_gave_up_does_not_come_back_to_a_process_that_is_closing() -> None:
    cluster = running(instances=2, threads=2)
    instance = cluster.instances[0]
    first, second = instance.threads
    second.pause(5_000_000)
    instance.close(RollingBounce(known_release("4.4")))
    for thread in instance.threads:
        cluster.start_later(thread, 1_000)
    run_until_down(cluster, first)
    first.start()
    first._give_up(Code.UNKNOWN_SERVER_ERROR, "for a while")
    cluster.simulation.run(cluster.simulation.now_us + 3_000_000)
    assert (first.is_up, second.is_up) == (False, True)
    cluster.simulation.run(cluster.simulation.now_us + 10_000_000)
    assert (first.is_up, second.is_up, instance.runs_as) == (True, True, instance.will_run_as)


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ({"from_": "1.1", "to": "5.0"}, "there is no release '5.0' of Kafka Streams known here"),
        ({"from_": "3.9", "to": "post-2.0"}, "no rolling bounce leads from 3.9 to post-2.0"),
        (
            {"from_": "2.4", "to": "4.0", "leader": 7},
            "leader must be a whole number from 1 to 6, not 7",
        ),
        (
            {"from_": "2.4", "to": "4.0", "crash_at": 7},
            "crash_at must be a whole number from 1 to 6, not 7",
        ),
        (
            {"from_": "2.4", "to": "4.0", "victim": "disk"},
            "there is no victim 'disk'; there are instance, leader, broker",
        ),
        (
            {"from_": "2.4", "to": "4.0", "threads": 11},
            "threads must be a whole number from 1 to 10, not 11",
        ),
        (
            {"from_": "2.4", "to": "4.0", "instances": 0},
            "instances must be a whole number from 1 to 100, not 0",
        ),
    ],
)
def test_an_impossible_rehearsal_is_refused_in_one_sentence(
    sizes: dict[str, Any], why: str
) -> None:
    with pytest.raises(RehearsalRefused) as refused:
        Rehearsal(**sizes)
    assert str(refused.value).startswith(why)
