"""Responses to callers who may know of a part of what they ask for: what is refused, and hidden."""

from typing import Any

import pytest

from apportion.errors import Code
from apportion.machine import Caller, CloseConnection
from apportion.security.acls import AclOperation
from apportion.topics import NO_TOPIC_ID
from apportion.wire.messages.describe_groups import NOT_ASKED
from tests.messages import request, response
from tests.node import kit
from tests.node.guarded import (
    BOB,
    CLUSTER,
    TOPIC,
    TRANSACTIONAL_ID,
    as_bob,
    codes,
    guarded,
    let,
    may,
)
from tests.node.guarded_requests import fetched

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
CREATE, DELETE = AclOperation.CREATE, AclOperation.DELETE
STRANGE = b"no topic at all!"


def metadata(*names: str, **facts: Any) -> Any:
    topics = [{"name": name} for name in names]
    return request("Metadata", **{"topics": topics, "allow_auto_topic_creation": False} | facts)


def created(*names: str) -> Any:
    sizes = {"num_partitions": 1, "replication_factor": 1}
    return request("CreateTopics", topics=[{"name": name} | sizes for name in names])


def produced(records: bytes, *names: str, **facts: Any) -> Any:
    data = [{"index": 0, "records": records}]
    topics = [{"name": name, "partition_data": data} for name in names]
    return request("Produce", **{"acks": -1, "timeout_ms": 1, "topic_data": topics} | facts)


def named(response: Any) -> list[tuple[int, str | None, bytes]]:
    """The topics of a Metadata response."""
    return [(topic.error_code, topic.name, topic.topic_id) for topic in response.topics]


def test_metadata_of_all_topics_leaves_hidden_ones_out() -> None:
    driver = guarded(may(DESCRIBE, TOPIC, "mine"))
    mine = driver.create("mine")
    driver.create("other")
    assert named(as_bob(driver, metadata(topics=None))) == [(0, "mine", mine)]
    assert named(as_bob(driver, request("Metadata", topics=()), 0)) == [(0, "mine", mine)]


def test_metadata_refuses_a_hidden_topic_whether_it_exists_or_not() -> None:
    driver = guarded(may(DESCRIBE, TOPIC, "mine"))
    mine = driver.create("mine")
    driver.create("other")
    answer = as_bob(driver, metadata("other", "gone", "mine", "other"))
    assert named(answer) == [
        (0, "mine", mine),
        (29, "other", NO_TOPIC_ID),
        (29, "gone", NO_TOPIC_ID),
    ]


def test_metadata_of_version_0_shows_nothing_more_if_all_it_names_is_refused() -> None:
    driver = guarded(may(DESCRIBE, TOPIC, "mine"))
    driver.create("mine")
    assert named(as_bob(driver, metadata("other"), 0)) == [(29, "other", NO_TOPIC_ID)]


def test_metadata_by_id_of_a_hidden_topic_has_no_name() -> None:
    driver = guarded(may(DESCRIBE, TOPIC, "mine"))
    mine, other = driver.create("mine"), driver.create("other")
    ids = [{"topic_id": each, "name": None} for each in (mine, other, STRANGE)]
    assert named(as_bob(driver, metadata(topics=ids))) == [
        (0, "mine", mine),
        (100, None, STRANGE),
        (29, None, other),
    ]


def test_metadata_has_the_operations_that_the_caller_may_do() -> None:
    driver = guarded(may(READ, TOPIC, "mine"))
    driver.create("mine")
    answer = as_bob(
        driver,
        metadata(
            *("mine", "other"),
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        ),
        10,
    )
    bits = (1 << READ) | (1 << DESCRIBE)
    assert [topic.topic_authorized_operations for topic in answer.topics] == [bits, NOT_ASKED]
    assert answer.cluster_authorized_operations == 0
    let(driver, may(DESCRIBE, CLUSTER))
    again = as_bob(driver, metadata(include_cluster_authorized_operations=True), 10)
    assert again.cluster_authorized_operations == 1 << DESCRIBE


