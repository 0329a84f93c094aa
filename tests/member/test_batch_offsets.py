"""A group's offsets: what of a span is due, and requests and answers by name and by id."""

from apportion.errors import Code
from apportion.member.batch.offsets import (
    FetchedOffsets,
    Membership,
    OffsetAndMetadata,
    commit_errors,
    commit_request,
    due_commits,
    fetch_request,
    parse_fetch_response,
)
from apportion.member.batch.span import sorted_span
from apportion.member.reactions import Reaction, reaction
from apportion.topics import TopicIdPartition
from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

ID = b"i" * 16
P0, P1, P2 = (TopicIdPartition("t", ID, number) for number in range(3))


def test_due_is_what_is_held_and_above_what_the_group_knows() -> None:
    batch = sorted_span("c", {P0: (0, 10), P1: (0, 10), P2: (0, 10)})
    assert due_commits(batch, {P0, P1}, {P0: 10, P1: 3}) == {P1: 10}
    assert due_commits(batch, {P0, P2}, {P0: None}) == {P0: 10, P2: 10}
    assert due_commits(batch, set(), {}) == {}


def test_a_commit_names_its_topics_both_ways_and_says_who_commits() -> None:
    assert commit_request(
        "g", {P1: 7, P0: 5}, Membership("m", 3, "i"), "note"
    ) == OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=3,
        member_id="m",
        group_instance_id="i",
        topics=(
            OffsetCommitRequestTopic(
                name="t",
                topic_id=ID,
                partitions=(
                    OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=5, committed_metadata="note"
                    ),
                    OffsetCommitRequestPartition(
                        partition_index=1, committed_offset=7, committed_metadata="note"
                    ),
                ),
            ),
        ),
    )


def test_the_answer_to_a_commit_is_read_by_name_and_by_id() -> None:
    parts = (
        OffsetCommitResponsePartition(partition_index=0),
        OffsetCommitResponsePartition(partition_index=1, error_code=Code.STALE_MEMBER_EPOCH),
    )
    for topic in (
        OffsetCommitResponseTopic(name="t", partitions=parts),
        OffsetCommitResponseTopic(topic_id=ID, partitions=parts),
    ):
        assert commit_errors(OffsetCommitResponse(topics=(topic,)), [P0, P1, P2]) == {
            P0: Code.NONE,
            P1: Code.STALE_MEMBER_EPOCH,
            P2: Code.UNKNOWN_SERVER_ERROR,
        }


def test_a_fetch_asks_for_stable_offsets_as_the_member() -> None:
    topics = (OffsetFetchRequestTopics(name="t", topic_id=ID, partition_indexes=(0, 2)),)
    group = OffsetFetchRequestGroup(group_id="g", member_id="m", member_epoch=3, topics=topics)
    assert fetch_request("g", [P2, P0], Membership("m", 3)) == OffsetFetchRequest(
        groups=(group,), require_stable=True
    )


def test_a_partition_without_an_offset_is_none_and_one_with_an_error_is_told_apart() -> None:
    partitions = (
        OffsetFetchResponsePartitions(partition_index=0, committed_offset=12),
        OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
        OffsetFetchResponsePartitions(
            partition_index=2, committed_offset=-1, error_code=Code.UNSTABLE_OFFSET_COMMIT
        ),
    )
    group = OffsetFetchResponseGroup(
        group_id="g", topics=(OffsetFetchResponseTopics(topic_id=ID, partitions=partitions),)
    )
    assert parse_fetch_response(OffsetFetchResponse(groups=(group,)), [P0, P1, P2]) == (
        Code.NONE,
        FetchedOffsets(
            {P0: OffsetAndMetadata(12), P1: OffsetAndMetadata(None)},
            {P2: Code.UNSTABLE_OFFSET_COMMIT},
        ),
    )


def test_the_first_offset_of_all_is_an_offset() -> None:
    partitions = (OffsetFetchResponsePartitions(partition_index=0, committed_offset=0),)
    group = OffsetFetchResponseGroup(
        group_id="g", topics=(OffsetFetchResponseTopics(name="t", partitions=partitions),)
    )
    assert parse_fetch_response(OffsetFetchResponse(groups=(group,)), [P0]) == (
        Code.NONE,
        FetchedOffsets({P0: OffsetAndMetadata(0)}, {}),
    )
    assert due_commits(sorted_span("c", {P0: (0, 0), P1: (0, 1)}), {P0, P1}, {P0: None, P1: 0}) == {
        P0: 0,
        P1: 1,
    }


def test_every_code_has_a_reaction_and_what_no_row_names_is_the_callers() -> None:
    assert reaction("ConsumerGroupHeartbeat", Code.FENCED_MEMBER_EPOCH) is Reaction.REJOIN
    assert reaction("OffsetCommit", Code.FENCED_MEMBER_EPOCH) is Reaction.RAISE
    assert reaction("OffsetCommit", Code.STALE_MEMBER_EPOCH) is Reaction.RETRY_WITH_NEW_EPOCH
    assert reaction("Fetch", Code.NOT_LEADER_OR_FOLLOWER) is Reaction.REFRESH_METADATA
    assert reaction("Unheard", Code.NOT_COORDINATOR) is Reaction.FIND_COORDINATOR
    assert reaction("Fetch", 12_345) is Reaction.RAISE
    assert all(
        reaction(api, Code.NONE) is Reaction.ACCEPT
        for api in ("Fetch", "Metadata", "FindCoordinator", "OffsetFetch")
    )
