"""Wrong requests to both brokers: the answers must be alike in every field that does not name the broker itself."""

import re
import socket
import struct
from pathlib import Path

import pytest

from apportion.client.connection import Disconnected
from apportion.server.embedded import EmbeddedBroker
from apportion.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.kafka.differential.compare import Difference, Intended, differences
from tests.kafka.differential.side import Side
from tests.kafka.differential.steps import MakeTopic
from tests.kafka.differential.wrong import CASES, GOOD, Case, batch, produce
from tests.kafka.differential.wrong_classic import CLASSIC_CASES
from tests.kafka.differential.wrong_trims import TRIM_CASES

DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences.md"

OWN = ("throttle_time_ms", "cluster_id", "controller_id", "brokers", "node_id", "host", "port", "configs", "producer_id")
"""Fields that say who answers, or what this broker happens to have."""


UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What a coordinator makes of an id by chance."""


def of(*names: str):
    """Matches everything in the cases of these names."""
    return lambda seen: seen.step.name in names


def at(field: str, ours, theirs):
    """Matches a field of that name where the brokers say just this."""
    return lambda seen: seen.path[-1:] == (field,) and (seen.ours, seen.theirs) == (ours, theirs)


INTENDED = [
    Intended("sentences beside a refusal", "Kafka leaves many out; here every refusal says why.", at("error_message", True, False)),
    Intended(
        "sentences beside a success",
        "Kafka's FindCoordinator says that there is no error.",
        lambda seen: seen.step.name == "coordinator of type 0" and at("error_message", False, True)(seen),
    ),
    Intended(
        "start of the log beside a refused batch",
        "Kafka tells it for some refusals and -1 for others; no client reads it.",
        at("log_start_offset", -1, 0),
    ),
    Intended(
        "aborted transactions beside a refusal",
        "None or an empty list: nobody reads it there.",
        at("aborted_transactions", None, {}),
    ),
    Intended(
        "which record of a refused batch was wrong",
        "Batches are not decoded here; clients then fail the whole batch, as they do anyhow.",
        of("produce from the future"),
    ),
    Intended(
        "time of a batch that was stored before",
        "Kafka gives the time of the producer as that of the append.",
        lambda seen: seen.step.name.startswith("idempotent") and seen.path[-1] == "log_append_time_ms",
    ),
    Intended(
        "bytes behind a batch",
        "Kafka stores the batch and drops the rest; here they are refused.",
        of("produce a batch and a byte"),
    ),
    Intended(
        "an unknown compression",
        "Kafka fails with UNKNOWN_SERVER_ERROR; here it is INVALID_RECORD.",
        of("produce an unknown compression"),
    ),
    Intended("a producer id without an epoch", "Kafka stores the batch; here it is INVALID_RECORD.", of("idempotent: no epoch")),
    Intended("records that are null", "Kafka never answers; here it is INVALID_RECORD.", of("produce null")),
    Intended(
        "Produce 0-2",
        "Kafka advertises them and closes the connection; here it is UNSUPPORTED_VERSION.",
        of("produce in version 2"),
    ),
    Intended(
        "an unknown isolation level",
        "Kafka fails with UNKNOWN_SERVER_ERROR; here all levels read alike.",
        of("fetch at an unknown isolation level"),
    ),
    Intended(
        "ListOffsets with one partition twice",
        "Kafka answers INVALID_REQUEST once; here the offset, twice.",
        of("offsets of one partition twice"),
    ),
    Intended(
        "transactions",
        "There are none yet; the code is one at which clients stop at once.",
        of("coordinator of a transaction", "producer id for a transaction", "create '__transaction_state'"),
    ),
    Intended(
        "a topic made by asking for its metadata",
        "Kafka answers UNKNOWN_TOPIC_OR_PARTITION until the topic is there; here the first answer has it.",
        of("metadata of a topic to be made"),
    ),
    Intended(
        "bytes that are no subscription",
        "Some leave a join to Kafka without an answer for ever; here the join is answered.",
        of("join with words cut short"),
    ),
    Intended(
        "a protocol that a member offers twice",
        "Kafka loses count and never answers; here it is taken once.",
        of("join with a protocol twice"),
    ),
    Intended(
        "a group that is described twice at once",
        "Kafka answers as often as it was asked; here a small request cannot ask for any amount of answer.",
        lambda seen: seen.step.name == "describe 2 groups" and len(seen.ours) == 1,
    ),
    Intended(
        "the youngest record, where records were deleted",
        "Kafka may tell of one that is deleted; here of those that can be read.",
        lambda seen: seen.step.name.startswith("offsets at -3 of what"),
    ),
    Intended("the id of a topic that was only tried", "Kafka makes one up.", at("topic_id", "-", "?")),
]


def plain(side: Side, value, name=""):
    """An answer as plain values: ids as names, records as their size, messages as whether there is one."""
    if hasattr(value, "__fields__"):
        return {each.name: plain(side, getattr(value, each.name), each.name) for each in value.__fields__ if each.name not in OWN}
    if name == "topic_id":
        return side.topic_name(value)
    if isinstance(value, tuple):
        return {str(index): plain(side, each, name) for index, each in enumerate(value)}
    if isinstance(value, bytes | memoryview):
        return f"{len(value)} bytes"
    if name.endswith("error_message"):
        return value is not None
    return UUID.sub("?", value) if isinstance(value, str) else value


def shown(side: Side, case: Case):
    """What the broker answers."""
    try:
        return plain(side, side.call(case.request(side.topic_ids[GOOD]), case.version))
    except Disconnected:
        side.close()
        return "no answer"


def prepare(side: Side) -> None:
    """The topic that the cases speak of, with two records in its first partition."""
    side.prepare()
    side.play(MakeTopic(GOOD, 3))
    side.play(MakeTopic("with_dots_and.bars", 1))
    assert shown(side, Case("", 12, produce(batch(2))))["responses"]["0"]["partition_responses"]["0"]["base_offset"] == 0


@pytest.fixture(scope="module")
def sides(kafka):
    """Our broker and the real one."""
    with EmbeddedBroker() as broker:
        both = Side("apportion", broker.bootstrap), Side("Kafka", kafka.bootstrap)
        for side in both:
            prepare(side)
            side.patience_ms = 4_000
        yield both
        for side in both:
            side.close()


def test_wrong_requests_have_a_real_kafkas_answers(sides):
    disagreements = []
    for case in CASES + CLASSIC_CASES + TRIM_CASES:
        for path, ours, theirs in differences(*(shown(side, case) for side in sides)):
            seen = Difference(case, path, ours, theirs)
            row = next((row for row in INTENDED if row.matches(seen)), None)
            if row is None:
                disagreements.append(f"{case.name}, version {case.version}: {seen.line()}")
            else:
                row.seen.append(seen)
    assert disagreements == [], "\n".join(disagreements)
    assert [row.name for row in INTENDED if not row.seen] == []


NOT_HERE = (
    "compression.gzip.level",  # nothing is compressed anew here
    "compression.lz4.level",
    "compression.zstd.level",
    "follower.replication.throttled.replicas",  # there is one broker
    "leader.replication.throttled.replicas",
    "local.retention.bytes",  # nothing is tiered
    "local.retention.ms",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
)


def test_the_settings_of_a_topic_are_a_real_kafkas(sides):
    resource = DescribeConfigsResource(resource_type=2, resource_name=GOOD, configuration_keys=None)
    ours, theirs = (
        {
            each.name: (each.value, each.config_type)
            for each in side.call(DescribeConfigsRequest(resources=(resource,)), 4).results[0].configs
        }
        for side in sides
    )
    assert ours == {name: said for name, said in theirs.items() if name not in NOT_HERE}
    assert [name for name in NOT_HERE if name not in theirs] == []


def test_every_intended_difference_is_told_to_users():
    told = re.findall(r"^\| ([^|]+) \|", DIFFERENCES.read_text(), re.MULTILINE)
    assert [row.name for row in INTENDED if row.name not in told] == []


HEADER = struct.Struct(">hhih")  # API key, version, correlation id, no client id


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(HEADER.pack(999, 0, 1, -1), id="unknown API"),
        pytest.param(HEADER.pack(3, 99, 1, -1), id="unknown version"),
        pytest.param(HEADER.pack(3, 4, 1, -1) + b"\0\0\0\5", id="body that ends too soon"),
        pytest.param(HEADER.pack(3, 4, 1, 50), id="client id that is not there"),
        pytest.param(HEADER.pack(3, 4, 1, -1) + b"\x7f\xff\xff\xff", id="impossible count"),
        pytest.param(b"\0", id="no header"),
    ],
)
def test_bytes_that_are_no_request_close_the_connection(sides, frame):
    for side in sides:
        host, _, port = side.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            assert connection.recv(1) == b"", side.name
