"""What members and their coordinator said to each other, with the time: a proxy between clients and
a broker.

It keeps requests about groups whole, of heartbeats and of what was produced only what went wrong,
and nothing else. What they mean is for others: see `replays.py`.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apportion.errors import Code
from apportion.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from apportion.wire.messages.offset_fetch import OffsetFetchResponse
from apportion.wire.messages.produce import ProduceResponse
from apportion.wire.table import APIS, decode_request, decode_response
from tests.kafka.golden.proxy import Asked, RecordingProxy


@dataclass(frozen=True)
class Call:
    """One request and its answer (None: the connection ended before it came) in plain words; times
    are s of the wall clock.

    A partition is (topic, number). codes: the names of the errors, NONE among them.
    """

    client: str
    api: str
    asked: dict[str, Any]
    answer: dict[str, Any] | None
    asked_s: float
    answered_s: float

    def __str__(self) -> str:
        waited = (
            "never answered"
            if self.answer is None
            else f"after {self.answered_s - self.asked_s:.3f} s {self.answer}"
        )
        # member ids begin with it
        return f"{self.client} {self.api} {self.asked}: {waited}".replace(f"{self.client}-", "")

    @property
    def refusals(self) -> set[str]:
        """Return the errors of the answer."""
        return self.codes - {"NONE"}

    @property
    def codes(self) -> set[str]:
        """Return the errors of the answer, with NONE; empty without an answer."""
        return set() if self.answer is None else self.answer["codes"]

    @property
    def is_steady(self) -> bool:
        """Return whether it is only one of many that went well."""
        return self.api in ("Produce", "Heartbeat", "FindCoordinator") and self.codes == {"NONE"}


class Wire(RecordingProxy):
    """A proxy on `port`; `said` is what passed of groups, in order of the answers, and `meet` is
    shown each before it is passed on.

    `upstream_port` is where the broker listens, and may be set later.
    """

    def __init__(self, port: int) -> None:
        super().__init__(0, port)
        self.calls: list[Call] = []
        self.meet: Callable[[Call], None] = lambda call: None
        self._names: dict[bytes, str] = {}  # id of a topic -> its name
        self._lock = threading.Lock()

    def answered(self, asked: Asked, response: bytes) -> None:
        """Keep it if it is about groups."""
        self._keep(asked, response)

    def unanswered(self, asked: Asked) -> None:
        """Keep it without an answer."""
        self._keep(asked, None)

    def _keep(self, asked: Asked, response: bytes | None) -> None:
        api = APIS.get(int.from_bytes(asked.frame[:2], "big"))
        if api is None or api.name not in ASKED | {"Metadata": None}:
            return
        decoded = decode_request(asked.frame)
        answer = (
            None if response is None else decode_response(api.request, decoded.version, response)[1]
        )
        with self._lock:
            if api.name == "Metadata":
                self._names |= {
                    topic.topic_id: topic.name for topic in (answer.topics if answer else ())
                }
                return
            request = ASKED[api.name](decoded.body, self._name)
            known = None if answer is None else ANSWER[api.name](answer, self._name)
            kept = Call(decoded.client_id, api.name, request, known, asked.at_s, time.time())
            if not kept.is_steady:
                self.calls.append(kept)
        self.meet(kept)

    def _name(self, topic: Any) -> Any:
        return topic.name or self._names.get(topic.topic_id, topic.topic_id.hex())


def name_of(code: int) -> str:
    """Return the name of an error."""
    return Code(code).name


def asked_commit(body: OffsetCommitRequest, name: Callable[[Any], str]) -> dict[str, Any]:
    """Return who commits what."""
    offsets = {
        (name(topic), each.partition_index): each.committed_offset
        for topic in body.topics
        for each in topic.partitions
    }
    return {
        "group": body.group_id,
        "member": body.member_id,
        "generation": body.generation_id_or_member_epoch,
        "offsets": offsets,
    }


def answered_commit(body: OffsetCommitResponse, name: Callable[[Any], str]) -> dict[str, Any]:
    """Return what became of each offset."""
    by_place = {
        (name(topic), each.partition_index): name_of(each.error_code)
        for topic in body.topics
        for each in topic.partitions
    }
    return {"codes": set(by_place.values()), "by_place": by_place}


def answered_fetch(body: OffsetFetchResponse, name: Callable[[Any], str]) -> dict[str, Any]:
    """Return the offsets that the groups have committed; -1 where none."""
    topics: list[Any] = [*body.topics, *(topic for group in body.groups for topic in group.topics)]
    partitions = [(name_in(name, topic), each) for topic in topics for each in topic.partitions]
    errors = {
        body.error_code,
        *(group.error_code for group in body.groups),
        *(each.error_code for _, each in partitions),
    }
    offsets = {(topic, each.partition_index): each.committed_offset for topic, each in partitions}
    return {"codes": {name_of(each) for each in errors}, "offsets": offsets}


def name_in(name: Callable[[Any], str], topic: Any) -> str:
    """Return the topic's name; topics of version 7 and before have no id."""
    return name(topic) if hasattr(topic, "topic_id") else topic.name


def one_code(**facts: str) -> Callable[[Any, Any], dict[str, Any]]:
    """Return a function that tells an answer with one error, and these of its fields under names of
    their own.
    """
    return lambda body, name: {
        "codes": {name_of(body.error_code)},
        **{fact: getattr(body, each) for fact, each in facts.items()},
    }


def of_member(**facts: str) -> Callable[[Any, Any], dict[str, Any]]:
    """Return a function that tells a request of a member, and these of its fields under names of
    their own.
    """
    return lambda body, name: {
        "member": body.member_id,
        **{fact: getattr(body, each) for fact, each in facts.items()},
    }


def answered_produce(body: ProduceResponse, name: Callable[[Any], str]) -> dict[str, Any]:
    """Return what was not stored, and why."""
    parts = [(name(topic), each) for topic in body.responses for each in topic.partition_responses]
    wrong = {
        (topic, each.index): name_of(each.error_code) for topic, each in parts if each.error_code
    }
    return {"codes": {name_of(each.error_code) for _, each in parts}, "by_place": wrong}


InWords = Callable[[Any, Callable[[Any], str]], dict[str, Any]]
"""Tells a body in plain words; its second argument names the topic of a part."""
ASKED: dict[str, InWords] = {
    "OffsetCommit": asked_commit,
    "OffsetFetch": lambda body, name: {
        "groups": [each.group_id for each in body.groups] or [body.group_id]
    },
    "JoinGroup": of_member(reason="reason"),
    "SyncGroup": of_member(generation="generation_id"),
    "Heartbeat": of_member(generation="generation_id"),
    "LeaveGroup": lambda body, name: {"members": [each.member_id for each in body.members]},
    "FindCoordinator": lambda body, name: {"keys": list(body.coordinator_keys)},
    "Produce": lambda body, name: {"topics": sorted(name(topic) for topic in body.topic_data)},
    "InitProducerId": lambda body, name: {"producer_id": body.producer_id},
}
ANSWER: dict[str, InWords] = {
    "OffsetCommit": answered_commit,
    "OffsetFetch": answered_fetch,
    "JoinGroup": one_code(generation="generation_id", member="member_id", leader="leader"),
    "SyncGroup": one_code(),
    "Heartbeat": one_code(),
    "LeaveGroup": one_code(),
    "FindCoordinator": lambda body, name: {
        "codes": {name_of(each.error_code) for each in body.coordinators}
    },
    "Produce": answered_produce,
    "InitProducerId": one_code(producer_id="producer_id", epoch="producer_epoch"),
}
