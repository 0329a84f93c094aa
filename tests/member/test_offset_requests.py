"""The rule of a member's requests about offsets."""

from dataclasses import replace
from typing import Any

import pytest

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.offsets import (
    NO_MEMBER,
    Membership,
    OffsetAndMetadata,
    OffsetCommitQuery,
    OffsetFetchQuery,
)
from apportion.member.cluster_queries.retries import (
    PauseBeforeRetry,
    RecordInterruption,
    Send,
)
from apportion.member.cluster_queries.topics import (
    ClusterMetadata,
    MetadataQuery,
    TopicDescription,
    TopicWithLeaders,
)
from apportion.member.membership import MembershipState, View
from apportion.member.metadata_cache import MetadataCache
from apportion.member.offset_requests import (
    AwaitNewEpoch,
    AwaitOtherEpoch,
    request_offsets,
    request_offsets_within,
)
from apportion.member.queries import (
    AskCoordinator,
    CommitOffsets,
    ExistingTopics,
    FetchCommitted,
    MembershipSnapshot,
    ReadMembership,
)
from apportion.member.time_limits import Pause, ReadClock
from apportion.rules import run_rule
from apportion.topics import Topic, TopicIdPartition, Topics

PARTITION = TopicIdPartition("t", b"i" * 16, 0)
OFFSETS = {PARTITION: 7}
VIEW = View("m", 3, MembershipState.STABLE, 2, (), (), 0, None)


@pytest.mark.parametrize(
    ("request_", "answer"), [(CommitOffsets({}, 1), None), (FetchCommitted((), 1), {})]
)
def test_a_request_about_no_partition_is_answered_without_the_cluster(
    request_: Any, answer: Any
) -> None:
    rule = request_offsets(request_, "g", None)
    assert run_rule(rule, {}.__getitem__) == answer


def commit_as(incarnation: int, view: View) -> list[Any]:
    """The queries of a commit by a member of this view."""
    asked: list[Any] = []

    def answer(query: Any) -> Any:
        asked.append(query)
        return MembershipSnapshot(view, 0, 0) if isinstance(query, ReadMembership) else None

    rule = request_offsets(CommitOffsets(OFFSETS, incarnation), "g", "i")
    run_rule(rule, answer)
    return asked


def test_a_commit_names_the_member_and_its_epoch() -> None:
    named = OffsetCommitQuery("g", OFFSETS, Membership("m", 3, "i"), "")
    assert commit_as(2, VIEW) == [ReadMembership(), AskCoordinator(named)]


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (VIEW, "has joined group 'g' since its last poll"),
        (
            replace(VIEW, epoch=0, state=MembershipState.JOINING),
            "is not in group 'g' now (waits for the coordinator to admit it)",
        ),
    ],
)
def test_a_commit_of_a_lost_membership_says_what_became_of_the_member(view: View, why: str) -> None:
    with pytest.raises(Refused) as refused:
        commit_as(1, view)
    assert why in refused.value.why


def test_a_commit_of_incarnation_0_names_no_member() -> None:
    unnamed = OffsetCommitQuery("g", OFFSETS, NO_MEMBER, "")
    assert commit_as(0, VIEW) == [AskCoordinator(unnamed)]


@pytest.mark.parametrize("view", [replace(VIEW, epoch=0), replace(VIEW, incarnation=3)])
def test_a_member_that_was_lost_commits_nothing(view: View) -> None:
    with pytest.raises(Refused) as error:
        commit_as(2, view)
    assert error.value.code is Code.UNKNOWN_MEMBER_ID


def refused_commit(code: Code, incarnation: int, topics: Topics) -> list[type]:
    """Return what a commit asks that is refused twice; topics: those that exist."""
    asked: list[type] = []

    def answer(query: Any) -> Any:
        asked.append(type(query))
        match query:
            case ReadMembership():
                return MembershipSnapshot(VIEW, 0, 0)
            case AskCoordinator() if asked.count(AskCoordinator) <= 2:
                raise Refused(code)
            case ExistingTopics():
                return topics
        return None

    request = CommitOffsets(OFFSETS, incarnation)
    run_rule(request_offsets(request, "g", None), answer)
    return asked