@pytest.mark.parametrize("on", [may(CREATE, TOPIC, "new"), may(CREATE, CLUSTER)])
def test_metadata_creates_a_topic_for_whoever_may_create_it(on: Any) -> None:
    driver = guarded(may(DESCRIBE, TOPIC, "new"))
    asked = metadata("new", allow_auto_topic_creation=True)
    refused = response("Metadata", topics=[{"error_code": 29, "name": "new"}])
    assert as_bob(driver, asked).topics == refused.topics
    assert driver.node.topics.named("new") is None
    let(driver, may(DESCRIBE, TOPIC, "new"), on)
    topics = named(as_bob(driver, asked))
    topic = driver.node.topics.named("new")
    assert topic is not None
    assert topics == [(0, "new", topic.id)]


def test_a_cluster_is_described_to_everybody_with_what_he_may_do() -> None:
    driver = guarded()
    asked = request("DescribeCluster", include_cluster_authorized_operations=True)
    answer = as_bob(driver, asked)
    assert (answer.error_code, answer.cluster_authorized_operations) == (0, 0)
    let(driver, may(AclOperation.ALTER, CLUSTER))
    bits = (1 << AclOperation.ALTER) | (1 << DESCRIBE)
    assert as_bob(driver, asked).cluster_authorized_operations == bits


def test_a_created_topic_shows_its_settings_to_whoever_may_describe_them() -> None:
    driver = guarded(may(CREATE, TOPIC, "a"))
    answer = as_bob(driver, created("a", "b"))
    topic = driver.node.topics.named("a")
    assert topic is not None
    made = {
        "name": "a",
        "topic_id": topic.id,
        "error_message": None,
        "topic_config_error_code": 29,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": (),
    }
    refused = {
        "name": "b",
        "error_code": 29,
        "error_message": "User:bob has no permission for CREATE on topic b.",
        "configs": None,
    }
    assert answer == response("CreateTopics", topics=[made, refused])
    assert driver.node.topics.named("b") is None


def test_a_topic_named_twice_is_refused_as_that() -> None:
    driver = guarded()
    assert codes(as_bob(driver, created("a", "a"))) - {0} == {42}
    doomed = request("DeleteTopics", topics=[{"name": "a"}] * 2)
    assert codes(as_bob(driver, doomed)) - {0} == {42}


def test_deleting_hidden_topics_tells_nothing_of_them() -> None:
    driver = guarded(may(DESCRIBE, TOPIC, "known"), may(DESCRIBE, TOPIC, "gone"))
    known, secret = driver.create("known"), driver.create("secret")
    topics = [
        *({"name": name} for name in ("known", "gone", "secret", "absent")),
        *({"topic_id": each} for each in (known, secret, STRANGE)),
    ]
    answer = as_bob(driver, request("DeleteTopics", topics=topics))
    seen = [(each.name, each.topic_id, each.error_code) for each in answer.responses]
    assert seen == [
        ("gone", NO_TOPIC_ID, 3),
        (None, STRANGE, 100),
        ("known", NO_TOPIC_ID, 29),
        ("secret", NO_TOPIC_ID, 29),
        ("absent", NO_TOPIC_ID, 29),
        ("known", known, 29),
        (None, secret, 29),
    ]
    why = f"User:bob has no permission for DESCRIBE on topic {secret.hex()}."
    assert answer.responses[-1].error_message == why
    assert driver.node.topics.named("known") is not None


def test_a_delete_on_the_cluster_is_one_of_every_topic() -> None:
    driver = guarded(may(DELETE, CLUSTER))
    driver.create("t")
    answer = as_bob(driver, request("DeleteTopics", topic_names=("t", "gone")), 5)
    assert [(each.name, each.error_code) for each in answer.responses] == [("t", 0), ("gone", 3)]


def test_a_producer_id_is_for_whoever_may_write_to_some_topic() -> None:
    driver = guarded(may(WRITE, TOPIC, "t"))
    asked = request("InitProducerId", transactional_id=None, transaction_timeout_ms=1)
    assert as_bob(driver, asked).error_code == 0
    let(driver)
    answer = as_bob(driver, asked)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (31, -1, -1)


