"""What a fetch shows, and when it is answered."""

from typing import TYPE_CHECKING, Any

from apportion.errors import Code
from apportion.machine import Gone, Ticket
from apportion.wire.batch import decode_batch, split_batches
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from apportion.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from apportion.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

if TYPE_CHECKING:
    from tests.node.conftest import Kit, Play


VERSION = 12


def offsets_in(data: Any) -> list[int]:
    return [record.offset for view in split_batches(data.records) for record in decode_batch(view)]


def only(answer: FetchResponse) -> PartitionData:
    """The only partition of an answer."""
    return answer.responses[0].partitions[0]


def test_an_empty_partition_makes_a_fetch_wait_until_its_time_is_up(
    play: "Play", kit: "type[Kit]"
) -> None:
    play.create("t")
    ticket = play.ask(kit.fetch("t", max_wait_ms=500), VERSION)
    play.sleep(499)
    assert ticket not in play.answers
    play.sleep(1)
    partition = only(play.answers[ticket])
    assert partition.records is not None
    assert (partition.error_code, bytes(partition.records)) == (Code.NONE, b"")


def test_a_waiting_fetch_is_answered_when_the_record_is_durable(
    play: "Play", kit: "type[Kit]"
) -> None:
    play.create("t")
    ticket = play.ask(kit.fetch("t", max_wait_ms=500), VERSION)
    play.ask(kit.produce("t", kit.batch(b"a")), VERSION)
    assert ticket not in play.answers
    play.flush()
    assert offsets_in(only(play.answers[ticket])) == [0]
    play.sleep(1000)  # and not once more


def test_min_bytes_are_waited_for(play: "Play", kit: "type[Kit]") -> None:
    play.create("t")
    size = len(kit.batch(b"a"))
    ticket = play.ask(kit.fetch("t", max_wait_ms=500, min_bytes=2 * size), VERSION)
    play.call(kit.produce("t", kit.batch(b"a")), VERSION)
    assert ticket not in play.answers
    play.call(kit.produce("t", kit.batch(b"b")), VERSION)
    assert offsets_in(only(play.answers[ticket])) == [0, 1]


def test_what_came_before_the_deadline_is_answered_even_if_it_is_too_little(
    play: "Play", kit: "type[Kit]"
) -> None:
    play.create("t")
    ticket = play.ask(kit.fetch("t", max_wait_ms=500, min_bytes=10_000), VERSION)
    play.call(kit.produce("t", kit.batch(b"a")), VERSION)
    play.sleep(500)
    assert offsets_in(only(play.answers[ticket])) == [0]


def test_a_fetch_whose_connection_is_gone_is_forgotten(play: "Play", kit: "type[Kit]") -> None:
    play.create("t")
    ticket = play.ask(kit.fetch("t", max_wait_ms=500), VERSION)
    play.node.step(Gone((Ticket(ticket),)), play.now)
    play.call(kit.produce("t", kit.batch(b"a")), VERSION)
    play.sleep(1000)
    assert ticket not in play.answers


def test_offsets_outside_the_log_are_out_of_range(play: "Play", kit: "type[Kit]") -> None:
    play.create("t")
    play.call(kit.produce("t", kit.batch(b"a")), VERSION)
    assert only(play.call(kit.fetch("t", 2), VERSION)).error_code == Code.OFFSET_OUT_OF_RANGE
    assert only(play.call(kit.fetch("t", -1), VERSION)).error_code == Code.OFFSET_OUT_OF_RANGE
    assert only(play.call(kit.fetch("t", 1), VERSION)).error_code == Code.NONE


def test_an_offset_in_the_middle_of_a_batch_gives_the_whole_batch(
    play: "Play", kit: "type[Kit]"
) -> None:
    play.create("t")
    play.call(kit.produce("t", kit.batch(b"a", b"b", b"c")), VERSION)
    assert offsets_in(only(play.call(kit.fetch("t", 1), VERSION))) == [0, 1, 2]


def test_the_first_batch_comes_however_large_and_the_limits_hold_for_the_rest(
    play: "Play", kit: "type[Kit]"
) -> None:
    play.create("t", 2)
    for partition in (0, 1):
        for _ in range(3):
            play.call(kit.produce("t", kit.batch(b"x" * 1000), partition), VERSION)
    assert offsets_in(only(play.call(kit.fetch("t", partition_max_bytes=10), VERSION))) == [0]
    size = len(kit.batch(b"x" * 1000))
    partitions = tuple(
        FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=10 * size) for n in (0, 1)
    )
    both = FetchRequest(
        max_bytes=4 * size, min_bytes=1, topics=(FetchTopic(topic="t", partitions=partitions),)
    )
    first, second = play.call(both, VERSION).responses[0].partitions
    assert (offsets_in(first), offsets_in(second)) == ([0, 1, 2], [0])


