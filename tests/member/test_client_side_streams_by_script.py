"""A Streams member of a KIP-848 group, event by event."""

from apportion.errors import Code
from apportion.machine import Note, Tick
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.member.membership import (
    Adopted,
    Answered,
    Failed,
    FetchMetadata,
    Leave,
    Left,
    Lost,
    MetadataFetched,
    Offer,
    QueryCluster,
    RunAssignor,
    SendToCoordinator,
    Subscribe,
    Unanswered,
    to_id_parts,
)
from apportion.member.streams.assignor import TaskShare
from apportion.member.streams.client_side_machine import WarmUpFailed
from apportion.member.streams.machine import ShutDownApplication
from apportion.streams.metadata.kip848 import (
    RESTORE_FAILED,
    Reason,
)
from apportion.streams.metadata.model import RUNNING, TaskId
from apportion.streams.queries import CreateInternalTopics
from apportion.wire.fields import replaced
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    InstalledMember,
    InstalledPartitions,
)
from apportion.wire.messages.consumer_group_prepare_assignment import AssignorMetadata
from tests.member.client_side_streams_messages import (
    PROCESS,
    answer,
    assigned,
    ends,
    joining,
    looking,
    metadata,
    offers,
    running,
    share,
    sums,
    tasks,
)
from tests.member.computing_messages import (
    chosen,
    group_member,
    prepare,
    prepared,
)
from tests.member.consumer_messages import P0, P1, P2, T, accepted, at, beat, full, refused


def test_the_tasks_of_a_member_are_those_of_which_it_has_every_partition() -> None:
    member = joining()
    said = tasks(0, 1, standby_tasks=(2,))
    assert member.step(Answered(3, assigned(1, P0, said=said)), at(0)) == [
        Offer(1, (P0,), (), (P0,)),
        FetchMetadata(4, (), (T,)),
    ]
    assert member.tasks() == TaskShare()
    member.step(MetadataFetched(4, (TopicDescription("t", T, 3),)), at(0))
    assert member.tasks() == share(1, 0, standby=(2,))
    member.step(Adopted(1, (P0,)), at(0))
    member.step(Answered(5, assigned(1, P0, P1, said=said)), at(0))
    assert member.tasks() == share(1, 0, 1, standby=(2,))


def test_a_member_of_a_broker_without_the_api_ends_before_it_joins() -> None:
    assert looking().step(Unanswered(2, "no such API", Code.UNSUPPORTED_VERSION), at(0)) == [
        Lost(1, ()),
        Failed(
            Code.UNSUPPORTED_VERSION,
            "this broker has no client-side assignors, as no Apache Kafka has: use "
            "group_protocol='classic', with which Kafka Streams works on it",
        ),
    ]


def test_the_chosen_member_makes_topics_asks_for_ends_and_installs_the_tasks_of_all() -> None:
    member = running(P0, P1, P2)
    member.step(Tick(), at(1_000))
    assert member.step(Answered(6, chosen(1)), at(1_000)) == [
        SendToCoordinator(7, prepare(1), 30_000)
    ]
    group = prepared(
        replaced(group_member("m", 0, 1, 2), assignor=AssignorMetadata(metadata=metadata())),
        replaced(
            group_member("n"),
            assignor=AssignorMetadata(metadata=metadata().replace(PROCESS, b"q" * 16)),
        ),
        name="stream",
    )
    (run,) = member.step(Answered(7, group), at(1_000))
    assert isinstance(run, RunAssignor)
    (query,) = member.step(run.perform(), at(1_000))
    assert isinstance(query, QueryCluster)
    assert isinstance(query.query, CreateInternalTopics)
    made = MetadataFetched(query.request_id, (TopicDescription("log", b"L" * 16, 3),))
    (run,) = member.step(made, at(1_000))
    assert isinstance(run, RunAssignor)
    (query,) = member.step(run.perform(), at(1_000))
    assert isinstance(query, QueryCluster)
    assert query.query == ends(0, 1, 2)
    (run,) = member.step(answer(query.request_id, 0, 1, 2), at(1_000))
    assert isinstance(run, RunAssignor)
    (install,) = member.step(run.perform(), at(1_000))
    assert isinstance(install, SendToCoordinator)
    assert install.request == ConsumerGroupInstallAssignmentRequest(
        group_id="g",
        member_id="m",
        member_epoch=1,
        group_epoch=1,
        members=(
            InstalledMember(
                member_id="m",
                topic_partitions=(InstalledPartitions(topic_id=T, partitions=(0, 1, 2)),),
                metadata=tasks(0, 1, 2),
            ),
            InstalledMember(member_id="n", metadata=tasks(warmup_tasks=(0,))),
        ),
    )


