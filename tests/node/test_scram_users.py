"""Credentials of SCRAM: how they are set and deleted, and when logins use them."""

import time
from typing import TYPE_CHECKING, Any

from apportion.errors import Code
from apportion.node.handlers.scram_users import MAX_CHANGES
from apportion.security.scram_credentials import ScramMechanism, credential_of
from apportion.wire.messages.describe_user_scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512
from tests.node.fault_histories import begun
from tests.node.scram_requests import (
    DESCRIBED_AS_KAFKA,
    SALTED,
    SAME_AS_KAFKA,
    altering,
    codes,
    deletion,
    described,
    describing,
    upsertion,
)

if TYPE_CHECKING:
    from tests.node.conftest import Kit, NodeDriver

SHA_256, SHA_512 = ScramMechanism


def logins(driver: Any) -> dict[str, list[str]]:
    """The users who can log in, by mechanism."""
    return {
        mechanism.value: list(by_user)
        for mechanism, by_user in driver.node.durable.scram_credentials.items()
        if by_user
    }


def test_a_credential_is_what_is_kept_of_the_salted_password(driver: "NodeDriver") -> None:
    both = altering(upsertion("alice", iterations=8_192), upsertion("bob", SCRAM_SHA_512))
    assert codes(driver.call(both)) == {"alice": Code.NONE, "bob": Code.NONE}
    expected = {
        SHA_256: {"alice": credential_of(SHA_256, SALTED[SCRAM_SHA_256], b"a salt", 8_192)},
        SHA_512: {"bob": credential_of(SHA_512, SALTED[SCRAM_SHA_512], b"a salt", 4_096)},
    }
    assert driver.node.durable.scram_credentials == expected
    assert driver.crash().node.durable.scram_credentials == expected


def test_neither_the_salted_password_nor_its_key_is_on_the_disk(driver: "NodeDriver") -> None:
    driver.call(altering(upsertion("alice", SCRAM_SHA_512)))
    stored = bytes(driver.disk.view("catalog.log", 0, driver.disk.size("catalog.log")))
    assert b"alice" in stored
    salted = SALTED[SCRAM_SHA_512]
    client_key = SHA_512.hmac(salted, b"Client Key")
    assert not any(secret.hex().encode() in stored for secret in (salted, client_key))


def test_a_credential_is_for_logins_once_it_is_on_the_disk(driver: "NodeDriver") -> None:
    ticket = driver.ask(altering(upsertion("alice")))
    assert (logins(driver), ticket in driver.answers) == ({}, False)
    driver.flush()
    assert (logins(driver), ticket in driver.answers) == ({"SCRAM-SHA-256": ["alice"]}, True)
    driver.ask(altering(deletion("alice")))
    assert logins(driver) == {"SCRAM-SHA-256": ["alice"]}
    driver.flush()
    assert logins(driver) == {}


def test_a_flush_that_fails_leaves_the_credentials_as_they_were(driver: "NodeDriver") -> None:
    driver.call(altering(upsertion("alice")))
    before = driver.node.durable.scram_credentials
    tickets = [
        driver.ask(altering(upsertion("alice", iterations=9_999), upsertion("bob"))),
        driver.ask(describing()),
    ]
    driver.fail_flush()
    altered, shown = (driver.answers[ticket] for ticket in tickets)
    assert codes(altered) == dict.fromkeys(("alice", "bob"), Code.KAFKA_STORAGE_ERROR)
    assert (shown.error_code, shown.results) == (Code.KAFKA_STORAGE_ERROR, ())
    assert driver.node.durable.scram_credentials == before
    assert described(driver.call(describing())) == {"alice": {SCRAM_SHA_256: 4_096}}
    driver.flush()
    assert driver.crash().node.durable.scram_credentials == before


def test_a_step_that_breaks_off_leaves_the_credentials_as_they_were(kit: "type[Kit]") -> None:
    history = begun()
    history.call(altering(upsertion("alice")))
    many = altering(deletion("alice"), *(upsertion(f"user {number}") for number in range(9)))
    history.disk.free_bytes = 900  # for some of the lines
    assert set(codes(history.call(many)).values()) == {Code.KAFKA_STORAGE_ERROR}
    history.disk.free_bytes = None
    assert described(history.call(describing())) == {"alice": {SCRAM_SHA_256: 4_096}}
    history.flush()
    assert logins(history) == logins(history.crash()) == {"SCRAM-SHA-256": ["alice"]}


