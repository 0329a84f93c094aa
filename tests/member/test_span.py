"""A batch as a value: its canonical JSON."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.member.batch.span import (
    EMPTY_SPAN,
    Span,
    SpanError,
    parse_span,
    sorted_span,
    topic_id_bytes,
)
from apportion.topics import TopicIdPartition
from apportion.wire.uuids import uuid_text

ID = bytes(range(16))
P = TopicIdPartition("t", ID, 0)
bounds = st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)).map(
    lambda pair: tuple(sorted(pair))
)
ids = {name: bytes([number]) * 16 for number, name in enumerate(["a", "flights", "ü.x"])}
spans = st.builds(
    sorted_span,
    st.text(max_size=8),
    st.dictionaries(
        st.builds(
            lambda topic, number: TopicIdPartition(topic, ids[topic], number),
            st.sampled_from(sorted(ids)),
            st.integers(0, 2_000),
        ),
        bounds,
    ),
)
sinks = st.none() | st.lists(st.text(max_size=8), max_size=2).map(tuple)
questions = st.builds(
    lambda plain, number, about, names: plain._replace(
        sinks=names,
        question_number=number,
        unclaimed=tuple(sorted(about.ranges)),
        starting=tuple(plain.ranges)[::2],
    ),
    spans,
    st.integers(1, 99),
    spans,
    sinks,
)
beginning = st.builds(
    lambda plain, names: plain._replace(sinks=names, starting=tuple(plain.ranges)[::2]),
    spans,
    st.lists(st.text(max_size=8), max_size=2).map(tuple),
)
spans = (
    st.builds(lambda plain, names: plain._replace(sinks=names), spans, sinks)
    | questions
    | beginning
)


@given(spans)
def test_a_span_goes_to_json_and_back(batch: Span) -> None:
    assert parse_span(batch.to_json()) == batch
    assert parse_span(batch.canonical_json()) == batch
    assert list(parse_span(batch.canonical_json()).ranges) == sorted(batch.ranges)


@given(spans)
def test_the_json_is_canonical_as_it_stands(batch: Span) -> None:
    assert json.dumps(batch.to_json()) == json.dumps(batch.to_json(), sort_keys=True)


def test_the_json_is_the_one_of_the_design() -> None:
    batch = sorted_span(
        "9f3c",
        {
            TopicIdPartition("flights", ID, 3): (950, 950),
            TopicIdPartition("flights", ID, 0): (900, 1200),
            TopicIdPartition("flights", ID, 10): (1, 2),
        },
    )
    assert batch.canonical_json() == (
        '{"id":"9f3c","topics":{"flights":{"id":"AAECAwQFBgcICQoLDA0ODw","span":{"0":[900,1200],"10":[1,2],"3":[950,950]}}},"v":1}'
    )
    assert EMPTY_SPAN.to_json() == {"id": "", "topics": {}, "v": 1}
    assert parse_span({"v": 1, "id": "", "topics": {}}) == EMPTY_SPAN
    assert (
        Span("9f3c", {}, ("/lake",)).canonical_json()
        == '{"id":"9f3c","sinks":["/lake"],"topics":{},"v":2}'
    )
    starting = batch._replace(
        ranges={TopicIdPartition("flights", ID, 0): (900, 1200)},
        sinks=("/lake",),
        starting=(TopicIdPartition("flights", ID, 0),),
    )
    assert starting.canonical_json() == (
        '{"id":"9f3c","sinks":["/lake"],"starting":{"flights":{"id":"AAECAwQFBgcICQoLDA0ODw","partitions":[0]}},"topics":{"flights":{"id":"AAECAwQFBgcICQoLDA0ODw","span":{"0":[900,1200]}}},"v":2}'
    )
    question = Span(
        "9f3c",
        {},
        question_number=3,
        unclaimed=(TopicIdPartition("flights", ID, 0), TopicIdPartition("flights", ID, 3)),
    )
    assert question.canonical_json() == (
        '{"asks":3,"id":"9f3c","nameless":{"flights":{"id":"AAECAwQFBgcICQoLDA0ODw","partitions":[0,3]}},"sinks":null,"topics":{},"v":2}'
    )
    assert (
        Span("9f3c", {}, ("/lake",), question_number=1).canonical_json()
        == '{"asks":1,"id":"9f3c","nameless":{},"sinks":["/lake"],"topics":{},"v":2}'
    )


def test_a_topic_id_is_written_as_kafka_prints_it() -> None:
    assert topic_id_bytes(uuid_text(ID)) == ID
    assert len(uuid_text(ID)) == 22


@pytest.mark.parametrize(
    "text",
    [
        "",
        uuid_text(ID[:15]),
        uuid_text(ID + b"x"),
        uuid_text(ID + b"xyz"),
        uuid_text(ID)[:-1],
        uuid_text(ID) + "==",
        uuid_text(bytes(16))[:-1] + "B",  # the bits that no byte has are not 0
        " " + uuid_text(ID),
        "not base64!",
    ],
)
def test_a_topic_id_is_16_bytes_in_their_only_spelling(text: str) -> None:
    with pytest.raises(SpanError, match=f"^{re.escape(repr(text))} is not a topic id"):
        topic_id_bytes(text)


@pytest.mark.parametrize(
    ("offset", "sentence"),
    [
        ("{", "must be JSON"),
        ([], "must be a JSON object"),
        ({"t": {"0": 12}}, "exactly the keys id, topics, v, not t"),
        ({"v": 3, "id": "", "topics": {}}, "format 3; this version reads formats 1 and 2"),
        (
            {"v": 2, "id": "", "topics": {}},
            "exactly the keys id, sinks, topics, v, not id, topics, v",
        ),
        (
            {"v": 2, "id": "", "sinks": "/t", "topics": {}},
            "sinks must be a JSON array of strings or null, not '/t'",
        ),
        (
            {"v": 2, "id": "", "sinks": [1], "topics": {}},
            "sinks must be a JSON array of strings or null",
        ),
        (
            {"v": 2, "id": "", "sinks": None, "topics": {}},
            "exactly the keys asks, id, nameless, sinks, topics, v, not id, sinks",
        ),
        (
            {"v": 2, "asks": True, "id": "", "nameless": {}, "sinks": None, "topics": {}},
            "an integer from 1 on, not True",
        ),
        (
            {"v": 2, "asks": 0, "id": "", "nameless": {}, "sinks": None, "topics": {}},
            "an integer from 1 on, not 0",
        ),
        (
            {
                "v": 2,
                "asks": 1,
                "id": "",
                "nameless": {"t": {"id": ""}},
                "sinks": None,
                "topics": {},
            },
            "exactly the keys id, partitions",
        ),
        (
            {
                "v": 2,
                "asks": 1,
                "id": "",
                "nameless": {"t": {"id": uuid_text(ID), "partitions": [-1]}},
                "sinks": None,
                "topics": {},
            },
            r"a JSON array of integers from 0 on, not \[-1\]",
        ),
        ({"v": 1, "id": 3, "topics": {}}, "id must be a string, not 3"),
        ({"v": 1, "id": "", "topics": {"t": {"id": "xyz", "span": {}}}}, "'xyz' is not a topic id"),
        (
            {"v": 1, "id": "", "topics": {"t": {"id": None, "span": {}}}},
            "id of topic 't' must be a string",
        ),
        (
            {"v": 1, "id": "", "topics": {"t": {"id": uuid_text(ID), "span": {"01": [0, 1]}}}},
            "'01' is not a partition of topic 't'",
        ),
        (
            {
                "v": 1,
                "id": "",
                "topics": {"t": {"id": uuid_text(ID), "span": {"1" * 5000: [0, 1]}}},
            },
            "1' is not a partition of topic 't'",
        ),
        (
            {"v": 1, "id": "", "topics": {"t": {"id": uuid_text(ID), "span": {"0": [2, 1]}}}},
            r"0 <= from <= to, not \[2, 1\]",
        ),
        (
            {
                "v": 1,
                "id": "",
                "topics": {"t": {"id": uuid_text(ID), "span": {"0": [True, 1]}}},
            },
            "0 <= from <= to",
        ),
        (
            {"v": 1, "id": "", "topics": {"t": {"id": uuid_text(ID), "span": {"0": [0, 1.0]}}}},
            "0 <= from <= to",
        ),
    ],
)
def test_an_invalid_offset_is_refused_with_its_place(
    offset: str | dict[str, Any] | list[Any], sentence: str
) -> None:
    with pytest.raises(SpanError, match=sentence):
        parse_span(offset)
