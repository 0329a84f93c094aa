"""Queries about groups and their offsets: each request, and what its response has."""

from typing import Any

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.cluster_queries.groups import (
    ConsumerGroupDescribeQuery,
    DescribeGroupsQuery,
    FindCoordinatorQuery,
    ListedGroupQuery,
    ListGroupsQuery,
)
from apportion.member.cluster_queries.offsets import (
    AllOffsetsQuery,
    Membership,
    OffsetAndMetadata,
    OffsetCommitQuery,
    OffsetFetchQuery,
)
from apportion.member.reactions import LEADER, Reaction, is_permanent, reaction
from apportion.topics import TopicIdPartition, TopicPartition
from apportion.wire.messages import consumer_group_describe, describe_groups
from apportion.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from apportion.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
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
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from tests.member.refusal import refusal

ID = b"i" * 16
P0, P1, P2 = (TopicIdPartition("t", ID, number) for number in range(3))


# OffsetCommit


def test_a_commit_names_its_topics_both_ways_and_says_who_commits() -> None:
    query = OffsetCommitQuery("g", {P1: 7, P0: 5}, Membership("m", 3, "i"), "note")
    assert query.request() == OffsetCommitRequest(
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


def committed(*codes: Code) -> tuple[OffsetCommitResponse, OffsetCommitResponse]:
    """Two responses with these codes for the partitions of `t`, by name and by id."""
    parts = tuple(
        OffsetCommitResponsePartition(partition_index=number, error_code=code)
        for number, code in enumerate(codes)
    )
    return (
        OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name="t", partitions=parts),)),
        OffsetCommitResponse(topics=(OffsetCommitResponseTopic(topic_id=ID, partitions=parts),)),
    )


def test_a_commit_is_refused_with_the_first_error_by_name_and_by_id() -> None:
    query = OffsetCommitQuery("g", {P0: 1, P1: 1})
    for response in committed(Code.NONE, Code.NONE):
        query.parse(response)
    stale = Code.STALE_MEMBER_EPOCH
    for response in committed(Code.NONE, stale):
        assert refusal(query, response) == (stale, f"OffsetCommit of group 'g': {stale.sentence}")


def test_a_partition_that_a_commits_response_leaves_out_is_not_committed() -> None:
    for response in committed(Code.NONE):
        assert refusal(OffsetCommitQuery("g", {P0: 1, P1: 1}), response)[0] is (
            Code.UNKNOWN_SERVER_ERROR
        )


# OffsetFetch


def fetched(*partitions: OffsetFetchResponsePartition, code: Code = Code.NONE) -> Any:
    """A response with these offsets of `t`, or with an error of the group."""
    topics = (OffsetFetchResponseTopic(name="t", topic_id=ID, partitions=partitions),)
    return OffsetFetchResponse(
        groups=(
            OffsetFetchResponseGroup(
                group_id="g", topics=topics if partitions else (), error_code=code
            ),
        )
    )


def test_a_fetch_asks_for_stable_offsets_as_the_member() -> None:
    topics = (OffsetFetchRequestTopic(name="t", topic_id=ID, partition_indexes=(0, 2)),)
    group = OffsetFetchRequestGroup(group_id="g", member_id="m", member_epoch=3, topics=topics)
    query = OffsetFetchQuery("g", (P2, P0), Membership("m", 3))
    assert query.request() == OffsetFetchRequest(groups=(group,), require_stable=True)


def test_a_tool_fetches_offsets_as_no_member_and_need_not_wait_for_stable_ones() -> None:
    topics = (OffsetFetchRequestTopic(name="t", topic_id=ID, partition_indexes=(0,)),)
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    query = OffsetFetchQuery("g", (P0,), require_stable=False)
    assert query.request() == OffsetFetchRequest(groups=(group,), require_stable=False)


def test_a_partition_without_an_offset_is_none() -> None:
    response = fetched(
        OffsetFetchResponsePartition(partition_index=0, committed_offset=0, metadata="note"),
        OffsetFetchResponsePartition(partition_index=1, committed_offset=-1, metadata=""),
    )
    assert OffsetFetchQuery("g", (P0, P1)).parse(response) == {
        P0: OffsetAndMetadata(0, "note"),
        P1: OffsetAndMetadata(None),
    }


def test_a_fetch_is_refused_with_the_groups_error_before_that_of_a_partition() -> None:
    query, unstable = OffsetFetchQuery("g", (P0, P1)), Code.UNSTABLE_OFFSET_COMMIT
    first = OffsetFetchResponsePartition(partition_index=0, committed_offset=3)
    second = OffsetFetchResponsePartition(
        partition_index=1, committed_offset=-1, error_code=unstable
    )
    assert refusal(query, fetched(first, second)) == (
        unstable,
        f"OffsetFetch of group 'g': {unstable.sentence}",
    )
    assert refusal(query, fetched(first))[0] is Code.UNKNOWN_SERVER_ERROR
    assert refusal(query, fetched(code=Code.NOT_COORDINATOR))[0] is Code.NOT_COORDINATOR


