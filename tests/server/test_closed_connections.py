"""What the log says of connections that peers break: the first of a kind at once, the rest as
counts, and nothing is lost.
"""

import asyncio
import logging
import re
import socket
import struct
from asyncio.events import TimerHandle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.node.authorization.denials import RequestDenied
from apportion.node.settings import BrokerSettings
from apportion.server.closed_connections import ClosedConnectionLog
from apportion.server.counted_lines import MAX_LINES, MAX_SOURCES, MAX_SUMMARY_LINES
from apportion.server.denied_requests import DeniedRequestLog
from apportion.server.embedded import EmbeddedBroker
from apportion.server.server import Server


def break_a_connection(bootstrap: str, key: int) -> None:
    """A request of an API that there is not, until the broker has closed the connection."""
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as peer:
        peer.sendall(struct.pack(">ihhih", 10, key, 0, 1, -1))
        assert peer.recv(1) == b""


def test_the_first_of_a_kind_has_a_line_and_the_rest_are_counted() -> None:
    closings = ClosedConnectionLog()
    assert (
        closings.line_or_none("h", "h:1", "API key 99 is unknown")
        == "closed the connection of h:1: API key 99 is unknown"
    )
    assert [
        closings.line_or_none("h", f"h:{port}", f"API key {port} is unknown") for port in (2, 3)
    ] == [None, None]
    assert (
        closings.line_or_none("h", "h:4", "no header") == "closed the connection of h:4: no header"
    )
    assert (
        closings.line_or_none("i", "i:1", "no header") == "closed the connection of i:1: no header"
    )
    assert closings.take_summary() == [
        "closed 2 more connections of h, the last one of h:3: API key 3 is unknown"
    ]


def test_a_host_with_many_reasons_has_a_few_first_lines_and_then_one_a_minute() -> None:
    closings = ClosedConnectionLog()
    reasons = [letter * 5 for letter in "abcdefgh"]
    lines = [closings.line_or_none("h", "h:1", reason) for reason in reasons]
    assert [line is not None for line in lines] == [True] * 3 + [False] * 5
    assert [closings.line_or_none("h", f"h:{port}", "fffff") for port in (7, 8)] == [None, None]
    assert closings.take_summary() == [
        "closed 3 more connections of h, the last one of h:8: fffff",
        "closed 1 more connections of h, the last one of h:1: ddddd",
        "closed 1 more connections of h, the last one of h:1: eeeee",
        "closed 1 more connections of h, the last one of h:1: ggggg",
        "closed 1 more connections of h, the last one of h:1: hhhhh",
    ]
    assert closings.line_or_none("h", "h:9", "fffff") is None
    assert closings.take_summary() == ["closed 1 more connections of h, the last one of h:9: fffff"]


def test_a_common_reason_hides_no_rare_one_of_the_same_host() -> None:
    closings = ClosedConnectionLog()
    for letter in "abcdefghij":
        closings.line_or_none("h", "h:1", letter)
    for _ in range(1_000):
        closings.line_or_none("h", "h:2", "a")
    assert closings.line_or_none("h", "h:3", "j") is None
    assert closings.take_summary() == [
        "closed 1,000 more connections of h, the last one of h:2: a",
        "closed 2 more connections of h, the last one of h:3: j",
        "closed 1 more connections of h, the last one of h:1: d",
        "closed 1 more connections of h, the last one of h:1: e",
        "closed 1 more connections of h, the last one of h:1: f",
        "closed 3 more connections of h, for other reasons",
    ]


def denied(number: int = 0, principal: str = "User:bob", further: int = 0) -> RequestDenied:
    return RequestDenied(principal, "10.0.0.1", "Fetch", f"READ on the topic 't{number}'", further)


def test_denied_requests_are_counted_by_principal_and_host() -> None:
    denials = DeniedRequestLog()
    bob = "of User:bob from 10.0.0.1"
    assert [
        denials.line_or_none(each) for each in (denied(1), denied(2), denied(3, further=4))
    ] == [
        f"denied a request {bob}, Fetch: no permission for READ on the topic 't1'",
        None,
        None,
    ]
    assert denials.line_or_none(denied(1, "User:eve", 999)) == (
        "denied a request of User:eve from 10.0.0.1, Fetch: no permission for READ on the topic "
        "'t1' and 999 more"
    )
    assert denials.take_summary() == [
        f"denied 2 more requests {bob}, the last one Fetch: no permission for READ on the topic "
        "'t3' and 4 more"
    ]
    assert (len(denials), denials.take_summary()) == (1, [])
    for number in range(2 * MAX_SOURCES):
        denials.line_or_none(denied(principal=f"User:{number}"))
    assert denials.take_summary() == [
        f"denied {MAX_SOURCES - 1} more requests of several callers, the last one Fetch: no "
        "permission for READ on the topic 't0'"
    ]


