"""Produce without acknowledgement (acks 0): who is refused loses the connection."""

from apportion.machine import CloseConnection
from apportion.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.node import kit
from tests.node.kit import NodeDriver
from tests.node.test_produce import VERSION, values_in


def test_with_acks_0_nobody_is_told_and_the_batch_is_stored(driver: NodeDriver) -> None:
    driver.create("t")
    ticket = driver.ask(kit.produce("t", kit.batch(b"a"), acks=0), VERSION)
    # It ends with the flush, so that what is behind it on its connection shows the batch.
    assert ticket not in driver.answers
    driver.flush()
    assert driver.answers[ticket] is None
    assert values_in(driver) == [(0, b"a")]


def test_with_acks_0_a_batch_that_is_lost_ends_the_connection(driver: NodeDriver) -> None:
    driver.create("t")
    ticket = driver.ask(kit.produce("t", kit.batch(b"a"), acks=0), VERSION)
    driver.fail_flush()
    assert driver.answers[ticket] == CloseConnection(
        "its Produce with acks=0 is refused, for t-0: KAFKA_STORAGE_ERROR"
    )


def test_with_acks_0_a_refusal_ends_the_connection(driver: NodeDriver) -> None:
    driver.create("t")
    ticket = driver.ask(kit.produce("no-topic", kit.batch(b"a"), acks=0), VERSION)
    assert driver.answers[ticket] == CloseConnection(
        "its Produce with acks=0 is refused, for no-topic-0: UNKNOWN_TOPIC_OR_PARTITION"
    )
    data = (PartitionProduceData(index=0, records=kit.batch(b"a")),)
    by_id = TopicProduceData(topic_id=bytes(16), partition_data=data)
    request = ProduceRequest(acks=0, topic_data=(by_id,))
    assert driver.answers[driver.ask(request, 13)] == CloseConnection(
        "its Produce with acks=0 is refused, for AAAAAAAAAAAAAAAAAAAAAA-0: UNKNOWN_TOPIC_ID"
    )
    # Of several, what is good is stored.
    parts = tuple(PartitionProduceData(index=index, records=kit.batch(b"a")) for index in (0, 99))
    both = ProduceRequest(acks=0, topic_data=(TopicProduceData(name="t", partition_data=parts),))
    assert driver.answers[driver.ask(both, VERSION)] == CloseConnection(
        "its Produce with acks=0 is refused, for t-99: UNKNOWN_TOPIC_OR_PARTITION"
    )
    driver.flush()
    assert values_in(driver) == [(0, b"a")]
