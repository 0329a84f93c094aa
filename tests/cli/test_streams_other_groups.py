"""`apportion streams describe` on groups that have no metadata of Kafka Streams to show."""

from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.cli.streams import group_names
from apportion.cli.typed_cluster import TypedCluster
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.cli.streams_groups import as_json, ask_to_join, asked, assignment, group, subscription


def test_a_group_that_rebalances_is_shown_by_name(broker: SimpleNamespace) -> None:
    cluster = broker.clusters["one"]
    joined = ask_to_join(cluster, "between", "seat", subscription(11, 11))
    code, lines = asked(broker, "between")
    report = as_json(broker, "between")
    who = (MemberIdentity(member_id=joined.member_id),)
    cluster.call(LeaveGroupRequest(group_id="between", members=who), coordinator="between")
    assert (code, lines) == (
        0,
        [
            "between: a classic group, CompletingRebalance, 1 consumer",
            "It is rebalancing, and a broker tells only of a stable group what its "
            "members say: ask again in a moment.",
            "  consumers  one at 127.0.0.1, instance seat",
        ],
    )
    assert (report["lag"], report["processes"][0]["lag"]) == (None, None)
    assert (
        report["told"],
        report["metadata"],
        report["processes"][0]["consumers"][0]["member"],
    ) == (
        False,
        None,
        joined.member_id,
    )


@pytest.mark.parametrize(
    ("more", "spoken"),
    [
        ({"protocol": "range"}, "protocol type 'consumer', protocol 'range'"),
        (
            {"protocol_type": "connect", "protocol": "sessioned"},
            "protocol type 'connect', protocol 'sessioned'",
        ),
    ],
)
def test_a_group_of_others_is_told_by_what_it_speaks(
    broker: SimpleNamespace, more: dict[str, str], spoken: str
) -> None:
    name = f"others-{more['protocol']}"
    with group(broker, name, [("one", b"", b"")], **more):
        assert asked(broker, name) == (
            1,
            [
                f"apportion streams: '{name}' is no group of Kafka Streams ({spoken}); "
                f"`apportion groups describe {name} --bootstrap {broker.bootstrap}` shows it"
            ],
        )


def test_names_of_groups_are_completed(broker: SimpleNamespace) -> None:
    with group(broker, "tab", [("one", subscription(11, 11), assignment((), 11))]):
        words = f"apportion streams describe --bootstrap {broker.bootstrap} tab"
        environment = {
            "_APPORTION_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": "5",
        }
        completed = CliRunner().invoke(app, [], prog_name="apportion", env=environment)
    assert completed.output.split() == ["tab"]


def test_nothing_is_completed_where_nobody_answers() -> None:
    assert [group_names(TypedCluster(each), "") for each in ("bogus", "127.0.0.1:1")] == [[], []]
