"""docs/differences.md: every row of its tables is shown by a test on a real Kafka, or bears a mark
that says it is not.
"""

import ast
import re
from pathlib import Path

import pytest

from tests.kafka.acl_matrix.compare import meant
from tests.kafka.differential import classic_intended, intended
from tests.kafka.test_invalid_members_on_both import ODDITIES
from tests.kafka.test_wrong_requests import INTENDED as WRONGLY_ASKED

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "differences.md"
MARK = " †"
"""What stands behind the name of a row that no test shows."""

SASL_ORDER = ("test_sasl_order_on_both.py", "test_the_two_differ_in_four_things")
MANY_USERS = (
    "test_scram_users_on_both.py",
    "test_both_alter_ten_thousand_users_at_once_and_none_of_more",
)
BY_NAME = {
    "SaslHandshake 0, after which tokens are bare frames": SASL_ORDER,
    "ApiVersions twice before SaslHandshake": SASL_ORDER,
    "a session that goes on by another mechanism that the listener has": SASL_ORDER,
    "a session that goes on by a mechanism that the listener has not": SASL_ORDER,
    "a static member that does not join the first generation after a start of the broker": (
        "test_classic_restart_on_both.py",
        "test_a_static_member_of_a_dead_generation_is_one_of_the_next_only_on_kafka",
    ),
    "a JoinGroup or SyncGroup that its member repeats on another connection": (
        "test_classic_on_both.py",
        "test_a_repeated_join_answers_the_first_one_here_and_not_on_kafka",
    ),
    "a member of a generation whose assignment was not saved when the broker died": (
        "test_classic_restart_on_both.py",
        "test_groups_are_the_same_after_both_brokers_have_started_again",
    ),
    "a wrong request about a group before any FindCoordinator": (
        "test_without_coordinator.py",
        "test_find_coordinator_alone_makes_a_coordinator",
    ),
    "DescribeUserScramCredentials for all users, refused": (
        "test_authorization_on_both.py",
        "test_a_real_kafka_does_not_answer_who_may_not_describe_all_users",
    ),
    "a request that alters more than 10,000 credentials": MANY_USERS,
    "a request for the credentials of more than 10,000 users by name": MANY_USERS,
    "`retention.ms` that is not set": (
        "test_wrong_requests.py",
        "test_the_settings_of_a_topic_are_a_real_kafkas",
    ),
}
"""Rows that a test of another name shows: row -> its file and the test. All others are named in the
tests as they are there.
"""


def rows() -> list[str]:
    """Return the first cell of every row of a table of differences."""
    tables = re.findall(r"^\| what \|.*\n\|[-| ]+\|\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    return [line[2:].split(" | ")[0] for table in tables for line in table.splitlines()]


INTENDED = {
    "consumer groups": [
        *(each.name for each in intended.INTENDED),
        *(name for name, _, _ in intended.ODDITIES),
    ],
    "classic and mixed groups": [each.name for each in classic_intended.INTENDED],
    "invalid members": list(ODDITIES),
    "wrong requests": [each.name for each in WRONGLY_ASKED],
    "authorization": [each.name for each in meant()],
}
"""What is meant to differ, by the tests that observe it."""


@pytest.mark.parametrize("names", INTENDED.values(), ids=INTENDED)
def test_every_intended_difference_is_told_to_users(names: list[str]) -> None:
    documented = [row.removesuffix(MARK) for row in rows()]
    assert [name for name in names if name not in documented] == []


def names_in_tests() -> set[str]:
    """Return every text that stands in the modules beside this one, whole ones only."""
    modules = [
        ast.parse(path.read_text())
        for path in Path(__file__).parent.rglob("*.py")
        if path.name != Path(__file__).name
    ]
    nodes = (node for module in modules for node in ast.walk(module))
    return {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_row_is_shown_or_bears_the_mark() -> None:
    shown = names_in_tests() | BY_NAME.keys()
    assert len(rows()) > 40
    assert [row for row in rows() if not row.endswith(MARK) and row not in shown] == []
    assert [row for row in rows() if row.endswith(MARK) and row.removesuffix(MARK) in shown] == []


@pytest.mark.parametrize(("row", "shown_by"), BY_NAME.items())
def test_a_row_that_is_shown_under_another_name_is_there_and_so_is_its_test(
    row: str, shown_by: tuple[str, str]
) -> None:
    file, test = shown_by
    assert row in rows()
    assert f"\ndef {test}(" in (Path(__file__).parent / file).read_text()
