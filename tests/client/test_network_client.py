"""Bootstrap lists, patience, and brokers that are not there or talk nonsense."""

import socket
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from apportion.client.bootstrap import addresses, require_known_host
from apportion.client.cluster import Cluster
from apportion.client.connection import BrokerConnection, Disconnected
from apportion.client.consumer import Consumer
from apportion.client.group_membership import GroupMembership
from apportion.client.members import new_member
from apportion.errors import Refused
from apportion.member.cluster_queries.groups import DescribeGroupsQuery
from apportion.member.cluster_queries.retries import PauseBeforeRetry
from apportion.member.membership import MembershipState
from apportion.rules import Rule
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import Topics, partitions_of
from apportion.wire.batch import encode_batch
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.list_offsets import LATEST
from apportion.wire.messages.metadata import MetadataRequest
from apportion.wire.table import api_of, api_versions_response, encode_response
from tests.client import changes
from tests.client.name_servers import NO_ANSWER, NO_SUCH_NAME, answer_with

if TYPE_CHECKING:
    from collections.abc import Iterator

UNASKED = b"".join(encode_response(api_of(ApiVersionsRequest), 3, 0, api_versions_response()))
"""A broker's response to a request that nobody has sent."""


def test_a_bootstrap_list_is_text_or_a_list() -> None:
    assert addresses("a:1, b:22") == addresses(["a:1", "b:22"]) == (("a", 1), ("b", 22))
    assert addresses("[::1]:9092") == (("::1", 9092),)


@pytest.mark.parametrize("wrong", ["", " , ", "a", "a:b", ":1", "a:70000", "a:-1", "a..b:1"])
def test_a_wrong_bootstrap_list_is_refused_with_the_entry(wrong: str) -> None:
    with pytest.raises(ValueError, match="bootstrap server"):
        Cluster(wrong)


@pytest.mark.parametrize("port", ["65536", "99999", "9" * 5_000])
def test_a_port_out_of_range_is_named_as_that(port: str) -> None:
    with pytest.raises(
        ValueError, match=f"has port {port}, which is out of range: a port is a number up to 65535"
    ):
        addresses(f"a:{port}")


@pytest.mark.parametrize("scheme", ["http://", "PLAINTEXT://"])
def test_the_scheme_of_a_bootstrap_server_has_to_be_left_off(scheme: str) -> None:
    message = f"{scheme}a:9092' has a scheme: leave {scheme} off and write host:port"
    with pytest.raises(ValueError, match=message):
        addresses(f"b:1,{scheme}a:9092")


def test_a_command_needs_one_bootstrap_server_whose_host_has_an_address() -> None:
    require_known_host("nosuch.invalid:9092,127.0.0.1:1")
    with pytest.raises(
        Disconnected,
        match=r"no address is known for the host 'nosuch.invalid' or 'nor.invalid' of the bootstrap"
        r" servers \(.+\): see that the name is right",
    ):
        require_known_host("nosuch.invalid:9092,nosuch.invalid:9093,nor.invalid:9092")


def test_a_consumer_of_a_name_that_does_not_exist_ends_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer_with(monkeypatch, nosuch=NO_SUCH_NAME)
    with pytest.raises(
        Disconnected,
        match=r"^no address is known for the host 'nosuch' of the bootstrap servers \(Name or "
        r"service not known\): see that the name is right$",
    ):
        Consumer(["nosuch:9092"], "g", topics=["t"])


def test_a_consumer_goes_on_with_the_one_name_that_exists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer_with(monkeypatch, nosuch=NO_SUCH_NAME)
    with (
        EmbeddedBroker() as broker,
        closing(Cluster(broker.bootstrap)) as cluster,
        Consumer(f"nosuch:9092,{broker.bootstrap}", "g", topics=["t"]) as consumer,
    ):
        cluster.create_topic("t", 1)
        while not consumer.assignment:
            consumer.poll(100)


