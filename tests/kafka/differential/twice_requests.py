"""Every API that has a list, as a request with something in each list; `wrong_twice.py` repeats a
part of it.

The requests stand in doubled.txt: `= name: versions`, the request, and what is asked before and
after it in which version, as a request or by the name of one. In a request TWICE is the id of the
topic `twice`, which has two batches of two records in its first partition, and GROUP a group that
no other case has.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kafka.differential.wrong import STRANGE_ID, WAIT_MS, ZERO_ID, batch
from tests.message_texts import request_of as from_text
from tests.messages import request

Make = Callable[[bytes, str], Any]
"""A request of the topic's id and the group."""
Said = tuple[int, Make]
TWICE = "twice"


@dataclass(frozen=True)
class Whole:
    """One request in some versions, and (version, request) of what is asked before and after it."""

    name: str
    versions: tuple[int, ...]
    request: Make
    before: tuple[Said, ...] = ()
    after: tuple[Said, ...] = ()


OTHERWISE: dict[str, dict[str, Any]] = {
    "PartitionProduceData": {"records": batch(3)},
    "FetchPartition": {"fetch_offset": 2},
    "ListOffsetsPartition": {"timestamp": -2},
    "OffsetForLeaderPartition": {"leader_epoch": 9},
    "OffsetCommitRequestPartition": {
        "committed_offset": 77,
        "committed_metadata": "x" * 5000,
        "partition_index": 99,
    },
    "OffsetFetchRequestGroup": {"topics": None},
    "JoinGroupRequestProtocol": {"metadata": b"\0\1\0\0\0\0\xff\xff\xff\xff"},
    "MemberIdentity": {"group_instance_id": None, "member_id": "ghost"},
    "SyncGroupRequestAssignment": {"assignment": b"other"},
    "CreatableTopic": {"num_partitions": 2},
    "CreatableTopicConfig": {"value": "delete,compact"},
    "CreatableReplicaAssignment": {"broker_ids": (9,)},
    "DeleteRecordsPartition": {"offset": 1},
    "CreatePartitionsTopic": {"count": 9},
    "DescribeConfigsResource": {"configuration_keys": ("segment.bytes",)},
}
"""What the second mention may say that the first does not."""


def made(text: str) -> Make:
    """What makes the request of this text, or the one of that name."""

    def make(twice: bytes, group: str) -> Any:
        if text in TEXTS:
            return TEXTS[text](twice, group)
        ids = {"TWICE": twice, "NOWHERE": STRANGE_ID, "ZERO": ZERO_ID}
        return from_text(text.replace("GROUP", group), ids)

    return make


def read() -> Iterator[Whole]:
    """The requests of doubled.txt."""
    for part in Path(__file__).with_name("doubled.txt").read_text().split("= ")[1:]:
        (title, *lines), around = part.splitlines(), dict[str, list[Said]](before=[], after=[])
        for line in [line for line in lines if line.startswith(("before ", "after "))]:
            lines.remove(line)
            when, _, text = line.partition(": ")
            word, version = when.split()
            around[word].append((int(version), made(text)))
        name, _, versions = title.partition(": ")
        (text,) = lines
        TEXTS[name] = made(text)
        before, after = map(tuple, around.values())
        yield Whole(name, tuple(map(int, versions.split())), TEXTS[name], before, after)


TEXTS: dict[str, Make] = {}
"""What makes the request of each name."""


def produce(twice: bytes, group: str) -> Any:
    """Two batches."""
    parts = [{"index": index, "records": batch(index + 1)} for index in (0, 1)]
    data = [{"name": TWICE, "topic_id": twice, "partition_data": parts}]
    return request("Produce", acks=-1, timeout_ms=WAIT_MS, topic_data=data)


# It is the last: the logs are not alike after it.
REQUESTS = (*read(), Whole("produce", (9, 12, 13), produce, after=((10, made("offsets")),)))
"""Every API that has a list, and what about it may depend on the version."""
