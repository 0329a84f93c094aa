"""Error responses made from a declaration of the slots in which an error stands."""

import pytest

from apportion.errors import Code, Refused
from apportion.machine import Arrived, Caller, Ticket
from apportion.wire.error_slots import ErrorSlots
from tests.message_texts import request_of, words
from tests.messages import BY_NAME

FETCH = ErrorSlots(
    BY_NAME["Fetch"].response,
    {"responses": "topics", "partition_index": "partition"},
    values={"high_watermark": -1, "log_start_offset": -1},
)


def filled(slots: ErrorSlots, text: str, version: int, code: Code, why: str = "") -> str:
    """The response to a request that was refused."""
    arrived = Arrived(Ticket(1), request_of(text), version, Caller("", ""), bytes(16))
    return words(slots(arrived, Refused(code, why)))


def test_an_error_stands_at_every_partition_of_the_request() -> None:
    slots = ErrorSlots(BY_NAME["OffsetCommit"].response)
    text = "OffsetCommit topics=[name=t partitions=[partition_index=3, partition_index=5], name=u]"
    assert filled(slots, text, 9, Code.NOT_COORDINATOR) == (
        "topics=[name=t partitions=[partition_index=3 error_code=NOT_COORDINATOR, "
        "partition_index=5 error_code=NOT_COORDINATOR], name=u]"
    )


@pytest.mark.parametrize(
    ("version", "response"),
    [
        (
            4,
            "responses=[topic=t partitions=[partition_index=2 error_code=KAFKA_STORAGE_ERROR "
            "high_watermark=-1]]",
        ),
        (7, "error_code=KAFKA_STORAGE_ERROR"),
    ],
)
def test_slots_stay_empty_where_the_response_has_an_error_of_its_own(
    version: int, response: str
) -> None:
    text = "Fetch topics=[topic=t partitions=[partition=2]]"
    assert filled(FETCH, text, version, Code.KAFKA_STORAGE_ERROR) == response


def test_an_array_may_answer_two_arrays_of_the_request() -> None:
    slots = ErrorSlots(
        BY_NAME["AlterUserScramCredentials"].response,
        {"results": ("deletions", "upsertions"), "user": "name"},
    )
    text = "AlterUserScramCredentials deletions=[name=deleted] upsertions=[name=set]"
    assert filled(slots, text, 0, Code.CLUSTER_AUTHORIZATION_FAILED) == (
        "results=[user=deleted error_code=CLUSTER_AUTHORIZATION_FAILED, "
        "user=set error_code=CLUSTER_AUTHORIZATION_FAILED]"
    )


@pytest.mark.parametrize(("version", "named"), [(5, "by-name"), (6, "by-value")])
def test_only_arrays_of_the_version_are_answered(version: int, named: str) -> None:
    """A request that never was bytes has the arrays of all versions, as in the simulator."""
    slots = ErrorSlots(
        BY_NAME["DeleteTopics"].response,
        {"responses": ("topics", "topic_names")},
        item="name",
    )
    text = "DeleteTopics topics=[name=by-value] topic_names=[by-name]"
    assert filled(slots, text, version, Code.UNKNOWN_TOPIC_OR_PARTITION) == (
        f"responses=[name={named} error_code=UNKNOWN_TOPIC_OR_PARTITION]"
    )


@pytest.mark.parametrize(("is_explained", "why"), [(True, " error_message=gone"), (False, "")])
def test_the_message_stands_beside_each_error_that_is_explained(
    is_explained: bool, why: str
) -> None:
    slots = ErrorSlots(
        BY_NAME["ConsumerGroupDescribe"].response,
        {"groups": "group_ids"},
        item="group_id",
        is_explained=is_explained,
    )
    assert filled(
        slots, "ConsumerGroupDescribe group_ids=[g]", 0, Code.GROUP_ID_NOT_FOUND, "gone"
    ) == (f"groups=[error_code=GROUP_ID_NOT_FOUND{why} group_id=g]")


def test_a_declared_value_stands_in_place_of_what_the_request_has() -> None:
    slots = ErrorSlots(BY_NAME["ListOffsets"].response, values={"timestamp": 9})
    text = "ListOffsets topics=[name=t partitions=[partition_index=2 timestamp=5]]"
    assert filled(slots, text, 1, Code.NOT_COORDINATOR) == (
        "topics=[name=t partitions=[partition_index=2 error_code=NOT_COORDINATOR timestamp=9]]"
    )


def test_an_element_alone_has_the_error_at_each_of_its_partitions() -> None:
    [topic] = request_of("Fetch topics=[topic=t partitions=[partition=7]]").topics
    # Also in versions in which the whole response has an error of its own.
    for version in (4, 7):
        refused = FETCH.elements("responses", version)
        assert words(refused(topic, Refused(Code.TOPIC_AUTHORIZATION_FAILED))) == (
            "topic=t partitions=[partition_index=7 error_code=TOPIC_AUTHORIZATION_FAILED "
            "high_watermark=-1]"
        )