def test_all_offsets_of_a_group_come_by_topic_name() -> None:
    query = AllOffsetsQuery("g")
    group = OffsetFetchRequestGroup(group_id="g", topics=None)
    assert (query.request(), query.version) == (OffsetFetchRequest(groups=(group,)), 9)
    assert query.parse(
        fetched(OffsetFetchResponsePartition(partition_index=2, committed_offset=8))
    ) == {TopicPartition("t", 2): OffsetAndMetadata(8)}
    assert refusal(query, fetched(code=Code.NOT_COORDINATOR))[0] is Code.NOT_COORDINATOR


# groups


def test_a_coordinator_is_found_or_refused_in_the_brokers_words() -> None:
    query = FindCoordinatorQuery("g")
    assert query.request() == FindCoordinatorRequest(key_type=0, coordinator_keys=("g",))
    found = Coordinator(key="g", node_id=2, host="h", port=9)
    none = Coordinator(
        key="g", node_id=-1, error_code=Code.COORDINATOR_NOT_AVAILABLE, error_message="not yet"
    )
    assert query.parse(FindCoordinatorResponse(coordinators=(found,))) is found
    assert refusal(query, FindCoordinatorResponse(coordinators=(none,))) == (
        Code.COORDINATOR_NOT_AVAILABLE,
        "not yet",
    )


def test_a_consumer_group_is_described_or_refused() -> None:
    query = ConsumerGroupDescribeQuery("g")
    group = consumer_group_describe.DescribedGroup(group_id="g", group_state="Stable")
    absent = consumer_group_describe.DescribedGroup(
        group_id="g", error_code=Code.GROUP_ID_NOT_FOUND
    )
    answer = consumer_group_describe.ConsumerGroupDescribeResponse
    assert query.request() == consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=("g",))
    assert query.parse(answer(groups=(group,))) is group
    assert refusal(query, answer(groups=(absent,))) == (
        Code.GROUP_ID_NOT_FOUND,
        f"ConsumerGroupDescribe of group 'g': {Code.GROUP_ID_NOT_FOUND.sentence}",
    )


def test_a_classic_group_that_is_not_there_is_none_in_every_version() -> None:
    query = DescribeGroupsQuery("g")
    assert query.request() == describe_groups.DescribeGroupsRequest(groups=("g",))

    def parse(**facts: Any) -> Any:
        group = describe_groups.DescribedGroup(group_id="g", **facts)
        return query.parse(describe_groups.DescribeGroupsResponse(groups=(group,)))

    assert parse(group_state="Empty").group_state == "Empty"
    assert parse(group_state="Dead") is None
    assert parse(group_state="Dead", error_code=Code.GROUP_ID_NOT_FOUND) is None
    with pytest.raises(
        Refused, match="DescribeGroups of group 'g': This broker does not coordinate"
    ):
        parse(error_code=Code.NOT_COORDINATOR)


def test_a_broker_that_is_still_loading_has_no_list_of_groups() -> None:
    query, loading = ListGroupsQuery(), Code.COORDINATOR_LOAD_IN_PROGRESS
    groups = (ListedGroup(group_id="g"),)
    assert query.request() == ListGroupsRequest()
    assert query.parse(ListGroupsResponse(groups=groups)) == groups
    assert refusal(query, ListGroupsResponse(error_code=loading)) == (
        loading,
        f"ListGroups: {loading.sentence}",
    )


def test_a_group_is_found_in_the_list_of_its_coordinator() -> None:
    query, listed = ListedGroupQuery("g"), ListedGroup(group_id="g", group_type="Share")
    assert query.request() == ListGroupsRequest()
    assert query.parse(ListGroupsResponse(groups=(ListedGroup(group_id="f"), listed))) is listed
    assert query.parse(ListGroupsResponse()) is None
    code = Code.COORDINATOR_NOT_AVAILABLE
    assert refusal(query, ListGroupsResponse(error_code=code)) == (
        code,
        f"ListGroups of group 'g': {code.sentence}",
    )


# reactions


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


def test_an_error_is_permanent_where_kafka_does_not_call_it_retriable() -> None:
    assert not is_permanent(Unanswerable("no broker"))
    assert is_permanent(Refused(Code.TOPIC_AUTHORIZATION_FAILED))
    # No row of the table retries it, and a later operation may succeed.
    assert reaction("Fetch", Code.CORRUPT_MESSAGE) is Reaction.RAISE
    assert not is_permanent(Refused(Code.CORRUPT_MESSAGE))


def test_no_error_that_a_request_to_a_leader_retries_is_permanent() -> None:
    assert not any(is_permanent(Refused(code)) for code in LEADER if code is not Code.NONE)