def test_a_consumer_waits_for_a_name_server_and_for_a_name_that_was_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer_with(monkeypatch, silent=NO_ANSWER)
    with Consumer("silent:9092", "g", topics=["t"]) as consumer:
        assert consumer.poll(0) == []
    with Consumer("localhost:1", "g", topics=["t"]) as consumer:
        answer_with(monkeypatch, localhost=NO_SUCH_NAME)
        assert consumer.poll(0) == []


def trying(times: int) -> Rule[None]:
    """A rule that meets so many errors."""
    for _ in range(times):
        yield PauseBeforeRetry(KeyError("in the way"))


def test_patience_raises_what_stood_in_the_way_when_the_time_is_over() -> None:
    before = time.monotonic()
    with pytest.raises(KeyError):
        Cluster("127.0.0.1:1").run(trying(times=10**6), timeout_ms=200)
    assert time.monotonic() - before < 60


def test_pauses_between_tries_double_up_to_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    Cluster("127.0.0.1:1").run(trying(times=7), timeout_ms=60_000)
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_a_correlation_id_is_an_int32_and_begins_anew_after_the_last() -> None:
    with EmbeddedBroker() as broker:
        host, port = broker.bootstrap.split(":")
        connection = BrokerConnection(host, int(port), "c", 5_000)
        connection._correlation_id = 2**31 - 2
        ids = []
        for _ in range(2):
            connection.call(MetadataRequest(), timeout_ms=5_000)
            ids.append(connection._correlation_id)
        connection.close()
    assert ids == [2**31 - 1, 0]


def test_a_broker_that_is_not_there_is_named() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(Disconnected, match=f"no connection to the broker at 127.0.0.1:{port}"):
            Cluster(f"127.0.0.1:{port}").topics(["t"])


def test_a_lost_connection_to_a_coordinator_counts_as_an_interruption() -> None:
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap)
        cluster.ask_coordinator(DescribeGroupsQuery("g"))
        assert cluster.interruptions == 0
    with closing(cluster), pytest.raises(Disconnected):
        cluster.ask_coordinator(DescribeGroupsQuery("g"), timeout_ms=1)
    assert cluster.interruptions == 1


def test_a_coordinator_that_starts_again_between_two_queries_interrupts_them(
    tmp_path: Path,
) -> None:
    """Also where another request is the first to meet the broken connection."""
    with EmbeddedBroker(tmp_path) as broker:
        cluster = Cluster(broker.bootstrap)
        cluster.ask_coordinator(DescribeGroupsQuery("g"))
    with closing(cluster), EmbeddedBroker(tmp_path, listeners=broker.bootstrap):
        with pytest.raises(Disconnected):
            cluster.topics(["t"], fresh=True)
        cluster.ask_coordinator(DescribeGroupsQuery("g"))
        assert cluster.interruptions == 1


def test_a_coordinator_that_metadata_no_longer_names_counts_as_an_interruption() -> None:
    with EmbeddedBroker() as broker, closing(Cluster(broker.bootstrap)) as cluster:
        node = cluster.find_coordinator("g")
        del cluster.metadata.nodes[node]
        with pytest.raises(Disconnected, match="is not in the cluster's metadata"):
            cluster.call(DescribeGroupsQuery("g").request(), coordinator="g")
        assert (cluster.interruptions, cluster.find_coordinator("g")) == (1, node)


def test_a_broker_that_does_not_coordinate_the_group_interrupts_nothing() -> None:
    """Else a new query, which looks at the topics each time, would wait for ever beside it."""
    with EmbeddedBroker() as broker, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        gone = f"127.0.0.1:{unused.getsockname()[1]}"
        with closing(Cluster([gone, broker.bootstrap])) as cluster:
            cluster.ask_coordinator(DescribeGroupsQuery("g"))
            cluster.metadata.nodes[-1] = addresses(gone)[0]
            with pytest.raises(Disconnected):
                cluster.call(MetadataRequest(), node=-1)
            cluster.ask_coordinator(DescribeGroupsQuery("g"))
            assert cluster.interruptions == 0


