"""ACLs: how they are created, described and deleted, and from when on they decide."""

from typing import TYPE_CHECKING, Any

import pytest

from apportion.errors import Code
from apportion.node.handlers.acls import MAX_CHANGES
from apportion.security.acls import (
    CLUSTER_NAME,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from tests.node.acl_requests import (
    AUTHORIZED,
    acl,
    codes,
    creating,
    creation,
    deleted,
    deleting,
    described,
    describing,
)
from tests.node.fault_histories import begun

if TYPE_CHECKING:
    from tests.node.conftest import Kit, NodeDriver

READ, WRITE = AclOperation.READ, AclOperation.WRITE
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
PREFIXED = PatternType.PREFIXED


@pytest.fixture
def driver(kit: "type[Kit]") -> "NodeDriver":
    """A broker that decides by ACLs."""
    return kit.NodeDriver(**AUTHORIZED)


def may(
    driver: Any, operation: AclOperation = READ, name: str = "flights", who: str = "User:alice"
) -> bool:
    """Whether the broker would let a client do something to a topic."""
    result: bool = driver.node._broker.authorizer.allows(who, "127.0.0.1", operation, TOPIC, name)
    return result


def test_acls_are_described_by_resource(driver: "NodeDriver") -> None:
    acls = [
        acl("b"),
        acl("a"),
        acl("a", operation=WRITE),
        acl("a", pattern_type=PREFIXED, principal="User:*", host="10.0.0.1"),
        acl("a", resource_type=GROUP, permission=AclPermission.DENY),
        acl(CLUSTER_NAME, resource_type=ResourceType.CLUSTER, operation=AclOperation.ALTER),
    ]
    assert codes(driver.call(creating(*acls))) == [0] * 6
    answer = driver.call(describing())
    assert described(answer) == sorted(acls)
    assert [
        (resource.resource_type, resource.resource_name, resource.pattern_type, len(resource.acls))
        for resource in answer.resources
    ] == [(2, "a", 3, 2), (2, "a", 4, 1), (2, "b", 3, 1), (3, "a", 3, 1), (4, CLUSTER_NAME, 3, 1)]
    wanted = AclFilter(name="ab", pattern_type=PatternType.MATCH)
    assert described(driver.call(describing(wanted))) == [acls[3]]


def test_an_acl_that_is_there_is_created_again_without_a_trace(driver: "NodeDriver") -> None:
    driver.call(creating(acl()))
    before = driver.disk.size("catalog.log")
    assert codes(driver.call(creating(acl(), acl()))) == [0, 0]
    assert driver.disk.size("catalog.log") == before
    assert described(driver.call(describing())) == [acl()]


def test_acls_that_match_are_deleted_and_told_for_each_filter(driver: "NodeDriver") -> None:
    driver.call(creating(acl("a"), acl("b"), acl("c"), acl("a", operation=WRITE)))
    response = driver.call(
        deleting(AclFilter(name="a"), AclFilter(operation=READ), AclFilter(name="none"))
    )
    assert deleted(response) == [
        [acl("a"), acl("a", operation=WRITE)],
        [acl("a"), acl("b"), acl("c")],
        [],
    ]
    assert described(driver.call(describing())) == []


def test_acls_need_an_authorizer(kit: "type[Kit]") -> None:
    driver = kit.NodeDriver()
    refused = Code.SECURITY_DISABLED
    answer = driver.call(describing())
    assert (answer.error_code, answer.resources) == (refused, ())
    assert answer.error_message == "there are no ACLs here: authorizer.class.name is not set"
    assert codes(driver.call(creating(acl(), acl("")))) == [refused, refused]
    assert codes(driver.call(deleting(AclFilter(), AclFilter()))) == [refused, refused]


CLUSTER_ONLY = f"the one resource of type CLUSTER is {CLUSTER_NAME}"


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ({"resource_type": 0}, "no ACL has the resource type UNKNOWN"),
        ({"resource_type": 1}, "no ACL has the resource type ANY"),
        ({"resource_type": 99}, "99 is no resource type"),
        ({"resource_type": 4}, CLUSTER_ONLY),
        ({"resource_type": 4, "resource_name": ""}, CLUSTER_ONLY),
        ({"resource_name": ""}, "the name of the resource is empty; '*' is every name"),
        ({"resource_pattern_type": 0}, "no ACL has the pattern type UNKNOWN"),
        ({"resource_pattern_type": 1}, "no ACL has the pattern type ANY"),
        ({"resource_pattern_type": 2}, "no ACL has the pattern type MATCH"),
        ({"resource_pattern_type": 5}, "5 is no pattern type"),
        ({"operation": 0}, "no ACL has the operation UNKNOWN"),
        ({"operation": 1}, "no ACL has the operation ANY"),
        ({"operation": 16}, "16 is no operation"),
        ({"permission_type": 0}, "no ACL has the permission UNKNOWN"),
        ({"permission_type": 1}, "no ACL has the permission ANY"),
        ({"permission_type": -1}, "-1 is no permission"),
        (
            {"principal": "alice"},
            "'alice' is no principal: write its type before it, as in User:alice",
        ),
        ({"principal": ""}, "'' is no principal: write its type before it, as in User:alice"),
    ],
)
def test_an_acl_that_cannot_be_is_refused_alone(
    driver: "NodeDriver", numbers: dict[str, Any], why: str
) -> None:
    response = driver.call(creating(acl("a"), creation(acl(), **numbers), acl("b")))
    refused = (Code.INVALID_REQUEST, why)
    assert [(result.error_code, result.error_message) for result in response.results] == [
        (0, None),
        refused,
        (0, None),
    ]
    assert described(driver.call(describing())) == [acl("a"), acl("b")]


