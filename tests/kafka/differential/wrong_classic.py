"""Requests of classic groups that are odd by themselves: one member, or none, says what no client
would say.
"""

from collections.abc import Iterator
from typing import Any

from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from apportion.wire.records.consumer_serde import encode
from tests.kafka.differential.wrong import Case, asking

LONG = "l" * 300
SESSION_MS = 10_000


def spoken(*names: str, metadata: bytes = b"") -> list[dict[str, Any]]:
    """Protocols with the same words in each."""
    return [{"name": name, "metadata": metadata} for name in names]


def join(**said: Any) -> Any:
    """A join of one member to a group of its own."""
    facts: dict[str, Any] = {
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": SESSION_MS,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": spoken("range"),
    }
    return asking("JoinGroup", **facts | said)


def joins() -> Iterator[Case]:
    """JoinGroup; each to a group of its own, whose only member joins at once where it is let in."""
    claims = ConsumerProtocolSubscription(
        topics=("good", "good"),
        owned_partitions=(ConsumerProtocolTopicPartition(topic="good", partitions=(0, 0, 99, -1)),),
        generation_id=2**31 - 1,
    )
    for name, version, body in (
        ("with an empty protocol name", 3, {"protocols": spoken("")}),
        ("with a blank protocol name", 3, {"protocols": spoken(" ")}),
        ("with a protocol twice", 3, {"protocols": spoken("range", "range")}),
        ("with a long protocol name", 3, {"protocols": spoken(LONG)}),
        ("with a hundred protocols", 3, {"protocols": spoken(*map(str, range(100)))}),
        ("with an unknown protocol type", 3, {"protocol_type": "carrier pigeon"}),
        ("with a blank protocol type", 3, {"protocol_type": " "}),
        ("with a long protocol type", 9, {"protocol_type": LONG, "group_instance_id": "one"}),
        ("with no protocol and no type", 3, {"protocol_type": "", "protocols": ()}),
        ("with an empty instance", 5, {"group_instance_id": ""}),
        ("with a blank instance", 5, {"group_instance_id": " "}),
        ("with a long instance", 5, {"group_instance_id": LONG}),
        ("with an odd instance", 9, {"group_instance_id": "../\u00e9\u4e16"}),
        ("with an instance and an id", 9, {"group_instance_id": "one", "member_id": "me"}),
        ("with an id of its own", 9, {"member_id": "me"}),
        ("with a blank id", 9, {"member_id": " "}),
        ("with a long id", 9, {"member_id": LONG}),
        ("with no rebalance timeout", 3, {"rebalance_timeout_ms": -1}),
        ("with a rebalance timeout of nothing", 3, {"rebalance_timeout_ms": 0}),
        ("with a negative rebalance timeout", 3, {"rebalance_timeout_ms": -7}),
        ("with a negative session timeout", 3, {"session_timeout_ms": -1}),
        ("with the longest session timeout", 3, {"session_timeout_ms": 1_800_000}),
        ("with a longer session timeout", 3, {"session_timeout_ms": 1_800_001}),
        ("with a long reason", 9, {"reason": LONG, "group_instance_id": "one"}),
        (
            "with a version of words from the future",
            3,
            {
                "protocols": spoken(
                    "range", metadata=encode(claims, 3).replace(b"\0\3", b"\0\x63", 1)
                )
            },
        ),
        (
            "with a negative version of words",
            3,
            {"protocols": spoken("range", metadata=b"\xff\xff\0\0")},
        ),
        (
            "with claims that cannot be",
            3,
            {"protocols": spoken("range", metadata=encode(claims, 3))},
        ),
        ("with words cut short", 3, {"protocols": spoken("range", metadata=encode(claims, 3)[:9])}),
    ):
        yield Case(f"join {name}", version, join(group_id=f"join {name}", **body))
    yield Case("join no group", 9, join(group_id=""))
    yield Case("join a blank group", 3, join(group_id=" "))
    yield Case("join a group with a long name", 3, join(group_id=LONG))
    yield Case("join a group with an odd name", 3, join(group_id="../\u00e9\u4e16"))


def others() -> Iterator[Case]:
    """SyncGroup, Heartbeat, LeaveGroup and DescribeGroups, of members that are nowhere."""
    for group in ("", " ", LONG, "nobody's", "join with a protocol twice"):
        shown = group[:30]
        for version in (0, 3, 5):
            kind = {"protocol_type": "consumer", "protocol_name": "range"} if version == 5 else {}
            given = [{"member_id": "me", "assignment": b"x"}] * 2
            body = {"group_id": group, "generation_id": 1, "member_id": "me"} | kind
            asked = asking("SyncGroup", **body, assignments=given)
            yield Case(f"sync in {shown!r}", version, asked)
        for version, member_id, generation in (
            (0, "", -1),
            (3, "me", 2**31 - 1),
            (4, LONG, -(2**31)),
            (4, "", 1),
        ):
            body = {"group_id": group, "generation_id": generation, "member_id": member_id}
            yield Case(f"beat in {shown!r}", version, asking("Heartbeat", **body))
        asked = asking("LeaveGroup", group_id=group, member_id="")
        yield Case(f"leave {shown!r}", 2, asked)
        for named in (
            (),
            (("", None),),
            (("", ""),),
            (("me", "me"), ("me", "me"), ("", "me")),
            ((LONG, LONG),),
        ):
            members = [{"member_id": each, "group_instance_id": one} for each, one in named]
            asked = asking("LeaveGroup", group_id=group, members=members)
            yield Case(f"leave {shown!r}, {len(members)}", 5, asked)
    for version in (0, 4, 5, 6):
        for groups in (
            *((), ("",), (" ",), (LONG,), ("nobody's", "nobody's")),
            ("join with an empty protocol name",),
        ):
            operations = {"include_authorized_operations": version >= 3}
            asked = asking("DescribeGroups", groups=groups, **operations)
            yield Case(f"describe {len(groups)} groups", version, asked)


CLASSIC_CASES = [*joins(), *others()]