def test_a_host_that_sends_nonsense_hides_no_other() -> None:
    closings = ClosedConnectionLog()
    for number in range(3_000):
        closings.line_or_none("fuzzer", "fuzzer:1", "x" * (number % 100))
    assert (
        closings.line_or_none("other", "other:1", "no header")
        == "closed the connection of other:1: no header"
    )


def test_a_closing_that_is_not_repeated_is_forgotten_and_logged_the_next_time() -> None:
    closings = ClosedConnectionLog()
    for _ in range(2):
        assert closings.line_or_none("h", "h:1", "no header") is not None
        assert (closings.line_or_none("h", "h:2", "no header"), len(closings.take_summary())) == (
            None,
            1,
        )
        assert (closings.take_summary(), len(closings)) == ([], 0)


hosts = st.sampled_from("hijk") | st.integers(0, 200).map(str)


@given(st.lists(st.one_of(st.none(), st.tuples(hosts, st.integers(0, 60))), max_size=400))
def test_each_connection_is_in_a_line_or_a_count_and_lines_are_bounded(
    events: list[tuple[str, int] | None],
) -> None:
    closings = ClosedConnectionLog()
    lines = []
    of_a_minute: Counter[Any] = Counter()
    for event in (*events, None):
        if event is None:
            lines += closings.take_summary()
            assert all(times <= MAX_LINES for host, times in of_a_minute.items())
            of_a_minute.clear()
        else:
            host, reason = event
            line = closings.line_or_none(host, f"{host}:1", "x" * reason)
            lines += [] if line is None else [line]
            of_a_minute[host] += line is not None
            assert sum(of_a_minute.values()) <= MAX_LINES * (MAX_SOURCES + 1)
        assert len(closings) <= MAX_SOURCES + 1
    counts = [re.match("closed ([0-9,]+) more", line) for line in lines]
    total = sum(1 if count is None else int(count[1].replace(",", "")) for count in counts)
    assert total == sum(event is not None for event in events)


@given(st.lists(st.tuples(hosts, st.integers(0, 60)), max_size=400))
def test_a_minute_counts_each_host_in_a_few_lines(events: list[tuple[str, int]]) -> None:
    closings = ClosedConnectionLog()
    for host, reason in events:
        closings.line_or_none(host, f"{host}:1", "x" * reason)
    lines = Counter(re.findall("connections of (.*?), ", "\n".join(closings.take_summary())))
    assert len(lines) <= MAX_SOURCES + 1
    assert all(count <= MAX_SUMMARY_LINES + 1 for count in lines.values())


def test_a_server_that_has_stopped_counts_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apportion.server.server.SUMMARY_INTERVAL_S", 3600)

    async def life() -> list[TimerHandle]:
        server = Server(BrokerSettings.of({"listeners": "127.0.0.1:0"}), tmp_path)
        host, port = await server.start()
        for key in (1000, 1001):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(struct.pack(">ihhih", 10, key, 0, 1, -1))
            assert await reader.read(1) == b""
            writer.close()
        await server.stop()
        loop: Any = asyncio.get_running_loop()
        return list(loop._scheduled)

    left = asyncio.run(life())
    assert [
        handle
        for handle in left
        if not handle.cancelled() and handle.when() > 0 and "count" in repr(handle)
    ] == []


def test_a_broker_that_ends_tells_what_it_has_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="apportion.server")
    with EmbeddedBroker() as broker:
        for key in range(1000, 1200):
            break_a_connection(broker.bootstrap, key)
    lines = [
        record.getMessage() for record in caplog.records if record.getMessage().startswith("closed")
    ]
    assert len(lines) == 2
    assert "more" not in lines[0]
    assert lines[1].startswith(
        "closed 199 more connections of 127.0.0.1, the last one of 127.0.0.1:"
    )


def test_the_count_is_told_while_the_broker_serves(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apportion.server.server.SUMMARY_INTERVAL_S", 0.01)
    caplog.set_level(logging.WARNING, logger="apportion.server")
    with EmbeddedBroker() as broker:
        while not any(
            " more connections of 127.0.0.1" in record.getMessage() for record in caplog.records
        ):
            break_a_connection(broker.bootstrap, 1000)
