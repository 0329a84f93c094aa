"""Batches that no client makes, to a real Kafka and to our broker: both take the same ones and
store the same records, and our readers have all that a real Kafka has stored.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.columns import read
from apportion.columns.plain_rows import PlainBudget
from apportion.errors import Code
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import RealKafka
from apportion.wire.batch import decode_batch, read_header, split_batches
from tests.columns.rows import Endless
from tests.kafka.differential.side import Side
from tests.kafka.differential.wrong import NOW_MS, patched
from tests.messages import request
from tests.odd_batches import OddRecord, at_deltas, odd_batch, odd_records
from tests.spark.test_reads import reader

Answer = tuple[Code, int]
TOPICS = {
    "usual": {},
    "compacted": {"cleanup.policy": "compact"},
    "compressed": {"compression.type": "lz4"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
}
KEPT = dict.fromkeys(TOPICS, (1, 2, 3, 4)) | {"compressed": (3,)}
"""In which compressions a batch is stored as it is sent; it is compressed anew from any other."""
NOT_READY = (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.NOT_LEADER_OR_FOLLOWER)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
SOON_MS = 600_000
NEW_PRODUCER = 0
"""Stands for one of PRODUCERS, none of which a broker knows before."""
PRODUCERS = count(10_000)
SCATTERED = "a compressed batch whose records are not at consecutive offsets"
NEGATIVE = "a time before 1970 in a batch that the broker compresses"
CLAIMED = "a claimed time of the append in a batch that the broker compresses"
"""What is meant to differ: rows of docs/differences.md."""


@pytest.fixture(scope="module")
def token() -> str:
    """What the names of this module's topics end in."""
    return uuid4().hex[:8]


@pytest.fixture(scope="module")
def sides(kafka: RealKafka, token: str) -> Iterator[tuple[Side, Side]]:
    """Our broker and a real Kafka with the same empty topics."""
    with EmbeddedBroker() as broker:
        both = Side("apportion", broker.bootstrap), Side("Kafka", kafka.bootstrap)
        for side in both:
            for kind, configs in TOPICS.items():
                create(side, f"{kind}-{token}", configs)
        yield both
        for side in both:
            side.close()


def create(side: Side, name: str, configs: dict[str, str]) -> None:
    wanted = {
        "name": name,
        "num_partitions": 1,
        "replication_factor": 1,
        "configs": [{"name": key, "value": value} for key, value in configs.items()],
    }
    assert side.call(request("CreateTopics", topics=[wanted]), 7).topics[0].error_code == 0


def produced(side: Side, topic: str, batch: bytes) -> Answer:
    """Code and base offset, once the leader knows that it leads."""
    data = {"name": topic, "partition_data": [{"index": 0, "records": batch}]}
    asked = request("Produce", acks=-1, timeout_ms=5_000, topic_data=[data])
    while True:
        [part] = side.call(asked, 12).responses[0].partition_responses
        if part.error_code not in NOT_READY:
            return Code.of(part.error_code), part.base_offset


def stored(side: Side, topic: str, offset: int) -> Any:
    """The header of the batch at this offset, and its records, as far as readers see them."""
    wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    topics = [{"topic": topic, "partitions": [wanted]}]
    asked = request("Fetch", max_wait_ms=5_000, min_bytes=1, max_bytes=1 << 20, topics=topics)
    [batch, *_] = split_batches(side.call(asked, 12).responses[0].partitions[0].records)
    header, records = read_header(batch), decode_batch(batch)
    assert header.base_offset == offset
    records = [record._replace(offset=record.offset - offset) for record in records]
    if header.timestamp_type:  # the time of the append, which each broker has from its own clock
        header = header._replace(max_timestamp_ms=0)
        records = [record._replace(timestamp_ms=0) for record in records]
    return (
        header.compression,
        header.timestamp_type,
        header.last_offset_delta,
        header.max_timestamp_ms,
        *(header.producer_id, header.producer_epoch, header.base_sequence),
        records,
    )


