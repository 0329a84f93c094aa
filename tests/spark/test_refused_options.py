"""Options of streams, batch reads and writes that cannot be meant, and secrets among options."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from apportion.security.client_security import ClientSecurity, PasswordLogin
from apportion.spark.options.batch_read import BatchOptions, loaded_options
from apportion.spark.options.stream import SourceOptions
from apportion.spark.options.topic_write import TopicWriterOptions
from apportion.spark.options.values import OptionError
from tests.refusals import sentence, texts
from tests.scripted import check

BROKERS = {"kafka.bootstrap.servers": "h:9092"}
READ = BROKERS | {"subscribe": "flights"}
STREAM = READ | {"kafka.group.id": "g"}
SOME = {
    "READ": READ,
    "STREAM": STREAM,
    "PATTERN": {"subscribe": "", "subscribePattern": "flights|trains-.*"},
}
PARSERS: list[Any] = [
    pytest.param(SourceOptions.parse, STREAM, id="stream"),
    pytest.param(BatchOptions.parse, READ, id="batch"),
    pytest.param(TopicWriterOptions.parse, BROKERS, id="write"),
]


@pytest.mark.parametrize(("parse", "good"), [*PARSERS, pytest.param(loaded_options, {}, id="load")])
def test_a_faulty_option_is_one_sentence_that_names_it_and_the_remedy(
    request: pytest.FixtureRequest, parse: Any, good: dict[str, str]
) -> None:
    def refused(step: str) -> list[str]:
        return sentence(lambda: parse({**good, **texts(step, **SOME)}), OptionError)

    check(Path(__file__).parent / "refusals" / f"{request.node.callspec.id}.txt", refused, request)


@pytest.mark.parametrize(("parse", "good"), PARSERS)
def test_a_login_goes_to_executors_and_into_no_repr(parse: Any, good: dict[str, str]) -> None:
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
        'required username="alice" password="a-secret";',
    }
    options = parse({**good, **login})
    assert options.security == ClientSecurity(login=PasswordLogin("PLAIN", "alice", "a-secret"))
    assert pickle.loads(pickle.dumps(options)) == options
    assert "a-secret" not in repr(options)


def test_a_wrong_login_is_refused_without_its_text() -> None:
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": "a-secret",
    }
    with pytest.raises(OptionError) as refused:
        SourceOptions.parse({**STREAM, **login})
    assert "a-secret" not in str(refused.value) + repr(refused.value.__cause__)
