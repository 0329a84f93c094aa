"""What each foreign client does while it is recorded: a producer, both group protocols, an
administrator's rounds.
"""

import asyncio
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import aiokafka
import confluent_kafka as ck
from confluent_kafka import admin as ca

import kafka as kp

if TYPE_CHECKING:
    from collections.abc import Callable


def confluent(bootstrap: str) -> str:
    """confluent-kafka has used topics `birds` and `trees` in every way it knows; returns its name
    and version.
    """
    admin = ca.AdminClient({"bootstrap.servers": bootstrap})
    wanted = [
        ca.NewTopic("birds", 3, 1, config={"retention.ms": "600000"}),
        ca.NewTopic("trees", 2, 1),
    ]
    for made in admin.create_topics(wanted).values():
        made.result(30)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        confluent_produce(bootstrap, codec)
    new, classic = (
        {"group.protocol": "consumer"},
        {"partition.assignment.strategy": "cooperative-sticky"},
    )
    for group, topics, members in (
        ("new", ["birds"], [new, new]),
        ("static", ["birds"], [new | {"group.instance.id": "one"}]),
        ("ranged", ["birds", "trees"], [new | {"group.remote.assignor": "range"}] * 2),
        ("regex", ["^b.rds"], [new]),
        ("mixed", ["birds"], [new, {}]),
        ("classic", ["birds"], [classic | {"group.instance.id": "old"}]),
    ):
        confluent_consume(
            bootstrap, [settings | {"group.id": group} for settings in members], topics
        )
    confluent_administer(admin)
    return f"confluent-kafka {ck.__version__}"


def confluent_produce(bootstrap: str, codec: str) -> None:
    """Six records in both topics, from an idempotent producer."""
    producer = ck.Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 20,
        }
    )
    for number in range(6):
        producer.produce(
            ("birds", "trees")[number % 2],
            b"%d " % number * 20,
            b"key" if number else None,
            headers=[("h", b"v"), ("n", None)],
        )
    assert producer.flush(30) == 0


def confluent_consume(bootstrap: str, members: list[dict[str, Any]], topics: list[str]) -> None:
    """Members with these settings have joined one after the other, read, committed and left."""
    group: list[Any] = [
        ck.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
            | settings
        )
        for settings in members
    ]
    for count, consumer in enumerate(group, 1):
        consumer.subscribe(topics)
        until = time.monotonic() + 30
        while not all(each.assignment() for each in group[:count]):
            assert time.monotonic() < until, f"{members} did not settle"
            for each in group[:count]:
                message = each.poll(0.1)
                if message and not message.error():
                    with suppress(ck.KafkaException):
                        each.commit(message, asynchronous=False)
    for each in group:
        each.committed(each.assignment(), 10)
        with suppress(ck.KafkaException):
            each.commit(
                offsets=[
                    ck.TopicPartition(p.topic, p.partition, 1, metadata="m")
                    for p in each.assignment()
                ],
                asynchronous=False,
            )
        each.get_watermark_offsets(each.assignment()[0], 10)
        each.offsets_for_times(
            [ck.TopicPartition(p.topic, p.partition, 0) for p in each.assignment()], 10
        )
    for each in group:
        each.close()


def confluent_administer(admin: ca.AdminClient) -> None:
    """One call of every kind of administration that groups and topics have."""
    admin.list_consumer_groups().result(10)
    for done in admin.describe_consumer_groups(["new", "classic", "nobody"]).values():
        with suppress(ck.KafkaException):
            done.result(10)
    for group in ("new", "nobody"):
        for done in admin.list_consumer_group_offsets(
            [ck.ConsumerGroupTopicPartitions(group)]
        ).values():
            with suppress(ck.KafkaException):
                done.result(10)
    for resource in (ca.ConfigResource(ca.ConfigResource.Type.TOPIC, "birds"),):
        admin.describe_configs([resource])[resource].result(10)
    admin.create_partitions([ca.NewPartitions("trees", 3)])["trees"].result(10)
    admin.describe_cluster().result(10)
    admin.describe_topics(ck.TopicCollection(["birds"]))["birds"].result(10)
    for done in admin.list_offsets(
        {ck.TopicPartition("birds", 0): ca.OffsetSpec.latest()}  # type: ignore[no-untyped-call]
    ).values():
        done.result(10)
    for done in admin.delete_records(
        [ck.TopicPartition("trees", index, ck.OFFSET_END) for index in (0, 1)]
    ).values():
        done.result(10)
    for done in admin.delete_consumer_groups(["static", "nobody"]).values():
        with suppress(ck.KafkaException):
            done.result(10)


def kafka_python(bootstrap: str) -> str:
    """kafka-python has produced, consumed with a classic group and administered."""
    admin = kp.KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({"fish": {"num_partitions": 2, "replication_factor": 1}})
    producer = kp.KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(4):
        producer.send("fish", b"%d" % number).get(30)
    producer.close()
    consumer = kp.KafkaConsumer(
        "fish", bootstrap_servers=bootstrap, group_id="python", auto_offset_reset="earliest"
    )
    read = 0
    while read < 4:
        read += sum(len(records) for records in consumer.poll(1000).values())
    consumer.commit()
    consumer.close()
    call: Callable[[], Any]
    for call in (
        lambda: admin.list_groups(),
        lambda: admin.describe_groups(["python", "new"]),
        lambda: admin.list_group_offsets("python"),
        lambda: admin.describe_cluster(),
        lambda: admin.create_partitions({"fish": 3}),
        lambda: admin.delete_group_offsets("python", [kp.TopicPartition("fish", 0)]),
        lambda: admin.delete_records({kp.TopicPartition("fish", 0): -1}),
        lambda: admin.delete_groups(["python"]),
        lambda: admin.delete_topics(["fish"]),
    ):
        try:
            call()
        # its other releases call these otherwise; what was sent is kept all the same
        except Exception as error:
            print(f"  kafka-python: {error!r}")
    admin.close()
    return f"kafka-python {kp.__version__}"


def aiokafka_client(bootstrap: str) -> str:
    """aiokafka has produced and consumed with a classic group, in the oldest versions that anybody
    still speaks.
    """

    async def run() -> None:
        topic = f"moths-{uuid.UUID(int=1).hex[:4]}"
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap)
        await producer.start()
        for number in range(4):
            await producer.send_and_wait(topic, b"%d" % number)
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id="async", auto_offset_reset="earliest"
        )
        await consumer.start()
        for _ in range(4):
            await asyncio.wait_for(consumer.getone(), 30)
        await consumer.commit()
        await consumer.stop()

    asyncio.run(run())
    return f"aiokafka {aiokafka.__version__}"