@pytest.fixture
def nonsense_server() -> "Iterator[NonsenseServer]":
    """A server that answers whatever it is asked with `reply`, on every connection; then holds the
    connection open.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.1)
    ended = threading.Event()
    server = NonsenseServer(listener, ended)
    server.start()
    yield server
    ended.set()
    server.join()
    listener.close()


class NonsenseServer(threading.Thread):
    """See the fixture."""

    def __init__(self, listener: socket.socket, ended: threading.Event) -> None:
        super().__init__()
        self.listener, self.ended, self.reply = listener, ended, b""
        self.bootstrap = f"127.0.0.1:{listener.getsockname()[1]}"

    def run(self) -> None:
        held = []
        while not self.ended.is_set():
            try:
                connection, _ = self.listener.accept()
            except TimeoutError:
                continue
            connection.settimeout(5)
            held.append(connection)
            connection.recv(4096)
            if self.reply:
                connection.sendall(self.reply)
        for connection in held:
            connection.close()


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a frame of 1213486160 bytes"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"\0\0\0\2ab", "a response of 2 bytes"),
        (b"\0\0\0\x04\0\0\0\x09", "is no answer to ApiVersions"),
        (UNASKED, "an answer to request 0 instead of 1"),
    ],
)
def test_a_server_that_is_no_broker_is_told_apart(
    nonsense_server: NonsenseServer, reply: bytes, sentence: str
) -> None:
    nonsense_server.reply = reply
    with pytest.raises(Disconnected, match=sentence):
        Cluster(nonsense_server.bootstrap).topics(["t"])


def test_a_broker_that_does_not_answer_costs_no_more_than_the_timeout(
    nonsense_server: NonsenseServer,
) -> None:
    before = time.monotonic()
    with pytest.raises(Disconnected, match="did not answer ApiVersions within"):
        Cluster(nonsense_server.bootstrap, timeout_ms=300).topics(["t"])
    assert time.monotonic() - before < 5


def test_a_broker_that_does_not_answer_leaves_time_for_the_next_one(
    nonsense_server: NonsenseServer,
) -> None:
    with (
        EmbeddedBroker() as broker,
        closing(
            Cluster([nonsense_server.bootstrap, broker.bootstrap], timeout_ms=2_000)
        ) as cluster,
    ):
        assert cluster.topics(["t"]) == Topics()


def test_the_leaders_of_a_deleted_topic_are_not_those_of_its_successor() -> None:
    with EmbeddedBroker() as broker, closing(Cluster(broker.bootstrap)) as cluster:
        first = partitions_of(cluster.create_topic("t", 1))
        assert cluster.list_offsets(first, LATEST) == dict.fromkeys(first, 0)
        changes.delete_topic(cluster, "t")
        second = partitions_of(cluster.create_topic("t", 1))
        cluster.produce(second[0], encode_batch([(None, b"", ())], timestamp_ms=0))
        # ListOffsets names topics and not their ids.
        with pytest.raises(Refused, match=r"UNKNOWN_TOPIC_ID: .* was made again"):
            cluster.list_offsets(first, LATEST)


def test_the_leaders_of_a_topic_go_that_was_created_anew_between_two_looks() -> None:
    with EmbeddedBroker() as broker, closing(Cluster(broker.bootstrap)) as cluster:
        first = partitions_of(cluster.create_topic("t", 1))
        with closing(Cluster(broker.bootstrap)) as another:
            changes.delete_topic(another, "t")
            another.create_topic("t", 1)
        cluster.topics(["t"], fresh=True)
        with pytest.raises(Refused, match=r"UNKNOWN_TOPIC_ID: .* was made again"):
            cluster.list_offsets(first, LATEST)


def test_a_session_without_a_broker_keeps_trying_and_leaves_when_told() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        session = GroupMembership(
            Cluster(f"127.0.0.1:{unused.getsockname()[1]}"), new_member("g"), ["t"]
        )
        session.start()
        view = session.wait(lambda view: False, 400)
        assert (view.state, view.epoch, view.target) == (MembershipState.JOINING, 0, None)
        assert session.leave()
        assert [event.what for event in session.history()] == ["left"]