def test_wrong_credentials_are_refused_one_by_one(driver: "NodeDriver") -> None:
    wrong = altering(
        upsertion("no salt", salt=b""),
        upsertion("long salt", salt=bytes(4_097)),
        upsertion("no password", salted_password=b""),
        upsertion("short", SCRAM_SHA_512, salted_password=bytes(32)),
        upsertion("right", salt=bytes(4_096)),
        deletion("nobody" * 99),
    )
    response = driver.call(wrong)
    length = "a credential of SCRAM-SHA-{0} has a salt, and a salted password of {1} bytes"
    refused = Code.UNACCEPTABLE_CREDENTIAL
    assert {
        result.user[:12]: (result.error_code, result.error_message) for result in response.results
    } == {
        "no salt": (refused, length.format(256, 32)),
        "long salt": (refused, "a salt has at most 4,096 bytes"),
        "no password": (refused, length.format(256, 32)),
        "short": (refused, length.format(512, 64)),
        "right": (Code.NONE, None),
        "nobodynobody": (
            Code.RESOURCE_NOT_FOUND,
            "user nobodynobodynobodynobodynobodynobody"
            "no...dynobodynobodynobodynobodynobodynobody has no credential of SCRAM-SHA-256",
        ),
    }
    assert logins(driver) == {"SCRAM-SHA-256": ["right"]}


def test_requests_are_answered_as_by_kafka(driver: "NodeDriver") -> None:
    """`tests/kafka/test_scram_users_on_both.py` asks a real one the same."""
    once, missing, wrong = (
        Code.DUPLICATE_RESOURCE,
        Code.RESOURCE_NOT_FOUND,
        Code.UNACCEPTABLE_CREDENTIAL,
    )
    unknown = Code.UNSUPPORTED_SASL_MECHANISM
    assert {what: codes(driver.call(request)) for what, request in SAME_AS_KAFKA.items()} == {
        "a credential": {"alice": 0},
        "two mechanisms of one user": {"bob": once},
        "one credential twice": {"carl": once},
        "deleted and set": {"alice": once},
        "deleted and another one set": {"alice": once},
        "not there, and set": {"zed": missing},
        "wrong, and then right": {"yan": wrong},
        "right, and then wrong": {"yan": once},
        "deleted twice": {"alice": once},
        "deleted, and not there": {"nobody": missing, "alice": missing},
        "deleted of no mechanism": {"alice": unknown, "x": unknown},
        "deleted without a name": {"": wrong},
        "set without a name": {"": wrong},
        "set of no mechanism": {"m": unknown},
        "iterations": {"i-1": wrong, "i4095": wrong, "i4096": 0, "i16384": 0, "i16385": wrong},
        "names": dict.fromkeys(("a b", "näme", "a,b=c", "x" * 300, "tab\t"), 0),
        "a mixture": {"alice": 0, "bob": missing, "dora": 0, "eve": wrong},
        "nothing": {},
    }
    one = {SCRAM_SHA_256: 4_096}
    all_users = dict.fromkeys(("a b", "a,b=c", "dora", "i4096", "näme", "tab\t", "x" * 300), one)
    all_users["i16384"] = {SCRAM_SHA_256: 16_384}
    assert {
        what: described(driver.call(request)) for what, request in DESCRIBED_AS_KAFKA.items()
    } == {
        "all": all_users,
        "all by null": all_users,
        "some": {"dora": one, "nobody": missing, "alice": missing, "": missing},
        "twice": {"dora": once, "nobody": once, "a b": one},
    }


def test_a_request_alters_ten_thousand_credentials_and_no_more(driver: "NodeDriver") -> None:
    names = [f"u{number}" for number in range(MAX_CHANGES + 1)]
    upsertions, deletions = ([change(name) for name in names] for change in (upsertion, deletion))
    begun_s = time.process_time()
    assert set(codes(driver.call(altering(*upsertions[1:]))).values()) == {0}
    print(f"{MAX_CHANGES:,} credentials: {time.process_time() - begun_s:.2f} s of the processor")
    assert logins(driver) == {"SCRAM-SHA-256": names[1:]}
    for too_many in (
        altering(*upsertions),
        altering(*deletions),
        altering(deletions[0], *upsertions),
    ):
        first, *others = driver.call(too_many).results
        count = len(too_many.upsertions) + len(too_many.deletions)
        assert (first.user, first.error_code, first.error_message) == (
            "u0",
            Code.POLICY_VIOLATION,
            f"a request alters up to 10,000 credentials, and this one {count:,}",
        )
        assert {(each.error_code, each.error_message) for each in others} == {
            (Code.POLICY_VIOLATION, None)
        }
        assert [first.user, *(each.user for each in others)] == names
    assert logins(driver) == {"SCRAM-SHA-256": names[1:]}
    assert set(codes(driver.call(altering(*deletions[1:]))).values()) == {0}
    assert logins(driver) == {}


def test_a_request_names_ten_thousand_users_and_no_more(driver: "NodeDriver") -> None:
    names = [f"u{number}" for number in range(MAX_CHANGES + 1)]
    assert len(driver.call(describing(*names[1:])).results) == MAX_CHANGES
    response = driver.call(describing(*names))
    assert (response.error_code, response.error_message, response.results) == (
        Code.POLICY_VIOLATION,
        "a request names up to 10,000 users, and this one 10,001: one that names none is about all "
        "of them",
        (),
    )
