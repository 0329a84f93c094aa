"""Requests of callers who may do a part of what they ask for, which fail or lose their connection;
expressions, and what is remembered of decisions. `authorized.txt` has the rest.
"""

from typing import TYPE_CHECKING, Any

import pytest

from apportion.errors import Code
from apportion.machine import Caller, ComputeFailed, Gone, Ticket
from apportion.node.authorization.denials import Denials
from apportion.node.authorization.rights import (
    LONGEST_NAME,
    MOST_CALLERS,
    MOST_DECISIONS,
    RightsOfCallers,
)
from apportion.node.handlers.fetch import FetchResult
from apportion.security.acls import AclOperation
from apportion.security.authorizer import Acls, Authorizer
from tests.messages import request
from tests.node.guarded import BOB, GROUP, TOPIC, as_bob, ask_as_bob, guarded, let, may
from tests.node.guarded_requests import joined

if TYPE_CHECKING:
    from tests.node.conftest import Kit, NodeDriver

READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE


def patient(*names: str) -> Any:
    """A Fetch that waits for records of these topics."""
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    topics = [{"topic": name, "partitions": partitions} for name in names]
    return request("Fetch", max_wait_ms=1_000, min_bytes=1, topics=topics)


def fetched(answer: Any) -> list[tuple[str, int, bool]]:
    """The topics of an answer: name, code, and whether there are records."""
    return [
        (topic.topic, each.error_code, bool(each.records))
        for topic in answer.responses
        for each in topic.partitions
    ]


def two_topics(kit: "type[Kit]", *acls: Any) -> "NodeDriver":
    driver = guarded(kit, *acls)
    for name in ("mine", "other"):
        driver.create(name)
    driver.call(request("OffsetFetch", groups=()))  # by which groups have a coordinator
    return driver


def test_a_lost_connection_leaves_nothing_of_a_request_behind(kit: "type[Kit]") -> None:
    driver = two_topics(kit, may(READ, TOPIC, "mine"))
    ticket = ask_as_bob(driver, patient("mine", "other"), 12)
    driver.step(Gone((Ticket(ticket),)))
    driver.call(kit.produce("mine", kit.batch(b"v")), 9)
    driver.sleep(2_000)
    assert ticket not in driver.answers
    assert len(driver.node._broker.delayed_fetches) == 0


def test_a_failed_step_fails_what_was_allowed_and_nothing_else(
    kit: "type[Kit]", monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = two_topics(kit, may(READ, TOPIC, "mine"))
    ticket = ask_as_bob(driver, patient("mine", "other"), 6)

    def broken(*_: Any) -> None:
        raise RuntimeError("planted")

    driver.ask(kit.produce("mine", kit.batch(b"v")), 9)
    with monkeypatch.context() as patch:
        patch.setattr(FetchResult, "__init__", broken)
        with pytest.raises(RuntimeError, match="planted") as raised:
            driver.flush_once()
    driver._take(driver.node.give_up(None, raised.value, driver.now))
    assert fetched(driver.answers[ticket]) == [
        ("mine", Code.UNKNOWN_SERVER_ERROR, False),
        ("other", Code.TOPIC_AUTHORIZATION_FAILED, False),
    ]
    assert len(driver.node._broker.delayed_fetches) == 0


def matched(driver: "NodeDriver", answer: Any) -> list[str]:
    """The topics that a member is assigned."""
    topics = [driver.node.topics.with_id(part.topic_id) for part in answer.topic_partitions]
    return sorted(topic.name for topic in topics if topic is not None)


def by_expression(driver: "NodeDriver", epoch: int, **facts: Any) -> Any:
    """Bob's heartbeat with an expression of everything, or as steady as can be."""
    fields = facts or {"subscribed_topic_regex": ".*"}
    if epoch:
        fields |= {"topic_partitions": None, "rebalance_timeout_ms": -1}
    return as_bob(driver, joined(member_epoch=epoch, **{"subscribed_topic_names": None} | fields))


def test_an_expression_matches_what_its_member_may_know_of(kit: "type[Kit]") -> None:
    driver = two_topics(kit, may(READ, GROUP, "g"), may(DESCRIBE, TOPIC, "mine"))
    assert by_expression(driver, 0).error_code == 0
    driver.end_computations()
    driver.flush()
    assert matched(driver, by_expression(driver, 1, subscribed_topic_regex=".*").assignment) == [
        "mine"
    ]


def test_an_expression_is_resolved_by_the_acls_of_its_refresh(kit: "type[Kit]") -> None:
    enough = (may(READ, GROUP, "g"), may(DESCRIBE, TOPIC, "mine"))
    driver = two_topics(kit, *enough)
    by_expression(driver, 0)
    driver.end_computations()
    driver.flush()
    epoch = by_expression(driver, 1).member_epoch
    let(driver, *enough, may(DESCRIBE, TOPIC, "other"))
    interval_ms = driver.node.settings.group.group_consumer_regex_refresh_interval_ms
    # The session must not end meanwhile.
    for _ in range(interval_ms // 20_000 + 1):
        driver.sleep(20_000)
        beat = by_expression(driver, epoch)
        epoch = beat.member_epoch
        driver.end_computations()
        driver.flush()
    answer = by_expression(driver, epoch)
    again = by_expression(driver, answer.member_epoch)
    assert driver.computations == []
    (group,) = [
        shard.ledger.consumer_group("g")
        for _, shard in driver.node.shards()
        if shard.ledger.consumer_group_or_none("g") is not None
    ]
    assert (again.error_code, group.saved.resolutions) == (0, {".*": ("mine", "other")})


def test_a_resolution_that_fails_keeps_nothing_of_its_caller(kit: "type[Kit]") -> None:
    driver = two_topics(kit, may(READ, GROUP, "g"))
    by_expression(driver, 0)
    (computation,) = driver.computations
    driver.computations.clear()
    driver.step(ComputeFailed(computation, "planted"))
    driver.flush()
    let(driver, may(READ, GROUP, "g"), may(DESCRIBE, TOPIC, "mine"))
    driver.sleep(11_000)
    by_expression(driver, 1)
    (again,) = driver.computations
    assert again.run() == {".*": ("mine",)}


def test_the_memory_of_decisions_is_bounded() -> None:
    rights = RightsOfCallers(Authorizer(Acls([may(READ, TOPIC, "t5")])), Denials())
    bob = rights.of(Caller("", "/h", BOB))
    for number in range(MOST_DECISIONS + 10):
        assert bob.allows(READ, TOPIC, f"t{number}") is (number == 5)
    assert len(rights._decisions) <= MOST_DECISIONS
    assert bob.allows(READ, TOPIC, "x" * (LONGEST_NAME + 1)) is False
    assert all(len(key[3]) <= LONGEST_NAME for key in rights._decisions)
    for number in range(MOST_CALLERS + 10):
        rights.of(Caller("", f"/h{number}", BOB))
    assert len(rights._by_caller) <= MOST_CALLERS