def test_a_warm_up_that_has_caught_up_asks_for_a_new_assignment_once() -> None:
    member = running(P0, said=tasks(0, warmup_tasks=(1,)))
    assert member.step(sums({0: RUNNING, 1: 95}), at(10)) == [QueryCluster(6, ends(1))]
    assert member.step(answer(6, 1), at(20)) == [
        SendToCoordinator(7, beat(1, **offers({0: 0, 1: 5}, Reason.WARM_UP_READY)), 5_000)
    ]
    assert member.step(Answered(7, accepted(1, unchanged=True)), at(30)) == []
    assert member.step(Tick(), at(1_020)) == [SendToCoordinator(8, beat(1), 5_000)]


def test_a_warm_up_that_was_taken_away_and_has_come_back_is_told_anew() -> None:
    warming = tasks(0, warmup_tasks=(1,))
    member = running(P0, said=warming)
    member.step(sums({0: RUNNING, 1: 95}), at(0))
    member.step(answer(6, 1), at(0))
    member.step(Answered(7, assigned(2, P0, said=tasks(0))), at(500))
    member.step(Tick(), at(1_000))
    assert member.step(Answered(8, assigned(3, P0, said=warming)), at(1_000)) == [
        QueryCluster(9, ends(1))
    ]
    assert member.step(answer(9, 1), at(1_000)) == [
        SendToCoordinator(10, beat(3, **offers({0: 0, 1: 5}, Reason.WARM_UP_READY)), 5_000)
    ]


def test_a_warm_up_of_a_new_membership_is_told_anew() -> None:
    warming = tasks(0, warmup_tasks=(1,))
    member = running(P0, said=warming)
    member.step(sums({0: RUNNING, 1: 95}), at(0))
    member.step(answer(6, 1), at(0))
    actions = member.step(Answered(7, refused(Code.UNKNOWN_MEMBER_ID)), at(1_000))
    assert actions[-1] == SendToCoordinator(
        8, full(0, **offers({1: 5}, Reason.WARM_UP_READY)), 5_000
    )
    assert member.step(Answered(8, assigned(9, P0, said=warming)), at(1_000)) == [
        Offer(2, (P0,), (), (P0,)),
        QueryCluster(9, ends(1)),
    ]


def test_a_member_that_did_not_poll_in_time_has_no_tasks_while_it_leaves() -> None:
    member = running(P0, poll_limit_ms=10_000)
    actions = member.step(Tick(), at(10_000))
    assert Lost(1, (P0,)) in actions
    assert member.tasks() == TaskShare()


def test_a_warm_up_that_lags_asks_for_nothing_and_ends_are_asked_for_once_a_second() -> None:
    member = running(P0, said=tasks(0, warmup_tasks=(1,)))
    member.step(sums({1: 50}), at(10))
    assert member.step(answer(6, 1), at(20)) == []
    assert member.step(sums({1: 50}), at(30)) == []
    assert member.step(sums({1: 95}), at(30)) == []
    member.step(Tick(), at(1_000))
    member.step(Answered(7, accepted(1, unchanged=True)), at(1_000))
    assert member.step(Tick(), at(1_020)) == [QueryCluster(8, ends(1))]


def test_ends_that_nobody_can_say_are_asked_for_again() -> None:
    member = running(P0, said=tasks(0, warmup_tasks=(1,)))
    member.step(sums({1: 95}), at(0))
    assert member.step(Unanswered(6, "no broker"), at(0)) == []
    assert member.step(Tick(), at(1_000)) == [
        QueryCluster(7, ends(1)),
        SendToCoordinator(8, beat(1), 5_000),
    ]


def test_a_report_from_before_the_first_assignment_counts() -> None:
    member = joining()
    assert member.step(sums({1: 95}, incarnation=0), at(0)) == []
    member.step(Answered(3, assigned(1, P0, said=tasks(0, warmup_tasks=(1,)))), at(0))
    assert member.step(MetadataFetched(4, (TopicDescription("t", T, 3),)), at(0)) == [
        QueryCluster(5, ends(1))
    ]


def test_a_warm_up_that_failed_asks_for_a_new_assignment() -> None:
    member = running(P0, said=tasks(0, warmup_tasks=(1,)))
    lags = {0: 0, 1: RESTORE_FAILED}
    assert member.step(WarmUpFailed((TaskId(0, 1),)), at(0)) == [
        SendToCoordinator(6, beat(1, **offers(lags, Reason.WARM_UP_FAILED)), 5_000)
    ]