def without_times(*shown: Any) -> Any:
    """The same as `stored` shows, without timestamps."""
    *header, records = shown
    return [*header, *(record._replace(timestamp_ms=0) for record in records)]


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """A batch of anything that a client may say."""
    first_ms = draw(st.sampled_from([NOW_MS, NOW_MS - SOON_MS, 0, -1]) | INT64)
    deltas = st.sampled_from([0, 0, 1, -1, NOW_MS]) | st.integers(-SOON_MS, SOON_MS) | INT64
    records = draw(odd_records(deltas))
    if draw(st.booleans()):
        records = [record._replace(offset_delta=n) for n, record in enumerate(records)]
    new = (NEW_PRODUCER, draw(st.sampled_from([0, 5, (1 << 15) - 1])))
    producer = draw(
        st.sampled_from([(-1, -1, -1), (-1, 3, 7), (-2, 0, 0), (*new, 0), (*new, (1 << 31) - 1)])
    )
    return odd_batch(
        records,
        base_offset=draw(st.sampled_from([0] * 9 + [1, -1])),
        first_ms=first_ms,
        max_ms=draw(st.sampled_from([NOW_MS, NOW_MS - SOON_MS, 0, -1]) | INT64),
        # Compression, LogAppendTime, the delete horizon, and bits without a use.
        attributes=draw(st.sampled_from([0] * 12 + [1, 3, 4, 8, 0x40, 0x80, 0x7F00])),
        producer=producer,
    )


def meant_or_none(batch: bytes, kind: str) -> tuple[Code, Code] | None:
    """Our code and Kafka's, where docs/differences.md has that they differ."""
    header, records = read_header(batch), decode_batch(batch)
    is_scattered = [record.offset - header.base_offset for record in records] != list(
        range(header.count)
    )
    if header.compression in KEPT[kind] and is_scattered:
        is_read = kind != "stamped"  # no setting of it speaks of single records
        return Code.INVALID_RECORD if is_read else Code.NONE, Code.UNKNOWN_SERVER_ERROR
    if kind == "compressed" and any(record.timestamp_ms < -1 for record in records):
        return Code.NONE, Code.UNKNOWN_SERVER_ERROR
    return None


@pytest.mark.parametrize("kind", TOPICS)
def test_both_brokers_store_the_same_of_what_no_client_sends(
    sides: tuple[Side, Side], token: str, kind: str
) -> None:
    topic = f"{kind}-{token}"
    seen = set()

    @settings(max_examples=300, deadline=None, database=None)
    @given(batch=batches())
    def check(batch: bytes) -> None:
        if read_header(batch).producer_id == NEW_PRODUCER:
            batch = patched(batch, 43, next(PRODUCERS).to_bytes(8, "big"))
        answers = [produced(side, topic, batch) for side in sides]
        codes = tuple(code for code, _ in answers)
        seen.add(codes)
        if codes == meant_or_none(batch, kind):
            return
        assert codes[0] is codes[1]
        if codes[0] is Code.NONE:
            ours, theirs = (
                stored(side, topic, offset)
                for side, (_, offset) in zip(sides, answers, strict=True)
            )
            if kind == "compressed" and read_header(batch).timestamp_type:
                ours, theirs = (without_times(*each) for each in (ours, theirs))
            assert ours == theirs

    check()
    assert (Code.NONE, Code.NONE) in seen


@pytest.mark.parametrize(
    ("kind", "batch", "ours"),
    [
        pytest.param(
            "usual", odd_batch([OddRecord(5)], attributes=1), Code.INVALID_RECORD, id=SCATTERED
        ),
        pytest.param("compressed", odd_batch([OddRecord(0, -5)]), Code.NONE, id=NEGATIVE),
    ],
)
def test_a_real_kafka_fails_at_a_batch_that_our_broker_answers(
    sides: tuple[Side, Side], token: str, kind: str, batch: bytes, ours: Code
) -> None:
    assert [produced(side, f"{kind}-{token}", batch)[0] for side in sides] == [
        ours,
        Code.UNKNOWN_SERVER_ERROR,
    ]