UNKNOWN_TOPIC = [Code.UNKNOWN_TOPIC_ID, Code.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("code", UNKNOWN_TOPIC)
def test_a_commit_is_sent_again_to_a_coordinator_that_does_not_know_its_topic_yet(
    code: Code,
) -> None:
    exists = Topics([Topic("t", PARTITION.topic_id, 1)])
    again = [AskCoordinator, ExistingTopics, PauseBeforeRetry]
    assert refused_commit(code, 0, exists) == [*again, *again, AskCoordinator]
    again = [ReadMembership, *again]
    assert refused_commit(code, 2, exists) == [*again, *again, ReadMembership, AskCoordinator]


@pytest.mark.parametrize("code", UNKNOWN_TOPIC)
@pytest.mark.parametrize("incarnation", [0, 2])
@pytest.mark.parametrize("topics", [Topics(), Topics([Topic("t", b"new".rjust(16), 1)])])
def test_a_commit_of_a_deleted_topic_is_not_sent_again(
    code: Code, incarnation: int, topics: Topics
) -> None:
    with pytest.raises(Refused) as error:
        refused_commit(code, incarnation, topics)
    assert error.value.code is code


def test_a_commit_with_a_stale_epoch_waits_for_the_next_one() -> None:
    again = [ReadMembership, AskCoordinator, AwaitNewEpoch]
    assert refused_commit(Code.STALE_MEMBER_EPOCH, 2, Topics()) == [
        *again,
        *again,
        ReadMembership,
        AskCoordinator,
    ]


def test_a_fetch_with_a_stale_epoch_is_sent_again_with_the_next_one() -> None:
    # Or the partition would begin where `auto_offset_reset` says.
    epoch = VIEW.epoch
    asked: list[Any] = []

    def answer(query: Any) -> Any:
        nonlocal epoch
        match query:
            case ReadMembership():
                return MembershipSnapshot(replace(VIEW, epoch=epoch), 0, 0)
            case AskCoordinator(fetch):
                asked.append(fetch)
                if epoch < 5:
                    raise Refused(Code.STALE_MEMBER_EPOCH)
                return {PARTITION: OffsetAndMetadata(7)}
            case AwaitNewEpoch():
                epoch += 1
        return None

    found = run_rule(request_offsets(FetchCommitted((PARTITION,), 2), "g", "i"), answer)
    assert found == {PARTITION: OffsetAndMetadata(7)}
    assert asked == [
        OffsetFetchQuery("g", (PARTITION,), Membership("m", each, "i")) for each in (3, 4, 5)
    ]


class TimedMember:
    """A member of epoch 3 and its coordinator, which answers so; each request takes 100 ms.

    epoch_after_ms: how long the next epoch takes. asked: all but looks at the clock and the member.
    """

    def __init__(self, *codes: Code, epoch_after_ms: int = 10**9) -> None:
        self.codes = list(codes)
        self.now_ms, self.new_epoch_ms = 5_000, 5_000 + epoch_after_ms
        self.cache = MetadataCache()
        self.asked: list[Any] = []

    def commit(self, limit_ms: int) -> None:
        rule = request_offsets(CommitOffsets(OFFSETS, 2), "g", None)
        run_rule(request_offsets_within(rule, self.cache, limit_ms), self._answer)

    def _answer(self, query: Any) -> Any:
        match query:
            case ReadClock():
                return self.now_ms
            case ReadMembership():
                return MembershipSnapshot(VIEW, 0, 0)
        self.asked.append(query)
        match query:
            case Pause(pause_ms):
                self.now_ms += pause_ms
            case AwaitOtherEpoch(_, timeout_ms):
                until_ms = self.now_ms + timeout_ms
                self.now_ms = max(self.now_ms, min(until_ms, self.new_epoch_ms))
                return self.new_epoch_ms <= until_ms
            case Send(MetadataQuery()):
                self.now_ms += 100
                topic = TopicDescription("t", PARTITION.topic_id, 1)
                return ClusterMetadata({}, (TopicWithLeaders(topic, {}),))
            case Send():
                self.now_ms += 100
                if self.codes and (code := self.codes.pop(0)) is not Code.NONE:
                    raise Refused(code)
        return None


COMMIT = OffsetCommitQuery("g", OFFSETS, Membership("m", 3), "")


def test_a_commit_within_a_time_waits_that_long_for_a_coordinator() -> None:
    member = TimedMember(*[Code.COORDINATOR_LOAD_IN_PROGRESS] * 9)
    with pytest.raises(Refused, match="COORDINATOR_LOAD_IN_PROGRESS"):
        member.commit(500)
    interruption = RecordInterruption("g", has_moved=False)
    assert member.asked == [
        *(Send(COMMIT, 500), interruption, Pause(50)),
        *(Send(COMMIT, 350), interruption, Pause(100)),
        *(Send(COMMIT, 150), interruption),
    ]


def test_a_commit_within_a_time_is_sent_as_soon_as_the_epoch_is_new() -> None:
    member = TimedMember(Code.STALE_MEMBER_EPOCH, epoch_after_ms=300)
    member.commit(5_000)
    assert member.asked == [Send(COMMIT, 5_000), AwaitOtherEpoch(3, 1_000), Send(COMMIT, 4_700)]


def test_a_commit_within_a_time_is_tried_with_the_old_epoch_now_and_then() -> None:
    member = TimedMember(Code.STALE_MEMBER_EPOCH)
    member.commit(5_000)
    assert member.asked == [
        *(Send(COMMIT, 5_000), AwaitOtherEpoch(3, 1_000), Pause(50)),
        Send(COMMIT, 3_850),
    ]


def test_a_commit_within_a_time_ends_with_the_stale_epoch() -> None:
    member = TimedMember(*[Code.STALE_MEMBER_EPOCH] * 9)
    with pytest.raises(Refused, match="STALE_MEMBER_EPOCH"):
        member.commit(700)
    assert member.asked == [Send(COMMIT, 700), AwaitOtherEpoch(3, 600)]


def test_a_commit_within_a_time_looks_whether_its_topic_exists() -> None:
    member = TimedMember(Code.UNKNOWN_TOPIC_ID)
    member.commit(1_000)
    assert member.asked == [
        Send(COMMIT, 1_000),
        Send(MetadataQuery(("t",)), 900),
        Pause(50),
        Send(COMMIT, 750),
    ]