def test_a_failure_that_the_group_knows_asks_for_nothing() -> None:
    member = running(P0, said=tasks(0, warmup_tasks=(1,)))
    assert member.step(WarmUpFailed(()), at(0)) == []
    member.step(WarmUpFailed((TaskId(0, 1),)), at(0))
    member.step(Answered(6, accepted(1, unchanged=True)), at(0))
    assert member.step(WarmUpFailed((TaskId(0, 1),)), at(0)) == []
    assert member.step(sums({1: 99}), at(0)) == []


def test_a_task_that_can_be_restored_again_asks_for_a_new_assignment() -> None:
    member = running(P0)
    member.step(WarmUpFailed((TaskId(0, 1),)), at(0))
    member.step(Answered(6, accepted(1, unchanged=True)), at(0))
    assert member.step(sums({1: 50}), at(0)) == [
        SendToCoordinator(7, beat(1, **offers({0: 0}, Reason.WARM_UP_READY)), 5_000)
    ]


def test_metadata_without_a_reason_stay_as_they_were_sent() -> None:
    member = running(P0, said=tasks(0, warmup_tasks=(1,)))
    member.step(sums({1: 50}), at(0))
    member.step(answer(6, 1), at(0))
    member.step(Tick(), at(1_000))
    member.step(Answered(7, assigned(2, P0, P1, said=tasks(0, 1))), at(1_000))
    assert member.step(Adopted(1, (P0, P1)), at(1_000)) == [
        SendToCoordinator(8, beat(2, topic_partitions=to_id_parts((P0, P1))), 5_000)
    ]


def test_a_request_to_shut_down_stands_beside_everything_that_is_sent_later() -> None:
    member = running(P0)
    shutdown = offers({0: 0}, Reason.SHUTDOWN)
    assert member.step(ShutDownApplication(), at(0)) == [
        SendToCoordinator(6, beat(1, **shutdown), 5_000)
    ]
    member.step(Answered(6, assigned(2, P0, P1, said=tasks(0, 1))), at(0))
    assert member.step(Adopted(1, (P0, P1)), at(0)) == [
        SendToCoordinator(7, beat(2, topic_partitions=to_id_parts((P0, P1))), 5_000)
    ]
    actions = member.step(Answered(7, refused(Code.UNKNOWN_MEMBER_ID)), at(0))
    assert actions[-1] == SendToCoordinator(8, full(0, **offers(None, Reason.SHUTDOWN)), 5_000)


def test_a_member_that_shuts_all_down_asks_for_nothing_else() -> None:
    member = running(P0, said=tasks(0, warmup_tasks=(1,)))
    member.step(ShutDownApplication(), at(0))
    member.step(Answered(6, accepted(2, unchanged=True)), at(0))
    lags = {0: 0, 1: RESTORE_FAILED}
    assert member.step(WarmUpFailed((TaskId(0, 1),)), at(0)) == [
        SendToCoordinator(7, beat(2, **offers(lags, Reason.SHUTDOWN)), 5_000)
    ]


def test_a_second_request_to_shut_down_is_sent_once_more_and_not_for_ever() -> None:
    member = running(P0)
    member.step(ShutDownApplication(), at(0))
    member.step(Answered(6, accepted(2, unchanged=True)), at(0))
    again = beat(2, **offers({0: 0}, Reason.SHUTDOWN))
    assert member.step(ShutDownApplication(), at(0)) == [SendToCoordinator(7, again, 5_000)]
    assert member.step(Answered(7, accepted(2, unchanged=True)), at(0)) == []


def test_a_member_that_is_told_to_shut_down_gives_up_its_tasks_leaves_and_ends() -> None:
    member = running(P0)
    member.step(Tick(), at(1_000))
    assert member.step(Answered(6, assigned(2, error=1)), at(1_000)) == [
        Offer(1, (), (P0,), ()),
        Note("warning", "member m is told of error 1 (shutdown) by the group's assignor"),
    ]
    assert member.tasks() == TaskShare()
    assert member.step(Adopted(1, ()), at(1_000)) == [SendToCoordinator(7, beat(-1), 5_000)]
    assert member.step(Answered(7, accepted(-1, unchanged=True)), at(1_000)) == [
        Lost(1, ()),
        Failed(Code.INVALID_REQUEST, "an instance has asked all instances to shut down"),
    ]


