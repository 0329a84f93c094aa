"""Bulk: messages of 100 bytes produced and fetched by librdkafka, in messages a second."""

from functools import partial
from itertools import count

from bench.peers.brokers import Brokers
from bench.peers.librdkafka import CONSUMER, PRODUCER, RawClient
from bench.peers.rounds import Samples, Say, interleaved
from bench.peers.rows import BROKERS, OURS, PeerMissing
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

MESSAGES = 2_000_000
WARM_MESSAGES = 500_000
PARTITIONS = 4
VALUE = bytes(range(100))
LIMIT_S = 60
WARM_UP = f"a round of {WARM_MESSAGES:,} messages before the first"


def measure(brokers: Brokers, rounds: int, say: Say) -> Samples:
    """Measure produce_100b and fetch_100b."""
    names = count()
    warm: set[str] = set()

    def play(side: str) -> dict[str, float]:
        bootstrap = brokers.get(side).bootstrap
        if side not in warm:
            produce_and_fetch(bootstrap, f"warm-{next(names)}", WARM_MESSAGES)
            warm.add(side)
        return produce_and_fetch(bootstrap, f"bulk-{next(names)}", MESSAGES)

    return interleaved({side: partial(play, side) for side in (OURS, *BROKERS)}, rounds, say)


def produce_and_fetch(bootstrap: str, topic: str, messages: int) -> dict[str, float]:
    """Fill a new topic, read it, and delete it; return messages a second of both."""
    admin = AdminClient({**shared_settings(bootstrap)})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(LIMIT_S)
    figures = {
        "produce_100b": produce(bootstrap, topic, messages),
        "fetch_100b": fetch(bootstrap, topic, messages),
    }
    admin.delete_topics([topic])[topic].result(LIMIT_S)
    return figures


def produce(bootstrap: str, topic: str, messages: int) -> float:
    """Return the messages a second until all are acknowledged. Raises PeerMissing."""
    settings = {
        **shared_settings(bootstrap),
        "acks": "all",
        # only so large that the queue is never full
        "queue.buffering.max.messages": str(2 * messages),
        "queue.buffering.max.kbytes": "2000000",
    }
    with RawClient(PRODUCER, settings, topic) as producer:
        took = producer.seconds_to_produce(VALUE, messages, LIMIT_S)
    there = messages_in(bootstrap, topic)
    if there != messages:
        raise PeerMissing(f"only {there:,} of {messages:,} messages were written in {LIMIT_S} s")
    return messages / took


def messages_in(bootstrap: str, topic: str) -> int:
    """Return how many messages the partitions of a topic have."""
    consumer = Consumer({**shared_settings(bootstrap), "group.id": "peers-count"})
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    ends = [consumer.get_watermark_offsets(place, LIMIT_S)[1] for place in places]
    consumer.close()
    return sum(ends)


def fetch(bootstrap: str, topic: str, messages: int) -> float:
    """Return the messages a second of a consumer that reads the whole topic. Raises PeerMissing."""
    settings = {
        **shared_settings(bootstrap),
        "group.id": "peers-fetch",
        # By default it pauses for a second whenever 100,000 messages of a partition wait.
        "queued.min.messages": str(messages),
        "queued.max.messages.kbytes": "2000000",
    }
    with RawClient(CONSUMER, settings, topic) as consumer:
        return messages / consumer.seconds_to_read(PARTITIONS, messages, LIMIT_S)


def shared_settings(bootstrap: str) -> dict[str, str]:
    """Return what all clients of librdkafka have here."""
    return {"bootstrap.servers": bootstrap, "enable.metrics.push": "false", "log_level": "3"}
