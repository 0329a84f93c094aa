"""What a leader tells everybody, and what it asks before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import Code, Refused, Unanswerable
from apportion.streams.assignor.client_metadata import ConsumerMetadata
from apportion.streams.assignor.client_states import AssignmentConfigs
from apportion.streams.leader import (
    ConsumerAssignment,
    GroupAssignment,
    LeaderSettings,
    assign_as_leader,
)
from apportion.streams.metadata.model import (
    OFFSET_UNKNOWN,
    RUNNING,
    AssignmentInfo,
    AssignorError,
    FutureInfo,
    HostInfo,
    SubscriptionInfo,
    TaskId,
)
from apportion.streams.metadata.releases import RELEASES
from apportion.streams.queries import CreateInternalTopics, FetchCommittedOffsets, ListEndOffsets
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicPartition

WORDS = topology_of(
    [
        {"sources": ["lines"], "repartition_sinks": ["g-words"]},
        {"repartition_sources": ["g-words"], "changelogs": ["g-counts-changelog"]},
    ]
)
LINES = topology_of([{"sources": ["lines"]}])
STATE = topology_of([{"sources": ["lines"], "changelogs": ["g-changelog"]}])


def told(process, version=11, owned=(), sums=None, **rest):
    info = SubscriptionInfo(
        version,
        version if version > 2 else -1,
        process.encode().rjust(16),
        offset_sums=sums or {},
        **rest,
    )
    return ConsumerMetadata(info, tuple(TopicPartition("lines", number) for number in owned))


def decided(plan, *, made=None, ends=None, asked=None):
    """The plan; `made` is what topics are found to have, `ends` says offsets: None: nobody
    answers.
    """
    answer = None
    try:
        while True:
            question = (
                plan.throw(Unanswerable("no broker"))
                if answer is Unanswerable
                else plan.send(answer)
            )
            if asked is not None:
                asked.append(question)
            match question:
                case CreateInternalTopics(topics):
                    answer = {topic.name: topic.partitions for topic in topics} | (made or {})
                case ListEndOffsets(places) | FetchCommittedOffsets(places):
                    answer = (
                        Unanswerable
                        if ends is None
                        else {place: ends.get(place, 0) for place in places}
                    )
    except StopIteration as end:
        return end.value


def leads(topology, said, *, exist=None, member="a", wall_ms=1_000, settings=None, **known):
    mine = LeaderSettings(member, topology, **({"release": RELEASES["4.3"]} | (settings or {})))
    return decided(assign_as_leader(mine, exist or {"lines": 4}, said, wall_ms), **known)


def lines(*numbers):
    return tuple(TopicPartition("lines", number) for number in numbers)


def tasks(*numbers):
    return tuple(TaskId(0, number) for number in numbers)


def test_a_lone_member_is_told_the_task_of_each_of_its_partitions():
    assert leads(LINES, {"a": told("a")}) == GroupAssignment(
        {"a": ConsumerAssignment(lines(0, 1, 2, 3), AssignmentInfo(11, 11, tasks(0, 1, 2, 3)))}
    )


def test_it_asks_for_its_topics_and_their_ends_and_nothing_that_it_does_not_need():
    asked = []
    leads(WORDS, {"a": told("a")}, ends={}, asked=asked)
    made, ends = asked
    assert [(topic.name, topic.partitions) for topic in made.topics] == [
        ("g-counts-changelog", 4),
        ("g-words", 4),
    ]
    assert ends == ListEndOffsets(
        tuple(TopicPartition("g-counts-changelog", number) for number in range(4))
    )
    asked.clear()
    leads(LINES, {"a": told("a")}, asked=asked)
    assert asked == []


def test_of_a_source_that_serves_as_a_changelog_it_asks_what_is_committed():
    asked = []
    leads(
        topology_of([{"sources": ["lines"], "changelogs": ["lines"]}]),
        {"a": told("a")},
        ends={},
        asked=asked,
    )
    assert asked == [FetchCommittedOffsets(lines(0, 1, 2, 3))]


def test_a_task_with_two_sources_is_named_for_each_of_its_partitions():
    both = topology_of([{"sources": ["lines", "other"]}])
    plan = leads(both, {"a": told("a")}, exist={"lines": 2, "other": 1})
    assert plan.assignments["a"] == ConsumerAssignment(
        (*lines(0, 1), TopicPartition("other", 0)),
        AssignmentInfo(11, 11, (TaskId(0, 0), TaskId(0, 1), TaskId(0, 0))),
    )


def test_what_another_still_owns_is_withheld_and_asked_for_again_at_once():
    plan = leads(LINES, {"a": told("a", owned=(0, 1, 2, 3)), "b": told("b")})
    assert len(plan.assignments["a"].partitions) == 2
    assert plan.assignments["b"] == ConsumerAssignment(
        (), AssignmentInfo(11, 11, next_rebalance_ms=0)
    )
    assert plan.assignments["a"].info.next_rebalance_ms is None


def test_eager_members_own_nothing_so_that_nothing_is_withheld():
    plan = leads(LINES, {"a": told("a", version=2), "b": told("b", version=2)})
    assert sorted(
        place for share in plan.assignments.values() for place in share.partitions
    ) == list(lines(0, 1, 2, 3))
    assert {share.info.used for share in plan.assignments.values()} == {2}


def test_the_state_of_what_is_withheld_is_kept_as_a_standby():
    ends = {TopicPartition("g-changelog", number): 100 for number in range(4)}
    said = {
        "a": told("a", owned=(0, 1, 2, 3)),
        "b": told("b", sums={TaskId(0, number): 100 for number in range(4)}),
    }
    plan = leads(STATE, said, ends=ends)
    assert set(plan.assignments["b"].info.standby) == set(tasks(0, 1, 2, 3)) - set(
        plan.assignments["a"].info.active
    )
    assert plan.assignments["b"].info.next_rebalance_ms == 0


def test_hosts_hear_where_partitions_are_active_and_standby():
    said = {
        "a": told("a", endpoint="one:1"),
        "b": told("b", endpoint="two:2"),
        "c": told("c", endpoint="nonsense"),
    }
    plan = leads(
        STATE, said, ends={}, settings={"configs": AssignmentConfigs(num_standby_replicas=1)}
    )
    info = plan.assignments["a"].info
    assert (
        list(info.active_hosts)
        == list(info.standby_hosts)
        == [HostInfo("one", 1), HostInfo("two", 2)]
    )
    assert all(share.info.active_hosts == info.active_hosts for share in plan.assignments.values())


def test_without_ends_everybody_keeps_what_it_runs_and_the_group_looks_again():
    said = {
        "a": told("a", sums=dict.fromkeys(tasks(0, 1, 2, 3), RUNNING)),
        "b": told("b", sums={TaskId(0, 0): OFFSET_UNKNOWN}),
    }
    plan = leads(STATE, said, ends=None)
    assert plan.assignments["a"] == ConsumerAssignment(
        lines(0, 1, 2, 3),
        AssignmentInfo(11, 11, tasks(0, 1, 2, 3), next_rebalance_ms=1_000 + 600_000),
    )
    assert plan.notes == (
        "everybody keeps what it has, as the ends of changelogs are unknown: no broker",
    )


@pytest.mark.parametrize(
    ("topology", "exist", "made", "error", "why"),
    [
        (
            WORDS,
            {"other": 1},
            {},
            AssignorError.INCOMPLETE_SOURCE_TOPIC_METADATA,
            "source topics are missing: lines",
        ),
        (
            WORDS,
            {"lines": 4, "g-words": 9},
            {},
            AssignorError.ASSIGNMENT_ERROR,
            "g-words has 9 partitions and should have 4",
        ),
        (
            WORDS,
            {"lines": 4},
            {"g-words": 3},
            AssignorError.ASSIGNMENT_ERROR,
            "g-words has 3 partitions and should have 4",
        ),
        (
            topology_of([{"sources": ["lines", "x"], "copartition": [["lines", "x"]]}]),
            {"lines": 4, "x": 2},
            {},
            AssignorError.ASSIGNMENT_ERROR,
            "must have equally many partitions: lines has 4, x has 2",
        ),
    ],
)
def test_topics_that_do_not_fit_give_everybody_nothing_and_the_reason(
    topology, exist, made, error, why
):
    plan = leads(topology, {"a": told("a"), "b": told("b", version=9)}, exist=exist, made=made)
    assert plan.assignments == dict.fromkeys(
        "ab", ConsumerAssignment((), AssignmentInfo(9, 9, error=error))
    )
    assert plan.notes[0].startswith("nobody gets anything: ")
    assert why in plan.notes[0]


def test_one_that_asks_for_a_shutdown_is_heard_by_all():
    plan = leads(LINES, {"a": told("a"), "b": told("b", error=AssignorError.SHUTDOWN_REQUESTED)})
    assert plan.assignments == dict.fromkeys(
        "ab", ConsumerAssignment((), AssignmentInfo(11, 11, error=AssignorError.SHUTDOWN_REQUESTED))
    )


def test_who_cannot_be_read_gets_nothing_and_what_it_holds_is_given_to_nobody():
    plan = leads(LINES, {"a": told("a"), "b": ConsumerMetadata(None, lines(0, 1))})
    assert plan.assignments["b"] == ConsumerAssignment(
        (), AssignmentInfo(11, 11, error=AssignorError.ASSIGNMENT_ERROR)
    )
    assert plan.assignments["a"] == ConsumerAssignment(
        lines(2, 3), AssignmentInfo(11, 11, tasks(2, 3))
    )  # b comes by itself when it has let go
    assert leads(LINES, {"b": ConsumerMetadata(None)}).assignments == {"b": plan.assignments["b"]}


def test_two_processes_at_one_endpoint_are_one_place_for_queries():
    said = {name: told(name, endpoint="one:1") for name in "abc"}
    plan = leads(
        STATE, said, ends={}, settings={"configs": AssignmentConfigs(num_standby_replicas=2)}
    )
    assert {
        host: set(places) for host, places in plan.assignments["a"].info.standby_hosts.items()
    } == {HostInfo("one", 1): set(lines(0, 1, 2, 3))}
    assert len(plan.assignments["a"].info.standby_hosts[HostInfo("one", 1)]) == 4


RESTORING = dict.fromkeys(tasks(0, 1, 2, 3), 3)
ENDS = {TopicPartition("g-changelog", number): 1_000_000 for number in range(4)}


@pytest.mark.parametrize("sums", [{}, RESTORING, dict.fromkeys(RESTORING, RUNNING)])
def test_without_ends_everybody_keeps_what_it_was_given_however_much_of_it_is_restored(sums):
    plan = leads(
        STATE,
        {
            "a": told("a", owned=range(4), sums=sums),
            "b": told("b", sums=dict.fromkeys(RESTORING, 9)),
        },
    )
    assert {name: share.info.active for name, share in plan.assignments.items()} == {
        "a": tasks(0, 1, 2, 3),
        "b": (),
    }


def test_sticky_leaves_a_task_with_who_restores_it_though_another_has_more_of_it():
    said = {
        "a": told("a", owned=(0, 1), sums=dict.fromkeys(tasks(2, 3), 900_000)),
        "b": told("b", owned=(2, 3), sums=dict.fromkeys(tasks(0, 1), 900_000)),
    }
    plan = leads(STATE, said, ends=ENDS, settings={"assignor": "sticky"})
    assert {name: share.info.active for name, share in plan.assignments.items()} == {
        "a": tasks(0, 1),
        "b": tasks(2, 3),
    }


def test_two_that_cannot_be_read_and_claim_the_same_keep_nobody_busy():
    plan = leads(
        LINES,
        {
            "a": told("a"),
            "b": ConsumerMetadata(None, lines(0)),
            "c": ConsumerMetadata(None, lines(0)),
        },
    )
    assert plan.assignments["a"] == ConsumerAssignment(
        lines(1, 2, 3), AssignmentInfo(11, 11, tasks(1, 2, 3))
    )


@pytest.mark.parametrize("sums", [{}, RESTORING])
def test_what_one_thread_restores_another_of_its_process_is_no_standby_of(sums):
    said = {"a1": told("p", owned=range(4), sums=sums), "a2": told("p", sums=RESTORING)}
    plan = leads(STATE, said, ends=ENDS, member="a1")
    assert {
        name: (len(share.info.active), share.info.standby)
        for name, share in plan.assignments.items()
    } == {
        "a1": (2, {}),
        "a2": (0, {}),
    }


def test_a_thread_keeps_what_it_was_given_and_has_said_nothing_of():
    said = {"a1": told("p"), "a2": told("p", owned=(0, 1)), "b": told("b", owned=(2, 3))}
    plan = leads(
        STATE,
        said,
        ends=ENDS,
        member="a1",
        settings={"configs": AssignmentConfigs(acceptable_recovery_lag=2**62)},
    )
    kept = {
        name: set(share.info.active) & set(tasks(0, 1)) for name, share in plan.assignments.items()
    }
    assert kept["a2"]
    assert not kept["b"]


def test_members_of_2_4_and_2_5_keep_what_they_own_until_others_have_caught_up():
    said = {"a": told("a", version=6, owned=range(4)), "b": told("b")}
    plan = leads(STATE, said, ends=ENDS)
    assert {
        name: (len(share.info.active), len(share.info.standby))
        for name, share in plan.assignments.items()
    } == {
        "a": (4, 0),
        "b": (0, 2),
    }


def test_topics_that_could_not_be_made_are_asked_for_again():
    asking = assign_as_leader(
        LeaderSettings("a", WORDS, RELEASES["4.3"]), {"lines": 1}, {"a": told("a")}, 0
    )
    question = next(asking)
    assert asking.throw(Unanswerable("no broker")) == question
    assert asking.send({"g-words": 1}) == question
    assert asking.send({"g-words": 1, "g-counts-changelog": 1}) == ListEndOffsets(
        (TopicPartition("g-counts-changelog", 0),)
    )


def test_topics_that_may_not_be_made_are_told_to_everybody():
    asking = assign_as_leader(
        LeaderSettings("a", WORDS, RELEASES["4.3"]), {"lines": 1}, {"a": told("a")}, 0
    )
    next(asking)
    with pytest.raises(StopIteration) as end:
        asking.throw(Refused(Code.POLICY_VIOLATION, "no internal topics here"))
    assert end.value.value == GroupAssignment(
        {"a": ConsumerAssignment((), AssignmentInfo(11, 11, error=AssignorError.ASSIGNMENT_ERROR))},
        notes=(
            "nobody gets anything: the internal topics cannot be made: no internal topics here",
        ),
    )


def test_members_from_the_future_get_tasks_as_one_process():
    said = {
        "a": told("a"),
        "x": ConsumerMetadata(FutureInfo(12, 12)),
        "y": ConsumerMetadata(FutureInfo(12, 12)),
    }
    plan = leads(LINES, said)
    assert sorted(
        place for share in plan.assignments.values() for place in share.partitions
    ) == list(lines(0, 1, 2, 3))
    assert {(share.info.used, share.info.supported) for share in plan.assignments.values()} == {
        (11, 11)
    }


def test_in_the_manners_of_kip_268_they_get_nothing_and_the_leaders_version():
    said = {"a": told("a", version=3), "x": ConsumerMetadata(FutureInfo(12, 12))}
    plan = leads(LINES, said, settings={"release": RELEASES["2.0"]})
    assert plan.assignments == {
        "a": ConsumerAssignment(lines(0, 1, 2, 3), AssignmentInfo(3, 3, tasks(0, 1, 2, 3))),
        "x": ConsumerAssignment((), AssignmentInfo(3, 3)),
    }


def test_who_cannot_be_led_together_is_told_of_an_error_in_the_oldest_version():
    plan = leads(LINES, {"a": told("a", version=2), "x": ConsumerMetadata(FutureInfo(12, 12))})
    assert plan.assignments == dict.fromkeys(
        "ax", ConsumerAssignment((), AssignmentInfo(2, error=AssignorError.ASSIGNMENT_ERROR))
    )


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sets(st.integers(0, 5)),
            st.dictionaries(st.integers(0, 5), st.integers(-3, 200)),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 2),
)
def test_whatever_members_say_no_task_is_given_twice_nor_in_two_roles_nor_while_another_owns_it(
    members, standbys
):
    said, free = {}, set(range(6))
    for number, (process, owns, sums) in enumerate(members):
        owned, free = sorted(owns & free), free - owns
        said[f"m{number}"] = told(
            f"p{process}", owned=owned, sums={TaskId(0, task): sum_ for task, sum_ in sums.items()}
        )
    ends = {TopicPartition("g-changelog", number): 100 for number in range(6)}
    plan = leads(
        STATE,
        said,
        exist={"lines": 6},
        ends=ends,
        member="m0",
        settings={
            "configs": AssignmentConfigs(num_standby_replicas=standbys, acceptable_recovery_lag=10)
        },
    )
    given_to, roles = {}, {}
    for member, share in plan.assignments.items():
        process = said[member].info.process_id
        for task in {*share.info.active, *share.info.standby}:
            assert roles.setdefault((process, task), member) == member
        assert not set(share.info.active) & set(share.info.standby)
        for place in share.partitions:
            assert place not in given_to
            given_to[place] = member
        assert len(share.partitions) == len(share.info.active)
    for member, consumer in said.items():
        for place in consumer.owned_partitions:
            assert given_to.get(place, member) == member
    withheld = [place for place in lines(*range(6)) if place not in given_to]
    assert bool(withheld) == any(
        share.info.next_rebalance_ms == 0 for share in plan.assignments.values()
    )
    for process in {consumer.info.process_id for consumer in said.values()}:
        roles = [
            task
            for member, consumer in said.items()
            if consumer.info.process_id == process
            for task in (
                *dict.fromkeys(plan.assignments[member].info.active),
                *plan.assignments[member].info.standby,
            )
        ]
        assert len(roles) == len(set(roles))
