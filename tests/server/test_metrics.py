"""Metrics over HTTP: what Prometheus and a script read, and what becomes of bad requests."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from apportion.broker import BrokerMetrics, EmbeddedBroker, GroupMetrics, SettingRefused
from apportion.server.metric_families import prometheus_text, series_name
from apportion.server.metrics_listener import MAX_CONNECTIONS, MetricsListener
from apportion.server.prometheus import FAMILIES, FORMATS
from apportion.server.sockets import bind_socket
from apportion.wire.group_states import GroupState
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.server.peer import Peer

ANYWHERE = "127.0.0.1:0"
GONE_FOR_GOOD = -1
GROUP = GroupMetrics(
    group_id="g",
    protocol="consumer",
    state=GroupState.STABLE,
    members=1,
    epoch=1,
    assignment_epoch=1,
    unowned_partitions=0,
    rebalances=1,
    targets_computed=1,
    heartbeats=1,
    removed_members={},
    state_seconds={},
)


def ask(broker: EmbeddedBroker, request: Any, version: int) -> Any:
    with Peer(broker.bootstrap) as peer:
        peer.ask(request, version)
        return peer.answer(type(request), version)[1]


def join(broker: EmbeddedBroker, *group_ids: str) -> None:
    """A member "m" joins each of the groups, and gets all of the topic foo."""
    ask(broker, FindCoordinatorRequest(coordinator_keys=group_ids), 4)
    topic = CreatableTopic(name="foo", num_partitions=3, replication_factor=1)
    ask(broker, CreateTopicsRequest(topics=(topic,), timeout_ms=1_000), 7)
    with Peer(broker.bootstrap) as peer:
        for group_id in group_ids:
            request = ConsumerGroupHeartbeatRequest(
                group_id=group_id,
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=30_000,
                subscribed_topic_names=("foo",),
                topic_partitions=(),
            )
            peer.ask(request, 1)
            assert peer.answer(ConsumerGroupHeartbeatRequest, 1)[1].error_code == 0


def leave(broker: EmbeddedBroker, group_id: str) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id, member_id="m", member_epoch=GONE_FOR_GOOD
    )
    assert ask(broker, request, 1).error_code == 0


def read(address: str, path: str, method: str = "GET") -> tuple[int, str, str]:
    """The status, the content type and the text of an HTTP response."""
    connection = HTTPConnection(address, timeout=30)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.headers["Content-Type"], response.read().decode()
    finally:
        connection.close()


def answered(metrics: Callable[[], Awaitable[BrokerMetrics]], client: Callable[[str], Any]) -> Any:
    """What a client receives that is given the address of a listener of these metrics."""

    async def serve() -> Any:
        listener = MetricsListener(metrics, FORMATS, "")
        bound = bind_socket("127.0.0.1", 0)
        host, port = bound.getsockname()
        await listener.start(bound)
        try:
            return await asyncio.to_thread(client, f"{host}:{port}")
        finally:
            await listener.stop()

    return asyncio.run(serve())


def series(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every value by its name and the texts of its labels."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(apportion_metrics_listen=ANYWHERE) as broker:
        yield broker


@pytest.mark.parametrize(
    ("address", "lines"),
    [
        (
            "0.0.0.0:0",
            [
                "metrics are reachable from other machines, without TLS, login or ACLs: any client "
                "that connects may read the ids of all groups (docs/security.md)"
            ],
        ),
        (ANYWHERE, []),
    ],
)
def test_the_log_warns_of_metrics_that_are_open_to_all(
    caplog: pytest.LogCaptureFixture, address: str, lines: list[str]
) -> None:
    with EmbeddedBroker(apportion_metrics_listen=address):
        pass
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == lines


def test_metrics_are_read_at_their_own_address_as_text(broker: EmbeddedBroker) -> None:
    join(broker, "g")
    status, content_type, text = read(broker.metrics_address, "/metrics")
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    values = series(text)
    stable_seconds = values.pop(
        ("apportion_group_state_seconds_total", ("g", "consumer", "Stable"))
    )
    assert 0 <= stable_seconds < 60
    whole = "g", "consumer"
    assert values == {
        ("apportion_group_count", ("consumer", "Empty")): 0,
        ("apportion_group_count", ("consumer", "Assigning")): 0,
        ("apportion_group_count", ("consumer", "Reconciling")): 0,
        ("apportion_group_count", ("consumer", "Stable")): 1,
        ("apportion_group_count", ("classic", "Empty")): 0,
        ("apportion_group_count", ("classic", "PreparingRebalance")): 0,
        ("apportion_group_count", ("classic", "CompletingRebalance")): 0,
        ("apportion_group_count", ("classic", "Stable")): 0,
        ("apportion_heartbeat_budget_per_second", ()): 200,
        ("apportion_booked_heartbeats_total", ()): 1,
        ("apportion_group_members", whole): 1,
        ("apportion_group_epoch", whole): 2,
        ("apportion_group_assignment_epoch", whole): 2,
        ("apportion_group_unowned_partitions", whole): 0,
        ("apportion_group_rebalances_total", whole): 1,
        ("apportion_group_targets_computed_total", whole): 1,
        ("apportion_group_heartbeats_total", whole): 1,
        ("apportion_group_removed_members_total", (*whole, "left")): 0,
        ("apportion_group_removed_members_total", (*whole, "session_timeout")): 0,
        ("apportion_group_removed_members_total", (*whole, "rebalance_timeout")): 0,
        ("apportion_group_removed_members_total", (*whole, "fenced")): 0,
        ("apportion_group_removed_members_total", (*whole, "group_full")): 0,
        ("apportion_group_state", (*whole, "Empty")): 0,
        ("apportion_group_state", (*whole, "Assigning")): 0,
        ("apportion_group_state", (*whole, "Reconciling")): 0,
        ("apportion_group_state", (*whole, "Stable")): 1,
        ("apportion_group_state_seconds_total", (*whole, "Empty")): 0,
        ("apportion_group_state_seconds_total", (*whole, "Assigning")): 0,
        ("apportion_group_state_seconds_total", (*whole, "Reconciling")): 0,
    }


def test_the_same_metrics_are_read_as_json_and_as_values(broker: EmbeddedBroker) -> None:
    join(broker, "a", "b")
    leave(broker, "b")
    status, content_type, text = read(broker.metrics_address, "/metrics.json?pretty")
    read_as_json = json.loads(text)
    as_values = asdict(broker.metrics())
    assert (status, content_type) == (200, "application/json")
    counts = {
        (each["protocol"], each["state"]): each["groups"]
        for each in read_as_json.pop("group_count")
        if each["groups"]
    }
    assert counts == {("consumer", "Empty"): 1, ("consumer", "Stable"): 1}
    for metrics in (read_as_json, as_values):  # what goes on while it is read
        for group in metrics["groups"]:
            group.pop("state_seconds")
    assert read_as_json == as_values | {"groups": list(as_values["groups"])}
    assert [(each["group_id"], each["members"]) for each in read_as_json["groups"]] == [
        ("a", 1),
        ("b", 0),
    ]


def test_a_text_has_every_family_and_any_name_of_a_group() -> None:
    name = 'odd "name"\\ \n of a group, ünïcode'
    group = replace(
        GROUP,
        group_id=name,
        protocol="classic",
        assignment_epoch=None,
        unowned_partitions=None,
        targets_computed=None,
        heartbeats=5,
        removed_members={"left": 2},
        state_seconds={GroupState.STABLE: 1.5},
    )
    metrics = BrokerMetrics(heartbeat_budget_per_second=0, booked_heartbeats=0, groups=(group,))
    text = prometheus_text(FAMILIES, metrics).decode()
    values = series(text)
    assert values["apportion_group_heartbeats_total", (name, "classic")] == 5
    assert values["apportion_group_state_seconds_total", (name, "classic", "Stable")] == 1.5
    unknown = {
        "apportion_group_assignment_epoch",
        "apportion_group_unowned_partitions",
        "apportion_group_targets_computed_total",
    }
    named = {series_name(family) for family in FAMILIES}
    assert {name for name, _ in values} == named - unknown
    assert all(f"# HELP {name} " in text for name in named)


def test_a_deleted_group_has_no_series(broker: EmbeddedBroker) -> None:
    join(broker, "a", "b")
    leave(broker, "a")
    ask(broker, DeleteGroupsRequest(groups_names=("a",)), 2)
    values = series(read(broker.metrics_address, "/metrics")[2])
    assert {labels[0] for name, labels in values if name == "apportion_group_members"} == {"b"}


def test_many_groups_are_read_while_the_broker_serves(broker: EmbeddedBroker) -> None:
    names = [f"group-{number:03}" for number in range(300)]
    join(broker, *names)
    values = series(read(broker.metrics_address, "/metrics")[2])
    assert values["apportion_group_count", ("consumer", "Stable")] == 300
    members = [labels[0] for name, labels in values if name == "apportion_group_members"]
    assert members == names


def test_after_a_restart_the_groups_are_there_and_counts_begin_at_zero(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        join(broker, "g")
        (before,) = broker.metrics().groups
    with EmbeddedBroker(tmp_path) as broker:
        (after,) = broker.metrics().groups
    assert (before.rebalances, before.heartbeats, before.targets_computed) == (1, 1, 1)
    assert (after.rebalances, after.heartbeats, after.targets_computed) == (0, 0, 0)
    assert (after.epoch, after.members, after.state) == (2, 1, "Stable")


def test_metrics_are_off_by_default_and_always_there_as_values() -> None:
    with EmbeddedBroker() as broker:
        assert broker.metrics_address == ""
        assert broker.metrics().groups == ()
    with pytest.raises(RuntimeError, match="this broker has ended: it has no metrics any more"):
        broker.metrics()


def test_a_wrong_address_of_metrics_is_refused_in_one_sentence() -> None:
    with pytest.raises(SettingRefused) as error:
        EmbeddedBroker(apportion_metrics_listen="here")
    assert str(error.value) == "apportion.metrics.listen must be one HOST:PORT, not 'here'."
    with (
        EmbeddedBroker() as other,
        pytest.raises(OSError, match=f"cannot listen on {other.bootstrap}"),
    ):
        EmbeddedBroker(apportion_metrics_listen=other.bootstrap)


@pytest.mark.parametrize(
    ("request_line", "status", "sentence"),
    [
        ("GET / HTTP/1.1", "404 Not Found", "There is only /metrics and /metrics.json."),
        ("GET /metrics/ HTTP/1.1", "404 Not Found", "There is only /metrics and /metrics.json."),
        (
            "POST /metrics HTTP/1.1",
            "405 Method Not Allowed",
            "Metrics can only be read, with GET.",
        ),
        ("GET /metrics", "400 Bad Request", "This is no request of HTTP/1.1."),
        ("GET  /metrics HTTP/1.1", "400 Bad Request", "This is no request of HTTP/1.1."),
        ("GET /metrics HTTP/2", "400 Bad Request", "This is no request of HTTP/1.1."),
        ("\x16\x03\x01\xff", "400 Bad Request", "This is no request of HTTP/1.1."),
        ("", "400 Bad Request", "This is no request of HTTP/1.1."),
        (
            "GET /metrics HTTP/1.1\r\nX: " + "x" * 10_000,
            "431 Request Header Fields Too Large",
            "The request has more than 8192 bytes of headers.",
        ),
    ],
)
def test_a_bad_request_gets_one_sentence_and_the_broker_goes_on(
    broker: EmbeddedBroker, request_line: str, status: str, sentence: str
) -> None:
    with Peer(broker.metrics_address) as peer:
        peer.send(f"{request_line}\r\n\r\n".encode("latin-1"))
        answer = peer.socket.makefile("rb").read().decode()
    head, _, body = answer.partition("\r\n\r\n")
    assert head.splitlines()[0] == f"HTTP/1.1 {status}"
    assert body == f"{sentence}\n"
    assert ("Allow: GET" in head) == (status[:3] == "405")
    assert read(broker.metrics_address, "/metrics")[0] == 200


def test_a_peer_that_sends_half_a_request_and_goes_costs_nothing(broker: EmbeddedBroker) -> None:
    with Peer(broker.metrics_address) as peer:
        peer.send(b"GET /metr")
    assert read(broker.metrics_address, "/metrics")[0] == 200


def test_silent_peers_beyond_the_limit_are_turned_away(broker: EmbeddedBroker) -> None:
    peers = [Peer(broker.metrics_address) for _ in range(MAX_CONNECTIONS)]
    try:
        status, _, sentence = read(broker.metrics_address, "/metrics")
        assert (status, sentence) == (
            503,
            f"There are {MAX_CONNECTIONS} connections for metrics already.\n",
        )
    finally:
        for peer in peers:
            peer.socket.close()


def test_a_broker_ends_while_a_peer_of_its_metrics_is_silent() -> None:
    with EmbeddedBroker(apportion_metrics_listen=ANYWHERE) as broker:
        peer = Peer(broker.metrics_address)
        assert read(broker.metrics_address, "/metrics")[0] == 200
    with peer:
        assert peer.is_closed()


def test_peers_that_are_silent_or_do_not_read_are_cut_off_after_five_seconds() -> None:
    group = replace(GROUP, group_id="g" * 1_000)

    async def many() -> BrokerMetrics:  # some 24 MB, more than a socket holds
        return BrokerMetrics(
            heartbeat_budget_per_second=0, booked_heartbeats=0, groups=(group,) * 2_000
        )

    def received(address: str) -> tuple[bytes, bool]:
        with Peer(address) as silent, Peer(address) as deaf:
            deaf.send(b"GET /metrics HTTP/1.1\r\n\r\n")
            answer_of_silent = silent.is_closed()  # waits for it
            deaf.socket.settimeout(10)
            rest = b""
            with suppress(OSError):
                while more := deaf.socket.recv(1 << 20):
                    rest += more
            return rest, answer_of_silent

    rest, is_closed = answered(many, received)
    assert is_closed
    head, _, body = rest.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split()[0])
    assert len(body) < length


def test_a_bug_in_the_metrics_is_an_answer_of_its_own() -> None:
    async def broken() -> BrokerMetrics:
        raise AssertionError("a bug")

    def received(address: str) -> bytes:
        with Peer(address) as peer:
            peer.send(b"GET /metrics HTTP/1.1\r\n\r\n")
            return peer.socket.makefile("rb").read()

    head, _, body = answered(broken, received).partition(b"\r\n\r\n")
    assert head.splitlines()[0] == b"HTTP/1.1 500 Internal Server Error"
    assert body == b"The metrics could not be read; see the log.\n"
