"""Laws of what clients read about security: any text is a value, or a refusal without it."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.cli.properties import parse_properties
from apportion.client.kafka_security import FIELDS, kafka_security
from apportion.client.security_options import FIELDS as OPTIONS
from apportion.client.security_options import client_security
from apportion.security.jaas import parse_jaas

SECRET = "Xyz#Secret#Zyx"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
WORDS = st.sampled_from(
    [MODULE, "required", "username", "password", "=", ";", '"', "'", "\\", " ", "\n", SECRET]
)
VALUES = st.sampled_from(
    [
        *(SECRET, "", "SSL", "SASL_SSL", "SASL_PLAINTEXT", "PLAIN", "OAUTHBEARER"),
        *("SCRAM-SHA-256", "PEM", "true", "oidc", "module:function", f"{MODULE} required;"),
    ]
)
SHOWN = re.compile(
    "protocol|mechanism|type|algorithm|verification|method|location|user|id$|scope|url|class|_cb"
)
"""Options whose values are words, names and addresses, which are no secrets."""


@given(st.lists(WORDS).map("".join))
def test_any_login_of_java_is_read_or_refused_without_its_text(text: str) -> None:
    try:
        login = parse_jaas(text)
    except ValueError as error:
        assert SECRET not in str(error)
    else:
        assert login.mechanisms == ("PLAIN",)


@given(st.text())
def test_a_password_is_read_from_a_login_as_it_was_quoted(password: str) -> None:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    login = parse_jaas(f'{MODULE} required username=alice password="{quoted}" ;')
    assert login.options == {"username": "alice", "password": password}


@given(st.text())
def test_any_text_is_a_file_of_properties_unless_a_name_is_there_twice(text: str) -> None:
    try:
        values = parse_properties(text).values()
    except ValueError as error:
        assert re.fullmatch(
            r"lines \d+ and \d+ both have .*: leave one of them", str(error), re.DOTALL
        )
    else:
        assert all(isinstance(value, str) for value in values)


READERS: list[tuple[Any, Any]] = [(kafka_security, FIELDS), (client_security, OPTIONS)]


@pytest.mark.parametrize(("read", "names"), READERS)
@given(data=st.data())
def test_any_options_are_taken_or_refused_without_a_secret(
    read: Any, names: Any, data: st.DataObject
) -> None:
    drawn = data.draw(st.dictionaries(st.sampled_from([*names]), VALUES))
    given = {
        name: value.replace(SECRET, "x") if SHOWN.search(name) else value
        for name, value in drawn.items()
    }
    try:
        shown = repr(read(given))
    except ValueError as error:
        shown = str(error)
    assert SECRET not in shown
