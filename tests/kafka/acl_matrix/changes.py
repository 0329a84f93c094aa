"""Scripts in which a user loses or gets an ACL while something goes on; what each step shows."""

from typing import Any

from apportion.client.connection import Disconnected
from apportion.security.acls import AclFilter, ResourceType
from tests.kafka.acl_matrix.group_requests import SESSION_MS, describe_consumers, join
from tests.kafka.acl_matrix.side import AclSide, Plain
from tests.kafka.acl_matrix.topic_cases import RECORD, produce
from tests.kafka.acl_matrix.values import (
    DESCRIBE,
    GROUP,
    HERE,
    OTHER,
    PREFIXED,
    READ,
    TOPIC,
    WRITE,
    Grant,
)
from tests.kafka.conftest import until
from tests.messages import request
from tests.node.acl_requests import deleted, deleting

ANNA, BEN = "u0", "u1"
OF_GROUPS = Grant(GROUP, "mine-", READ, PREFIXED)
BOTH = "(mine|other)-here"
BOTH_OTHERWISE = "mine-here|other-here"
PARKED_MS = 3_000


def give(side: AclSide, user: str, *grants: Grant) -> None:
    """The user has these, too."""
    side.add_acls([each.of(user) for each in grants])


def take(side: AclSide, user: str, kind: ResourceType, name: str | None = None) -> None:
    """The user has no ACL on that kind of resource any more, or on one of them."""
    which = AclFilter(kind, name, principal=f"User:{user}")
    assert deleted(side.call(deleting(which))) != [[]]
    side.add_acls([])


class Member:
    """A member of a group, and what it was told."""

    def __init__(self, side: AclSide, user: str, group: str, name: str) -> None:
        """It has not joined."""
        self.side, self.user, self.group, self.name = side, user, group, name
        self.epoch = 0
        self.assigned: dict[str, tuple[int, ...]] = {}
        self._ids: Any = None

    def beat(self, **fields: Any) -> int:
        """The code of a heartbeat; it owns what it was assigned last."""
        answer = self.side.call(
            request(
                "ConsumerGroupHeartbeat",
                group_id=self.group,
                member_id=self.name,
                member_epoch=self.epoch,
                **fields,
            ),
            1,
            self.user,
        )
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self._ids = answer.assignment.topic_partitions
            names = {topic_id: name for name, topic_id in self.side.ids.items()}
            self.assigned = {
                names[bytes(each.topic_id)]: tuple(each.partitions) for each in self._ids
            }
        return int(answer.error_code)

    def join(self, **fields: Any) -> int:
        """The code of the heartbeat by which it joins."""
        return self.beat(rebalance_timeout_ms=SESSION_MS, topic_partitions=(), **fields)

    def owns(self) -> int:
        """The code of a heartbeat that says what it owns."""
        return self.beat(topic_partitions=self._ids or ())


def settled(members: list[Member], topics: set[str]) -> None:
    """Beat until the members have all partitions of just these topics."""
    everything = sorted((topic, index) for topic in topics for index in (0, 1))

    def have_all() -> bool:
        for each in members:
            assert each.owns() == 0
        owned = sorted(
            (topic, index)
            for each in members
            for topic, indexes in each.assigned.items()
            for index in indexes
        )
        return owned == everything

    until(have_all)


def expressions(side: AclSide, token: str) -> Plain:
    """An expression matches what the member may describe that was the first to send it."""
    group = f"mine-expression-{token}"
    give(side, ANNA, OF_GROUPS, Grant(TOPIC, HERE, DESCRIBE))
    give(side, BEN, OF_GROUPS, Grant(TOPIC, "*", DESCRIBE))
    side.lengthen_sessions(group)
    anna, ben = Member(side, ANNA, group, "anna"), Member(side, BEN, group, "ben")
    codes = [anna.join(subscribed_topic_regex=BOTH)]
    settled([anna], {HERE})
    codes.append(ben.join(subscribed_topic_regex=BOTH))
    settled([anna, ben], {HERE})
    codes.append(ben.beat(subscribed_topic_regex=BOTH_OTHERWISE))

    def ben_has_other() -> bool:
        assert ben.owns() == 0
        return OTHER in ben.assigned

    # A group looks for matches once in ten seconds, with the eyes of who beats then.
    until(ben_has_other)
    settled([anna, ben], {HERE, OTHER})
    give(side, ANNA, Grant(GROUP, "mine-", DESCRIBE, PREFIXED))
    (described,) = side.call(describe_consumers(group)(side), 1, ANNA).groups
    codes.append(described.error_code)
    take(side, BEN, TOPIC)
    codes.append(ben.owns())
    take(side, BEN, GROUP)
    codes.append(ben.owns())
    return codes