@pytest.mark.parametrize("kind", [pytest.param("compressed", id=CLAIMED)])
def test_only_a_real_kafka_keeps_a_time_of_the_append_that_a_producer_claims(
    sides: tuple[Side, Side], token: str, kind: str
) -> None:
    topic = f"{kind}-{token}"
    claimed = odd_batch([OddRecord(0)], first_ms=NOW_MS - 1, max_ms=NOW_MS, attributes=8)
    times = []
    for side in sides:
        code, offset = produced(side, topic, claimed)
        assert code is Code.NONE
        times += [record.timestamp_ms for record in stored(side, topic, offset)[-1]]
    assert times == [NOW_MS - 1, NOW_MS]


WHAT_KAFKA_STORES = [
    at_deltas(0, 1, 2),
    at_deltas(0, 0, 0),
    at_deltas(0, 5, 9),
    at_deltas(2, 1, 0),
    at_deltas(-3, -2, -1),
    at_deltas((1 << 31) - 1, -(1 << 31), 0),
    odd_batch([OddRecord(0, key=b"\x09", value=b"\x0d")], first_ms=NOW_MS),
    odd_batch([OddRecord(0, headers=[b"\xff\xfe"])], first_ms=NOW_MS),
    odd_batch(
        [OddRecord(0, 1 << 62), OddRecord(1, -(1 << 62))], first_ms=(1 << 63) - 1 - (1 << 62)
    ),
    at_deltas(0, 1, 2),
]


@pytest.fixture(scope="module")
def odd_topic(sides: tuple[Side, Side], token: str) -> tuple[str, list[tuple[int, bytes | None]]]:
    """A topic of the real Kafka with those batches, and the offset and value of each record."""
    theirs, topic = sides[1], f"odd-{token}"
    create(theirs, topic, {"message.timestamp.after.max.ms": str((1 << 63) - 1)})
    held = []
    for batch in WHAT_KAFKA_STORES:
        code, base_offset = produced(theirs, topic, batch)
        assert code is Code.NONE
        held += [(base_offset + each.offset, each.value) for each in decode_batch(batch)]
    return topic, held


def test_a_consumer_delivers_every_record_that_a_real_kafka_stores(
    bootstrap: str, odd_topic: tuple[str, list[tuple[int, bytes | None]]]
) -> None:
    topic, held = odd_topic
    seen: list[tuple[int, bytes | None]] = []
    with apportion.Consumer(
        bootstrap, f"of-{topic}", topics=[topic], auto_offset_reset="earliest", max_poll_records=2
    ) as consumer:
        while len(seen) < len(held):
            seen += [(record.offset, record.value) for record in consumer.poll(500)]
        [partition] = consumer.assignment
        assert consumer.position(partition) == sum(
            read_header(batch).count for batch in WHAT_KAFKA_STORES
        )
    assert seen == held


@pytest.mark.parametrize("budget", [PlainBudget(0), Endless()], ids=["kernels", "plain Python"])
@pytest.mark.parametrize("limits", [{}, {"maxRecordsPerPartition": "2"}], ids=["whole", "divided"])
@pytest.mark.parametrize("headers", ["true", "false"])
def test_tasks_read_every_record_that_a_real_kafka_stores_once(
    bootstrap: str,
    odd_topic: tuple[str, list[tuple[int, bytes | None]]],
    budget: PlainBudget,
    limits: dict[str, str],
    headers: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, _ = odd_topic
    monkeypatch.setattr(read, "budget", budget)
    made = reader(bootstrap, subscribe=topic, includeHeaders=headers, **limits)
    rows = [
        (row["offset"], row["value"])
        for task in made.partitions()
        for batch in made.read(task)
        for row in batch.set_column(5, "timestamp", batch["timestamp"].cast(pa.int64())).to_pylist()
    ]
    placed: list[tuple[int, bytes | None]] = []
    for batch in WHAT_KAFKA_STORES:
        header, base_offset = read_header(batch), len(placed)
        placed += [
            (base_offset + header.place(each.offset), each.value) for each in decode_batch(batch)
        ]
    assert sorted(rows, key=repr) == sorted(placed, key=repr)