def test_a_transactional_id_needs_its_own_permission() -> None:
    driver = guarded(may(WRITE, TOPIC, "t"), may(WRITE, TRANSACTIONAL_ID, "x"))
    for transactional_id in ("x", "y"):
        asked = request(
            "InitProducerId", transactional_id=transactional_id, transaction_timeout_ms=1
        )
        # There are no transactions here, which clients are told by the same code.
        assert as_bob(driver, asked).error_code == 53


def test_nothing_of_a_transaction_is_written_without_its_permission() -> None:
    driver = guarded(may(WRITE, TOPIC, "t"))
    driver.create("t")
    plain = kit.batch(b"v")
    marked = bytearray(plain)
    marked[22] |= 0x10
    for records, code in ((bytes(marked), 53), (plain, 48)):
        (topic,) = as_bob(driver, produced(records, "t", transactional_id="x"), 9).responses
        assert topic.partition_responses[0].error_code == code


def test_records_are_stored_where_the_producer_may_write() -> None:
    driver = guarded(may(WRITE, TOPIC, "mine"))
    for name in ("mine", "other"):
        driver.create(name)
    answer = as_bob(driver, produced(kit.batch(b"v"), "other", "mine"), 9)
    results = [(each.name, each.partition_responses[0].error_code) for each in answer.responses]
    assert results == [("mine", 0), ("other", 29)]
    stored = {
        name: len(driver.call(kit.fetch(name), 12).responses[0].partitions[0].records) > 0
        for name in ("mine", "other")
    }
    assert stored == {"mine": True, "other": False}


def test_a_refused_producer_that_wants_no_response_loses_its_connection() -> None:
    driver = guarded(may(WRITE, TOPIC, "mine"))
    for name in ("mine", "other"):
        driver.create(name)
    closed = CloseConnection(
        "its Produce with acks=0 is refused, for other-0: TOPIC_AUTHORIZATION_FAILED"
    )
    for names, expected in ((("mine",), None), (("other",), closed), (("mine", "other"), closed)):
        assert as_bob(driver, produced(kit.batch(b"v"), *names, acks=0), 9) == expected


def test_a_fetch_in_the_name_of_a_replica_is_for_brokers() -> None:
    driver = guarded(may(READ, TOPIC, "t"))
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
    topics = [{"topic_id": driver.create("t"), "partitions": [partition]}]
    by_id = fetched(replica_state={"replica_id": 5}, topics=topics)
    for asked, version in ((fetched(replica_id=5), 12), (by_id, 15)):
        assert codes(as_bob(driver, asked, version)) == {0, 29}
        let(driver, may(AclOperation.CLUSTER_ACTION, CLUSTER))
        assert codes(as_bob(driver, asked, version)) == {0}
        let(driver, may(READ, TOPIC, "t"))


def test_a_fetch_of_an_unknown_session_is_refused_as_that() -> None:
    driver = guarded()
    answer = as_bob(driver, fetched(session_id=7, session_epoch=1), 12)
    assert (answer.error_code, answer.responses) == (Code.FETCH_SESSION_ID_NOT_FOUND, ())


def test_the_host_of_an_acl_is_the_address_of_its_caller() -> None:
    driver = guarded(may(DESCRIBE, TOPIC, "t")._replace(host="10.1.2.3"))
    driver.create("t")
    seen = {}
    for host in ("/10.1.2.3", "/10.1.2.4", "/::ffff:10.1.2.3"):
        driver.caller = Caller("test", host, BOB)
        seen[host] = driver.call(metadata("t")).topics[0].error_code
    assert seen == {"/10.1.2.3": 0, "/10.1.2.4": 29, "/::ffff:10.1.2.3": 0}


def test_a_refusal_quotes_a_long_name_in_part() -> None:
    driver = guarded()
    name = "\N{GRINNING FACE}" * 8_000  # nearly all that version 2 has a place for
    (topic,) = as_bob(driver, created(name), 2).topics
    assert topic.error_message == (f"User:bob has no permission for CREATE on topic {name[:300]}.")
