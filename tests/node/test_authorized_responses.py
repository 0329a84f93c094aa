"""What producers, other hosts and long names are answered by ACLs (the rest: `authorized.txt`)."""

from typing import TYPE_CHECKING, Any

from apportion.machine import Caller, CloseConnection
from apportion.security.acls import AclOperation
from tests.messages import request
from tests.node.guarded import (
    BOB,
    TOPIC,
    as_bob,
    guarded,
    may,
)

if TYPE_CHECKING:
    from tests.node.conftest import Kit

WRITE, DESCRIBE = AclOperation.WRITE, AclOperation.DESCRIBE


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


def test_nothing_of_a_transaction_is_written_without_its_permission(kit: "type[Kit]") -> None:
    driver = guarded(kit, may(WRITE, TOPIC, "t"))
    driver.create("t")
    plain = kit.batch(b"v")
    marked = bytearray(plain)
    marked[22] |= 0x10
    for records, code in ((bytes(marked), 53), (plain, 48)):
        (topic,) = as_bob(driver, produced(records, "t", transactional_id="x"), 9).responses
        assert topic.partition_responses[0].error_code == code


def test_records_are_stored_where_the_producer_may_write(kit: "type[Kit]") -> None:
    driver = guarded(kit, may(WRITE, TOPIC, "mine"))
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


def test_a_refused_producer_that_wants_no_response_loses_its_connection(kit: "type[Kit]") -> None:
    driver = guarded(kit, may(WRITE, TOPIC, "mine"))
    for name in ("mine", "other"):
        driver.create(name)
    closed = CloseConnection(
        "its Produce with acks=0 is refused, for other-0: TOPIC_AUTHORIZATION_FAILED"
    )
    for names, expected in ((("mine",), None), (("other",), closed), (("mine", "other"), closed)):
        assert as_bob(driver, produced(kit.batch(b"v"), *names, acks=0), 9) == expected


def test_the_host_of_an_acl_is_the_address_of_its_caller(kit: "type[Kit]") -> None:
    driver = guarded(kit, may(DESCRIBE, TOPIC, "t")._replace(host="10.1.2.3"))
    driver.create("t")
    seen = {}
    for host in ("/10.1.2.3", "/10.1.2.4", "/::ffff:10.1.2.3"):
        driver.caller = Caller("test", host, BOB)
        seen[host] = driver.call(metadata("t")).topics[0].error_code
    assert seen == {"/10.1.2.3": 0, "/10.1.2.4": 29, "/::ffff:10.1.2.3": 0}


def test_a_refusal_quotes_a_long_name_in_part(kit: "type[Kit]") -> None:
    driver = guarded(kit)
    name = "\N{GRINNING FACE}" * 8_000  # nearly all that version 2 has a place for
    (topic,) = as_bob(driver, created(name), 2).topics
    assert topic.error_message == (f"User:bob has no permission for CREATE on topic {name[:300]}.")