def test_a_member_that_has_left_asks_for_no_shutdown_when_it_joins_again() -> None:
    member = running(P0)
    member.step(ShutDownApplication(), at(0))
    assert member.step(Leave(), at(0)) == [SendToCoordinator(7, beat(-1), 5_000)]
    assert member.step(Answered(7, accepted(-1, unchanged=True)), at(0)) == [Left(True)]
    assert member.step(Subscribe(("t",)), at(0)) == [
        SendToCoordinator(8, full(0, **offers()), 5_000)
    ]
    member.step(Answered(8, accepted(1)), at(0))
    failed = beat(1, **offers({1: RESTORE_FAILED}, Reason.WARM_UP_FAILED))
    assert member.step(WarmUpFailed((TaskId(0, 1),)), at(0)) == [
        SendToCoordinator(9, failed, 5_000)
    ]


def test_while_topologies_differ_a_member_goes_on_with_the_tasks_that_it_has() -> None:
    member = running(P0, P1, said=tasks(0, 1, warmup_tasks=(2,)))
    member.step(Tick(), at(1_000))
    assert member.step(Answered(6, assigned(2, P0, error=3)), at(1_000)) == [
        Note(
            "warning",
            "this instance goes on with its older assignment: instances run different topologies, "
            "and tasks are assigned again once all run the same: finish the rolling change, or "
            "stop the instance that the log of the one that assigned names",
        ),
        Offer(1, (P0,), (P1,), ()),
        Note(
            "warning", "member m is told of error 3 (inconsistent topology) by the group's assignor"
        ),
    ]
    assert member.tasks() == share(2, 0, warmup=(2,))


def test_partitions_without_tasks_leave_a_member_the_tasks_that_it_has() -> None:
    member = running(P0)
    member.step(Tick(), at(1_000))
    actions = member.step(Answered(6, assigned(2, P0, P1)), at(1_000))
    assert actions[0] == Note(
        "warning",
        "this instance goes on with the tasks that it has: the assignment has partitions and no "
        "tasks, as a member without the assignor 'stream' is in the group, or the broker was "
        "started again",
    )
    assert member.tasks() == share(2, 0)


def test_metadata_that_cannot_be_decoded_end_the_member() -> None:
    member = running(P0)
    member.step(Tick(), at(1_000))
    member.step(Answered(6, assigned(2, P0, said=b"\xff")), at(1_000))
    member.step(Adopted(1, ()), at(1_001))
    *_, failed = member.step(Answered(7, accepted(-1, unchanged=True)), at(1_002))
    assert isinstance(failed, Failed)
    assert failed.why.startswith("the assignment of tasks cannot be decoded: ")


def test_a_target_that_was_computed_without_ends_is_computed_again_after_an_interval() -> None:
    member = running(P0)
    member.step(Tick(), at(1_000))
    member.step(Answered(6, chosen(1)), at(1_000))
    alone = replaced(group_member("m", 0), assignor=AssignorMetadata(metadata=metadata()))
    (run,) = member.step(Answered(7, prepared(alone, name="stream")), at(1_000))
    assert isinstance(run, RunAssignor)
    (query,) = member.step(run.perform(), at(1_000))
    assert isinstance(query, QueryCluster)
    made = MetadataFetched(query.request_id, (TopicDescription("log", b"L" * 16, 3),))
    (run,) = member.step(made, at(1_000))
    assert isinstance(run, RunAssignor)
    (query,) = member.step(run.perform(), at(1_000))
    assert isinstance(query, QueryCluster)
    actions = member.step(Unanswered(query.request_id, "no broker"), at(1_000))
    run = actions[-1]
    assert isinstance(run, RunAssignor)
    actions = member.step(run.perform(), at(1_000))
    assert actions[0] == Note(
        "warning", "everybody keeps what it has, as the ends of changelogs are unknown: no broker"
    )
    install = actions[-1]
    assert isinstance(install, SendToCoordinator)
    installed = Answered(install.request_id, ConsumerGroupInstallAssignmentResponse())
    (then,) = member.step(installed, at(1_000))
    assert isinstance(then, SendToCoordinator)
    member.step(Answered(then.request_id, accepted(1, unchanged=True)), at(1_000))
    (later,) = member.step(Tick(), at(601_000))
    assert isinstance(later, SendToCoordinator)
    assert later.request == beat(1, **offers({0: 0}, Reason.WARM_UP_READY))
    member.step(Answered(later.request_id, accepted(2, unchanged=True)), at(601_000))
    (then,) = member.step(Tick(), at(602_000))
    assert isinstance(then, SendToCoordinator)
    assert then.request == beat(2)
