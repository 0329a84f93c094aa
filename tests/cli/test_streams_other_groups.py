"""`apportion streams describe` on groups that have no metadata of Kafka Streams to show."""

from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.cli.streams import group_names
from apportion.cli.typed_cluster import TypedCluster
from apportion.errors import Code
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.cli.streams_groups import as_json, ask_to_join, asked, assignment, group, subscription
from tests.client import changes


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


def test_a_group_without_members_is_empty(broker: SimpleNamespace) -> None:
    changes.commit(broker.clusters["one"], "empty", {broker.partitions[0]: 1})
    assert asked(broker, "empty") == (
        0,
        [
            "empty: a classic group, Empty, 0 consumers",
            "It has no members, and a broker tells only of a stable group whether it is one of "
            "Kafka Streams. If it is, no instance of the application is running. `apportion "
            f"groups describe empty --bootstrap {broker.bootstrap}` shows its offsets.",
        ],
    )


def test_a_group_that_is_not_there_is_said_in_one_sentence(broker: SimpleNamespace) -> None:
    sentence = (
        "there is no group 'nobody': that is the application.id, and `apportion groups list "
        f"--bootstrap {broker.bootstrap}` shows what there is"
    )
    assert asked(broker, "nobody") == (1, [f"apportion streams: {sentence}"])


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


def test_a_consumer_group_of_kip_848_is_told_as_one(broker: SimpleNamespace) -> None:
    join: dict[str, Any] = {
        "group_id": "modern",
        "member_id": "m",
        "subscribed_topic_names": ("t",),
        "topic_partitions": (),
    }
    cluster = broker.clusters["one"]
    request = ConsumerGroupHeartbeatRequest(**join, member_epoch=0, rebalance_timeout_ms=60_000)
    assert cluster.call(request, coordinator="modern").error_code == Code.NONE
    sentence = (
        "'modern' is no classic group but a consumer group of KIP-848; `apportion groups "
        f"describe modern --bootstrap {broker.bootstrap}` shows it"
    )
    assert asked(broker, "modern") == (1, [f"apportion streams: {sentence}"])
    cluster.call(
        ConsumerGroupHeartbeatRequest(group_id="modern", member_id="m", member_epoch=-1),
        coordinator="modern",
    )


def test_an_address_that_is_none_is_refused_in_one_sentence(broker: SimpleNamespace) -> None:
    result = CliRunner().invoke(app, ["streams", "describe", "g", "--bootstrap", "bogus"])
    assert (result.exit_code, result.output) == (
        2,
        "apportion streams: bootstrap server 'bogus' is not host:port\n",
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