@pytest.mark.parametrize(
    "numbers",
    [
        {"resource_type_filter": 0},
        {"pattern_type_filter": 0},
        {"operation": 0},
        {"permission_type": 0},
    ],
)
def test_a_filter_for_unknown_is_refused(driver: "NodeDriver", numbers: dict[str, Any]) -> None:
    why = "a filter asks for UNKNOWN; ANY matches all"
    answer = driver.call(describing(**numbers))
    assert (answer.error_code, answer.error_message) == (Code.INVALID_REQUEST, why)
    (result,) = driver.call(deleting(AclFilter(), **numbers)).filter_results
    assert (result.error_code, result.error_message) == (Code.INVALID_REQUEST, why)


@pytest.mark.parametrize(
    "numbers",
    [
        {"resource_type_filter": 8},
        {"pattern_type_filter": 5},
        {"operation": 16},
        {"permission_type": 4},
    ],
)
def test_a_number_without_a_meaning_matches_nothing_and_deletes_nothing(
    driver: "NodeDriver", numbers: dict[str, Any]
) -> None:
    driver.call(creating(acl()))
    assert described(driver.call(describing(**numbers))) == []
    assert codes(driver.call(deleting(AclFilter(), **numbers))) == [Code.INVALID_REQUEST]
    assert described(driver.call(describing())) == [acl()]


def test_a_request_changes_only_so_many_acls(driver: "NodeDriver") -> None:
    many = [acl(f"topic-{number}") for number in range(MAX_CHANGES + 1)]
    response = driver.call(creating(*many, acl("")))
    assert codes(response) == [Code.POLICY_VIOLATION] * len(many) + [Code.INVALID_REQUEST]
    assert described(driver.call(describing())) == []
    assert set(codes(driver.call(creating(*many[1:])))) == {0}
    driver.call(creating(*many))
    assert codes(driver.call(deleting(AclFilter(), AclFilter(name="none")))) == [
        Code.INVALID_REQUEST,
        Code.INVALID_REQUEST,
    ]
    assert len(described(driver.call(describing()))) == len(many)


def test_an_acl_decides_once_it_is_on_the_disk(driver: "NodeDriver") -> None:
    tickets = [driver.ask(creating(acl())), driver.ask(describing())]
    assert (may(driver), [ticket in driver.answers for ticket in tickets]) == (False, [False] * 2)
    driver.flush()
    assert (may(driver), described(driver.answers[tickets[1]])) == (True, [acl()])
    ticket = driver.ask(deleting(AclFilter()))
    assert (may(driver), ticket in driver.answers) == (True, False)
    driver.flush()
    assert (may(driver), ticket in driver.answers) == (False, True)


def test_an_acl_that_comes_during_a_flush_waits_for_the_next(driver: "NodeDriver") -> None:
    driver.ask(creating(acl()))
    driver.ask(creating(acl(operation=WRITE)))
    driver.flush_once()
    assert [may(driver, each) for each in (READ, WRITE)] == [True, False]
    driver.flush_once()
    assert [may(driver, each) for each in (READ, WRITE)] == [True, True]


def test_a_flush_that_fails_leaves_the_acls_as_they_were(driver: "NodeDriver") -> None:
    driver.call(creating(acl()))
    tickets = [
        driver.ask(creating(acl(operation=WRITE))),
        driver.ask(deleting(AclFilter(operation=READ))),
        driver.ask(describing()),
    ]
    driver.fail_flush()
    created, gone, shown = (driver.answers[ticket] for ticket in tickets)
    failed = Code.KAFKA_STORAGE_ERROR
    assert (codes(created), codes(gone), shown.error_code) == ([failed], [failed], failed)
    assert gone.filter_results[0].matching_acls == shown.resources == ()
    assert [may(driver, each) for each in (READ, WRITE)] == [True, False]
    assert described(driver.call(describing())) == [acl()]
    driver.flush()
    assert described(driver.crash().call(describing())) == [acl()]


def test_a_step_that_breaks_off_leaves_the_acls_as_they_were(kit: "type[Kit]") -> None:
    history = begun(**AUTHORIZED)
    history.call(creating(acl()))
    history.disk.free_bytes = 0
    assert codes(history.call(deleting(AclFilter()))) == [Code.KAFKA_STORAGE_ERROR]
    history.disk.free_bytes = None
    assert described(history.call(describing())) == [acl()]
    assert may(history)


def test_acls_outlive_the_broker(driver: "NodeDriver", kit: "type[Kit]") -> None:
    driver.call(creating(acl("a"), acl("b")))
    driver.call(deleting(AclFilter(name="a")))
    second = driver.crash()
    assert [may(second, name=name) for name in "ab"] == [False, True]
    assert described(second.call(describing())) == [acl("b")]


def test_super_users_may_do_everything(kit: "type[Kit]") -> None:
    driver = kit.NodeDriver(**AUTHORIZED | {"super.users": " User:alice; User:CN=bob,O=x ;"})
    asked = ("User:alice", "User:CN=bob,O=x", "User:bob", "User:ANONYMOUS")
    assert [may(driver, who=who) for who in asked] == [True, True, False, False]


def test_everybody_may_use_what_no_acl_is_about_if_so_configured(kit: "type[Kit]") -> None:
    driver = kit.NodeDriver(**AUTHORIZED | {"allow.everyone.if.no.acl.found": "true"})
    driver.call(creating(acl(principal="User:bob")))
    assert [may(driver, name=name) for name in ("other", "flights")] == [True, False]
