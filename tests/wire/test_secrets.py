"""Passwords, and what stands for one, in no repr and in no error text of any message."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

from apportion import streams, wire
from apportion.errors import DecodeError, EncodeError
from apportion.wire.codec import read, write
from apportion.wire.codec_builder import fields_of
from apportion.wire.fields import Field
from apportion.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from apportion.wire.messages.sasl_authenticate import SaslAuthenticateRequest

SECRET = b"correct horse battery staple"
SHOWN = (repr(SECRET)[2:-1], SECRET.hex())
SECRET_NAMES = {"auth_bytes", "hmac", "password", "salt", "salted_password"}
"""Fields of Kafka's messages that are secret under whatever message they stand."""


def messages() -> Iterator[Any]:
    """Every message class, and every part of one."""
    seen: dict[Any, None] = {}
    for package in (wire, streams):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for each in vars(importlib.import_module(module.name)).values():
                if isinstance(each, type) and hasattr(each, "__fields__"):
                    seen[each] = None
    return iter(seen)


MESSAGES = list(messages())
WITH_SECRETS = [kind for kind in MESSAGES if any(field.secret for field in kind.__fields__)]


def filled(kind: Any, secret: Any = SECRET) -> Any:
    """A message with the secret in each of its secret fields, and one element in each array."""
    return kind(**{field.name: content(field, secret) for field in kind.__fields__})


def content(field: Field, secret: Any) -> Any:
    if field.secret:
        return secret
    if field.kind == "struct":
        return filled(field.element, secret)
    if field.kind == "array" and fields_of(field):
        return (filled(field.element, secret),)
    return field.default


def texts_of(error: BaseException | None) -> Iterator[str]:
    """What a log shows of an error and of its causes."""
    while error is not None:
        yield f"{error!r} {error}"
        error = error.__cause__ or error.__context__


def assert_hidden(text: str) -> None:
    assert [shown for shown in SHOWN if shown in text] == []


def test_the_fields_with_secrets_are_these() -> None:
    assert {(kind.__name__, f.name) for kind in MESSAGES for f in kind.__fields__ if f.secret} == {
        ("SaslAuthenticateRequest", "auth_bytes"),
        ("SaslAuthenticateResponse", "auth_bytes"),
        ("ScramCredentialUpsertion", "salt"),
        ("ScramCredentialUpsertion", "salted_password"),
    }


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_a_field_with_the_name_of_a_secret_is_declared_secret(kind: Any) -> None:
    assert [f.name for f in kind.__fields__ if f.name in SECRET_NAMES and not f.secret] == []


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_only_a_single_value_is_declared_secret(kind: Any) -> None:
    elements = [each for f in kind.__fields__ for each in (f.element, *columns_of(f))]
    assert not [each for each in elements if isinstance(each, Field) and each.secret]


def columns_of(field: Field) -> tuple[Field, ...]:
    return fields_of(field) if field.kind == "columns" else ()


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_no_repr_shows_a_secret(kind: Any) -> None:
    for secret in (SECRET, memoryview(SECRET), bytearray(SECRET)):
        assert_hidden(repr(filled(kind, secret)))


def test_a_repr_says_that_there_is_a_secret() -> None:
    upsertion = ScramCredentialUpsertion(name="alice", mechanism=1, salt=SECRET)
    assert repr(AlterUserScramCredentialsRequest(upsertions=(upsertion,))) == (
        "AlterUserScramCredentialsRequest(upsertions=(ScramCredentialUpsertion(name='alice', "
        "mechanism=1, salt=[hidden]),))"
    )
    assert repr(SaslAuthenticateRequest()) == "SaslAuthenticateRequest()"


@pytest.mark.parametrize("kind", WITH_SECRETS, ids=lambda kind: kind.__name__)
def test_no_error_in_decoding_shows_a_secret(kind: Any) -> None:
    version = kind.__versions__[-1]
    frame = write(filled(kind), version)
    for end in range(len(frame)):
        with pytest.raises(DecodeError) as caught:
            read(kind, version, frame[:end])
        for text in texts_of(caught.value):
            assert_hidden(text)


@pytest.mark.parametrize("kind", WITH_SECRETS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("wrong", [None, [SECRET], {SECRET: SECRET}, 7])
def test_no_error_in_encoding_shows_a_secret(kind: Any, wrong: Any) -> None:
    with pytest.raises((EncodeError, TypeError)) as caught:
        write(filled(kind, wrong), kind.__versions__[-1])
    for text in texts_of(caught.value):
        assert_hidden(text)