def names(side: AclSide, token: str) -> Plain:
    """A member goes on when it may not describe its topic any more, until it names it again."""
    give(side, ANNA, OF_GROUPS, Grant(TOPIC, HERE, DESCRIBE))
    anna = Member(side, ANNA, f"mine-names-{token}", "anna")
    codes = [anna.join(subscribed_topic_names=(HERE,))]
    settled([anna], {HERE})
    take(side, ANNA, TOPIC)
    codes += [anna.owns(), anna.beat(subscribed_topic_names=(HERE,)), anna.owns()]
    take(side, ANNA, GROUP)
    codes.append(anna.owns())
    return codes


def fetch(side: AclSide, user: str, topics: tuple[str, ...]) -> Plain:
    """For each topic its code, and whether records came."""
    return fetched(side, side.call(asks(side, topics), 13, user))


def asks(side: AclSide, topics: tuple[str, ...], wait_ms: int = 0) -> Any:
    """A Fetch of one partition of each topic."""
    wanted = [{"topic_id": side.topic_id(name), "partitions": [FROM_START]} for name in topics]
    return request("Fetch", max_wait_ms=wait_ms, min_bytes=1, topics=wanted)


def fetched(side: AclSide, answer: Any) -> Plain:
    """What `fetch` shows of an answer."""
    known = {topic_id: name for name, topic_id in side.ids.items()}
    return {
        known[bytes(topic.topic_id)]: [
            (each.error_code, len(each.records or b"") > 0) for each in topic.partitions
        ]
        for topic in answer.responses
    }


FROM_START = {"partition": 1, "fetch_offset": 0, "partition_max_bytes": 1_000_000}


def fetches(side: AclSide, token: str) -> Plain:
    """Each fetch looks at the ACLs as they are then."""
    both = (HERE, OTHER)
    give(side, ANNA, Grant(TOPIC, HERE, READ), Grant(TOPIC, OTHER, READ))
    shown = [fetch(side, ANNA, both)]
    take(side, ANNA, TOPIC, OTHER)
    shown += [fetch(side, user, both) for user in (ANNA, BEN)]
    give(side, ANNA, Grant(TOPIC, OTHER, READ))
    shown.append(fetch(side, ANNA, both))
    return shown


def parked(side: AclSide, token: str) -> Plain:
    """A fetch and a join that wait are answered as if their ACL still were there."""
    give(side, ANNA, OF_GROUPS, Grant(TOPIC, HERE, READ))
    group = f"mine-parked-{token}"
    waits: dict[str, Any] = {"rebalance_timeout_ms": PARKED_MS}
    leader = side.call(join(group, "", group_instance_id="a", **waits)(side), 5)
    first = fetch(side, ANNA, (HERE,))  # connects, and shows that there is nothing
    waiting = side.post(asks(side, (HERE,), PARKED_MS), 13, ANNA)
    take(side, ANNA, TOPIC)
    data = [{"name": HERE, "partition_data": [{"index": 1, "records": RECORD}]}]
    side.call(request("Produce", acks=-1, timeout_ms=PARKED_MS, topic_data=data), 12)
    second = fetched(side, waiting())
    joining = side.post(join(group, "", group_instance_id="b", **waits)(side), 5, ANNA)
    until(lambda: side.state(group) == "PreparingRebalance")
    take(side, ANNA, GROUP)
    side.call(join(group, leader.member_id, group_instance_id="a", **waits)(side), 5)
    joined = joining()
    return first, second, (joined.error_code, joined.generation_id)


def unacknowledged(side: AclSide) -> Plain:
    """A producer that wants no acknowledgement is told of a refusal by a closed connection."""
    give(side, ANNA, Grant(TOPIC, HERE, WRITE))
    shown = []
    for name in (HERE, OTHER):
        side.call(request("ApiVersions"), 0, ANNA)
        side.post(produce(0, name)(side), 12, ANNA)
        try:
            side.call(request("ApiVersions"), 0, ANNA)
        except Disconnected:
            shown.append("closed")
        else:
            shown.append("goes on")
    return shown


SCRIPTS = {
    "expressions": expressions,
    "names": names,
    "fetches": fetches,
    "parked": parked,
}