def test_topics_are_found_by_id_from_version_13_on(play: "Play", kit: "type[Kit]") -> None:
    topic_id = play.create("t")
    play.call(kit.produce("t", kit.batch(b"a")), VERSION)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(
        max_bytes=1000, topics=(FetchTopic(topic_id=topic_id, partitions=(partition,)),)
    )
    answer = play.call(request, 17)
    assert (answer.responses[0].topic_id, offsets_in(only(answer))) == (topic_id, [0])
    play.call(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),)))
    assert only(play.call(request, 17)).error_code == Code.UNKNOWN_TOPIC_ID


def test_a_deleted_topic_ends_the_wait_for_it(play: "Play", kit: "type[Kit]") -> None:
    play.create("t")
    ticket = play.ask(kit.fetch("t", max_wait_ms=500), VERSION)
    play.call(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),)))
    assert only(play.answers[ticket]).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_sessions_are_never_opened_so_none_can_be_found(play: "Play", kit: "type[Kit]") -> None:
    play.create("t")
    assert play.call(kit.fetch("t", session_epoch=0), VERSION).session_id == 0
    assert (
        play.call(kit.fetch("t", session_id=5, session_epoch=1), VERSION).error_code
        == Code.FETCH_SESSION_ID_NOT_FOUND
    )


def test_a_newer_leader_epoch_than_the_only_one_is_unknown(play: "Play") -> None:
    play.create("t")
    partition = FetchPartition(
        partition=0, current_leader_epoch=1, fetch_offset=0, partition_max_bytes=100
    )
    request = FetchRequest(topics=(FetchTopic(topic="t", partitions=(partition,)),))
    assert only(play.call(request, VERSION)).error_code == Code.UNKNOWN_LEADER_EPOCH


def listed(play: "Play", timestamp: int, version: int = 11) -> tuple[Code, int, int]:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    answer = play.call(
        ListOffsetsRequest(
            replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=(partition,)),)
        ),
        version,
    )
    listed_partition = answer.topics[0].partitions[0]
    return Code(listed_partition.error_code), listed_partition.offset, listed_partition.timestamp


def test_offsets_are_listed_by_place_and_by_time(play: "Play", kit: "type[Kit]") -> None:
    play.create("t")
    at = kit.WALL_MS
    assert listed(play, -3) == (Code.NONE, -1, -1)
    for ms in (10, 30, 20):
        play.call(kit.produce("t", kit.batch(b"a", timestamp_ms=at + ms)), VERSION)
    assert listed(play, -1) == (Code.NONE, 3, -1)
    assert listed(play, -2) == (Code.NONE, 0, -1)
    assert listed(play, -3) == (Code.NONE, 1, at + 30)
    assert listed(play, -4) == (Code.NONE, 0, -1)
    assert listed(play, -5) == (Code.NONE, -1, -1)
    assert listed(play, at + 15) == (Code.NONE, 1, at + 30)
    assert listed(play, at + 31) == (Code.NONE, -1, -1)
    assert listed(play, -3, version=6) == (Code.UNSUPPORTED_VERSION, -1, -1)


def test_offsets_that_are_not_durable_are_not_listed(play: "Play", kit: "type[Kit]") -> None:
    play.create("t")
    play.ask(kit.produce("t", kit.batch(b"a")), VERSION)
    ticket = play.ask(
        ListOffsetsRequest(
            replica_id=-1,
            topics=(
                ListOffsetsTopic(
                    name="t", partitions=(ListOffsetsPartition(partition_index=0, timestamp=-1),)
                ),
            ),
        )
    )
    assert play.answers[ticket].topics[0].partitions[0].offset == 0


def test_the_one_epoch_ends_at_the_high_watermark(play: "Play", kit: "type[Kit]") -> None:
    play.create("t")
    play.call(kit.produce("t", kit.batch(b"a", b"b")), VERSION)

    def end_of(epoch: int) -> int:
        partition = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        topic = OffsetForLeaderTopic(topic="t", partitions=(partition,))
        result: int = (
            play.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=(topic,)))
            .topics[0]
            .partitions[0]
            .end_offset
        )
        return result

    assert (end_of(0), end_of(1)) == (2, -1)


def test_a_partition_that_is_named_twice_is_waited_for_and_answered_once(
    play: "Play", kit: "type[Kit]"
) -> None:
    play.create("t")
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    for topics in (
        (FetchTopic(topic="t", partitions=(partition, partition)),),
        (FetchTopic(topic="t", partitions=(partition,)),) * 2,
    ):
        late = play.ask(FetchRequest(max_wait_ms=500, min_bytes=10_000, topics=topics), VERSION)
        play.sleep(500)
        assert [
            each.error_code for topic in play.answers[late].responses for each in topic.partitions
        ] == [Code.NONE]
        stored = (
            play.call(kit.produce("t", kit.batch(b"a")), VERSION)
            .responses[0]
            .partition_responses[0]
        )
        early = play.ask(kit.fetch("t", stored.base_offset + 1, max_wait_ms=500), VERSION)
        assert early not in play.answers
        play.call(kit.produce("t", kit.batch(b"b")), VERSION)
        assert len(offsets_in(only(play.answers[early]))) == 1
