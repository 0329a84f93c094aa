"""ACLs are created, described and deleted alike on our broker and on a real Kafka."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from confluent_kafka.admin import AclBinding as ClientAcl
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from apportion.security import acls
from apportion.security.acls import AclFilter
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import RealKafka
from tests.kafka.acl_cluster import AclCluster
from tests.kafka.acl_decisions import random_acl, random_acls
from tests.kafka.conftest import until
from tests.kafka.secured import Secured
from tests.node.acl_requests import (
    AUTHORIZED,
    EVERY_ACL,
    creating,
    creation,
    deleted,
    deleting,
    described,
    describing,
)

SECURED = "guarded"
SCRIPTS, STEPS = 25, 8
WRONG: tuple[dict[str, Any], ...] = (
    {"resource_type": 4, "resource_name": "x"},
    {"resource_name": ""},
    {"resource_type": 99},
    {"resource_pattern_type": 5},
    {"operation": 16},
    {"permission_type": 4},
    {"principal": "alice"},
)
"""Fields of ACLs that cannot be."""


@pytest.fixture(scope="module")
def brokers(secured: Secured) -> Iterator[tuple[str, str]]:
    """Where our broker and a real Kafka listen, which let us do everything."""
    with EmbeddedBroker(**AUTHORIZED) as broker:
        yield broker.bootstrap, secured.broker.bootstrap


@pytest.fixture
def sides(brokers: tuple[str, str]) -> Iterator[tuple[AclCluster, AclCluster]]:
    """Both brokers without ACLs."""
    both = AclCluster(brokers[0]), AclCluster(brokers[1])
    for side in both:
        side.delete(EVERY_ACL)
    yield both
    for side in both:
        side.delete(EVERY_ACL)
        side.close()


def random_creation(random: Random) -> dict[str, Any]:
    return creation(random_acl(random), **random.choice(((dict[str, Any](),) * 8) + WRONG))


def random_filter(random: Random) -> AclFilter:
    """A filter by some of the fields of an ACL."""
    wanted = random_acl(random)._asdict()
    chosen = {name: value for name, value in wanted.items() if random.random() < 0.4}
    if random.random() < 0.6:
        chosen["pattern_type"] = random.choice(list(acls.PatternType)[1:])
    return AclFilter(**chosen)


Step = tuple[str, Any, int]
"""What is done to which ACLs, in which version."""


def played(side: AclCluster, step: Step) -> Any:
    """What the broker answers to the step; of lists in no particular order, in order."""
    what, value, version = step
    if what == "create":
        return [result.error_code for result in side.call(creating(*value), version).results]
    if what == "delete":
        return [sorted(each) for each in deleted(side.call(deleting(*value), version))]
    return sorted(described(side.call(describing(value), version)))


def random_step(random: Random) -> Step:
    what = random.choice(("create", "create", "describe", "describe", "delete"))
    version = random.choice((1, 2, 3))
    if what == "create":
        return what, [random_creation(random) for _ in range(random.randint(0, 5))], version
    if what == "delete":
        return what, [random_filter(random) for _ in range(random.randint(0, 3))], version
    return what, random_filter(random), version


def test_random_creations_filters_and_deletions_have_kafkas_answers(
    sides: tuple[AclCluster, AclCluster],
) -> None:
    ours, theirs = sides
    for seed in range(SCRIPTS):
        random = Random(seed)
        for number in range(STEPS):
            step = random_step(random)
            assert played(ours, step) == played(theirs, step), (seed, number, step)
            # A real Kafka answers before a change holds on its brokers.
            until(lambda: ours.described() == theirs.described())


def test_a_deletion_by_a_number_without_a_meaning_has_kafkas_answer(
    sides: tuple[AclCluster, AclCluster],
) -> None:
    for name in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        asked = deleting(EVERY_ACL, **{name: 99})
        assert [side.call(asked).filter_results[0].error_code for side in sides] == [42, 42], name


def test_kafkas_acl_tool_prints_the_same_for_both(
    brokers: tuple[str, str],
    sides: tuple[AclCluster, AclCluster],
    acl_tool: Callable[..., list[str]],
) -> None:
    flights = ("--topic", "flights", "--resource-pattern-type")
    printed = []
    for bootstrap, side in zip(brokers, sides, strict=True):
        lines = [
            acl_tool(
                *(bootstrap, "--add", "--allow-principal", "User:alice", "--consumer"),
                *("--topic", "flights", "--group", "g"),
            ),
            acl_tool(
                *(bootstrap, "--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1"),
                *("--operation", "Write", "--topic", "fl", "--resource-pattern-type", "prefixed"),
            ),
        ]
        until(lambda side=side: len(side.described()) == 4)
        lines.append(acl_tool(bootstrap, "--list"))
        lines.append(acl_tool(bootstrap, "--list", *flights, "match"))
        lines.append(acl_tool(bootstrap, "--remove", "--force", *flights, "match"))
        until(lambda side=side: len(side.described()) == 1)
        lines.append(acl_tool(bootstrap, "--list", "--principal", "User:alice"))
        printed.append(lines)
    assert printed[0] == printed[1]
    assert [len(blocks) for blocks in printed[0]] == [2, 1, 3, 2, 1, 1]


def test_librdkafkas_admin_client_sees_the_same_on_both(
    brokers: tuple[str, str], sides: tuple[AclCluster, AclCluster]
) -> None:
    names = [(f"topic-{number}", ResourcePatternType.LITERAL) for number in range(3)]
    wanted = [
        ClientAcl(
            *(ResourceType.TOPIC, name, pattern, "User:alice", "*"),
            *(AclOperation.READ, AclPermissionType.ALLOW),
        )
        for name, pattern in (*names, ("topic", ResourcePatternType.PREFIXED))
    ]
    below = AclBindingFilter(
        ResourceType.TOPIC,
        "topic-1",
        ResourcePatternType.MATCH,
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    seen = []
    for bootstrap, side in zip(brokers, sides, strict=True):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        created = [each.result(30) for each in admin.create_acls(wanted).values()]
        until(lambda side=side: len(side.described()) == 4)
        described = sorted(map(str, admin.describe_acls(below).result(30)))
        gone = [sorted(map(str, each.result(30))) for each in admin.delete_acls([below]).values()]
        until(lambda side=side: len(side.described()) == 2)
        seen.append((created, described, gone, side.described()))
    assert seen[0] == seen[1]
    assert (len(seen[0][1]), len(seen[0][2][0])) == (2, 2)


def test_brokers_without_an_authorizer_say_so_alike(kafka: RealKafka) -> None:
    answers = []
    with EmbeddedBroker() as broker:
        for bootstrap in (broker.bootstrap, kafka.bootstrap):
            side = AclCluster(bootstrap)
            shown = side.call(describing())
            created = side.call(creating(*random_acls(Random(7), 9))).results
            gone = side.call(deleting(EVERY_ACL, EVERY_ACL)).filter_results
            side.close()
            answers.append(
                [
                    *((shown.error_code, shown.resources),),
                    *(each.error_code for each in created),
                    *((each.error_code, each.matching_acls) for each in gone),
                ]
            )
    assert answers[0] == answers[1]
    assert answers[0][0] == (54, ())
