"""What a client does on a fresh connection, and why a broker may not let it in."""

from typing import Any

import pytest

from apportion.errors import Code, Refused
from apportion.member.fresh_connection import (
    DrawNonce,
    ObtainToken,
    OpenedConnection,
    SendOnConnection,
    WantedBroker,
    authenticate,
    open_connection,
)
from apportion.rules import run_rule
from apportion.security import oauthbearer, plain, scram
from apportion.security.client_security import (
    BearerToken,
    ClientSecurity,
    PasswordLogin,
    SaslLogin,
    TokenFunction,
    TokenLogin,
)
from apportion.security.exchange import Authenticated, AuthenticationFailed
from apportion.security.scram_credentials import (
    Decoys,
    ScramMechanism,
    credential_of,
    salted_password,
)
from apportion.wire.fields import replaced
from apportion.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from apportion.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from apportion.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

SECRET = "secret-of-alice"
MECHANISM = ScramMechanism.SCRAM_SHA_512
VERSIONS = {17: 1, 36: 2, 3: 9}
KEYS = (
    ApiVersion(api_key=3, min_version=0, max_version=9),
    ApiVersion(api_key=17, min_version=0, max_version=1),
    ApiVersion(api_key=36, min_version=0, max_version=2),
    ApiVersion(api_key=1, min_version=100, max_version=101),
    ApiVersion(api_key=9_999, min_version=0, max_version=1),
)
ALICE = PasswordLogin("PLAIN", "alice", SECRET)


class Listener:
    """A listener that authenticates clients, by the machines of a broker."""

    def __init__(self, *mechanisms: str, lifetime_ms: int = 0) -> None:
        self.mechanisms, self.lifetime_ms = mechanisms, lifetime_ms
        self.requests: list[tuple[str, int]] = []
        self.exchange: Any = None
        self.words: str | None = None

    def answer(self, query: Any) -> Any:
        if isinstance(query, DrawNonce):
            return "client-nonce"
        if isinstance(query, ObtainToken):
            return BearerToken(SECRET, None, {"pool": "p1"})
        assert isinstance(query, SendOnConnection)
        self.requests.append((type(query.request).__name__, query.version))
        match query.request:
            case ApiVersionsRequest():
                return ApiVersionsResponse(api_keys=KEYS)
            case SaslHandshakeRequest(mechanism=mechanism):
                return self.handshake(mechanism)
            case SaslAuthenticateRequest(auth_bytes=auth_bytes):
                return self.authenticate(auth_bytes)
        raise AssertionError(query)

    def handshake(self, mechanism: str) -> SaslHandshakeResponse:
        if mechanism not in self.mechanisms:
            code = Code.UNSUPPORTED_SASL_MECHANISM
            return SaslHandshakeResponse(error_code=code, mechanisms=self.mechanisms)
        salted = salted_password(MECHANISM, SECRET, b"salt", 4_096)
        credential = credential_of(MECHANISM, salted, b"salt", 4_096)
        self.exchange = {
            "PLAIN": lambda: plain.server({"alice": SECRET}),
            "SCRAM-SHA-512": lambda: scram.server(
                MECHANISM, {"alice": credential}, Decoys(b"key"), "server-nonce"
            ),
            "OAUTHBEARER": oauthbearer.server,
        }[mechanism]()
        return SaslHandshakeResponse(mechanisms=self.mechanisms)

    def authenticate(self, received: bytes) -> SaslAuthenticateResponse:
        outcome = self.exchange.step(received)
        if isinstance(outcome, oauthbearer.TokenCheck):
            good = outcome.token == SECRET and outcome.extensions == {"pool": "p1"}
            outcome = self.exchange.step(
                oauthbearer.TokenAccepted("alice", 5_000)
                if good
                else oauthbearer.TokenRejected("a bad token")
            )
        match outcome:
            case AuthenticationFailed(_, sentence):
                return SaslAuthenticateResponse(
                    error_code=Code.SASL_AUTHENTICATION_FAILED,
                    error_message=self.words or sentence,
                )
            case Authenticated():
                return SaslAuthenticateResponse(
                    auth_bytes=outcome.reply, session_lifetime_ms=self.lifetime_ms
                )
        return SaslAuthenticateResponse(auth_bytes=outcome)


def opened(
    listener: Any, login: SaslLogin | None, wanted: WantedBroker | None = None
) -> OpenedConnection:
    rule = open_connection("b:9092", ClientSecurity(login=login), "1.0", wanted)
    return run_rule(rule, listener.answer)


def refusal(listener: Any, login: SaslLogin) -> tuple[Code, str]:
    with pytest.raises(Refused) as refused:
        opened(listener, login)
    assert SECRET not in str(refused.value)
    return refused.value.code, refused.value.why


def test_a_client_without_a_login_asks_for_versions_alone() -> None:
    listener = Listener()
    assert opened(listener, None) == OpenedConnection(VERSIONS, 0)
    assert listener.requests == [("ApiVersionsRequest", 3)]


WANTED = WantedBroker("its-cluster", 7)


def test_a_client_says_which_broker_of_which_cluster_it_wants_to_reach() -> None:
    class Wanted(Listener):
        def answer(self, query: Any) -> Any:
            hello = query.request
            assert (hello.cluster_id, hello.node_id) == WANTED
            return super().answer(query)

    listener = Wanted()
    assert opened(listener, None, WANTED) == OpenedConnection(VERSIONS, 0)
    assert listener.requests == [("ApiVersionsRequest", 5)]


def test_a_broker_of_before_kafka_4_4_is_asked_again_without_a_check() -> None:
    class Older(Listener):
        def answer(self, query: Any) -> Any:
            answer = super().answer(query)
            hello = query.request
            is_known = query.version < 5 and (hello.cluster_id, hello.node_id) == (None, -1)
            return answer if is_known else replaced(answer, error_code=Code.UNSUPPORTED_VERSION)

    listener = Older()
    assert opened(listener, None, WANTED) == OpenedConnection(VERSIONS, 0)
    assert listener.requests == [("ApiVersionsRequest", 5), ("ApiVersionsRequest", 3)]


def test_a_connection_to_another_broker_is_refused_with_what_the_client_does_then() -> None:
    class Another(Listener):
        def answer(self, query: Any) -> Any:
            return ApiVersionsResponse(error_code=Code.REBOOTSTRAP_REQUIRED)

    with pytest.raises(Refused) as refused:
        opened(Another(), ALICE, WANTED)
    assert (refused.value.code, refused.value.why) == (
        Code.REBOOTSTRAP_REQUIRED,
        "the broker at b:9092 is not broker 7 of the cluster its-cluster, whose address that was: "
        "the client begins again with its bootstrap servers",
    )


@pytest.mark.parametrize(
    ("login", "messages"),
    [
        (ALICE, 1),
        (PasswordLogin("SCRAM-SHA-512", "alice", SECRET), 2),
        (TokenLogin(TokenFunction(str)), 1),
    ],
)
def test_a_client_logs_in_before_its_first_request(login: SaslLogin, messages: int) -> None:
    listener = Listener("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", lifetime_ms=60_000)
    assert opened(listener, login) == OpenedConnection(VERSIONS, 60_000)
    assert listener.requests == [
        ("ApiVersionsRequest", 3),
        ("SaslHandshakeRequest", 1),
        *[("SaslAuthenticateRequest", 2)] * messages,
    ]


def test_a_client_authenticates_again_without_any_other_request() -> None:
    listener = Listener("PLAIN", lifetime_ms=1_000)
    rule = authenticate("b:9092", ClientSecurity(login=ALICE), {17: 1, 36: 1})
    assert run_rule(rule, listener.answer) == 1_000
    assert listener.requests == [("SaslHandshakeRequest", 1), ("SaslAuthenticateRequest", 1)]


def test_an_unknown_mechanism_is_answered_with_those_that_there_are() -> None:
    assert refusal(Listener("PLAIN", "GSSAPI"), PasswordLogin("SCRAM-SHA-512", "a", SECRET)) == (
        Code.UNSUPPORTED_SASL_MECHANISM,
        "the broker at b:9092 does not offer the SASL mechanism SCRAM-SHA-512; it offers PLAIN, "
        "GSSAPI: set sasl.mechanism to one of these",
    )


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused_with_what_to_look_at(mechanism: str) -> None:
    listener = Listener("PLAIN", "SCRAM-SHA-512")
    assert refusal(listener, PasswordLogin(mechanism, "bob", SECRET)) == (
        Code.SASL_AUTHENTICATION_FAILED,
        f"the broker at b:9092 does not accept user 'bob' by {mechanism}: see that the name and "
        "the password are right",
    )


def test_a_bad_token_is_refused_after_it_was_acknowledged() -> None:
    listener = Listener("OAUTHBEARER")
    answer = listener.answer

    def with_another_token(query: Any) -> Any:
        return BearerToken("another") if isinstance(query, ObtainToken) else answer(query)

    listener.answer = with_another_token  # type: ignore[method-assign]
    assert refusal(listener, TokenLogin(TokenFunction(str))) == (
        Code.SASL_AUTHENTICATION_FAILED,
        "the broker at b:9092 does not accept the token of this client by OAUTHBEARER: it says "
        "'invalid_token'; see that the token has not ended, and is of the issuer and for the "
        "audience that the broker wants",
    )
    assert listener.requests[-2:] == [("SaslAuthenticateRequest", 2)] * 2


def test_the_words_of_a_broker_that_repeat_the_secret_are_left_out() -> None:
    listener = Listener("PLAIN")
    listener.words = f"not with {SECRET}!"
    assert refusal(listener, PasswordLogin("PLAIN", "bob", SECRET))[1] == (
        "the broker at b:9092 does not accept user 'bob' by PLAIN: see that the name and the "
        "password are right"
    )


TOKEN = "ya29.Abc/Def+Ghi"


@pytest.mark.parametrize(
    "words",
    [
        r'{"status":"invalid_token ya29.Abc\/Def+Ghi"}',
        r'{"status":"\u0079a29.Abc\/Def+Ghi"}',
        r'{"error":"ya29.Abc\/Def+Ghi"}',
        r'["ya29.Abc\/Def+Ghi"]',
        "[" * 20_000 + r'"ya29.Abc\/Def+Ghi"',
        r"no JSON: \x79a29.Abc/Def+Ghi",
    ],
)
def test_the_words_of_a_broker_that_repeat_the_token_with_escapes_are_left_out(words: str) -> None:
    listener = Listener("OAUTHBEARER")
    listener.words, answer = words, listener.answer

    def with_token(query: Any) -> Any:
        return BearerToken(TOKEN) if isinstance(query, ObtainToken) else answer(query)

    listener.answer = with_token  # type: ignore[method-assign]
    assert refusal(listener, TokenLogin(TokenFunction(str)))[1] == (
        "the broker at b:9092 does not accept the token of this client by OAUTHBEARER: see that "
        "the token has not ended, and is of the issuer and for the audience that the broker wants"
    )


def test_a_broker_that_does_not_know_the_password_itself_is_not_trusted() -> None:
    class Impostor(Listener):
        def authenticate(self, received: bytes) -> SaslAuthenticateResponse:
            answer = super().authenticate(received)
            is_last = answer.auth_bytes.startswith(b"v=")
            return SaslAuthenticateResponse(auth_bytes=b"v=YWJj") if is_last else answer

    login = PasswordLogin("SCRAM-SHA-512", "alice", SECRET)
    assert refusal(Impostor("SCRAM-SHA-512"), login) == (
        Code.SASL_AUTHENTICATION_FAILED,
        "user 'alice' by SCRAM-SHA-512 cannot log in to the broker at b:9092: the server has not "
        "proved that it knows the user's password",
    )


NO_SASL = (
    Code.ILLEGAL_SASL_STATE,
    "the listener at b:9092 has no SASL: set security.protocol to PLAINTEXT or SSL, or name a "
    "listener of SASL_PLAINTEXT or SASL_SSL",
)


def test_a_listener_without_sasl_is_named() -> None:
    class Plain(Listener):
        def handshake(self, mechanism: str) -> SaslHandshakeResponse:
            return SaslHandshakeResponse(error_code=Code.ILLEGAL_SASL_STATE)

    assert refusal(Plain(), ALICE) == NO_SASL


def test_a_broker_without_the_apis_of_sasl_is_named() -> None:
    class Old(Listener):
        def answer(self, query: Any) -> Any:
            return ApiVersionsResponse(api_keys=KEYS[:1])

    assert refusal(Old(), ALICE) == NO_SASL


@pytest.mark.parametrize("login", [ALICE, None])
def test_a_broker_that_does_not_tell_its_versions_is_refused(login: SaslLogin | None) -> None:
    class Older(Listener):
        def answer(self, query: Any) -> Any:
            return ApiVersionsResponse(error_code=Code.UNSUPPORTED_VERSION)

    with pytest.raises(Refused) as refused:
        opened(Older(), login)
    assert (refused.value.code, refused.value.why) == (
        Code.UNSUPPORTED_VERSION,
        "the broker at b:9092 does not say which API versions it supports",
    )


def test_a_password_that_no_message_can_carry_is_refused_without_it() -> None:
    _, why = refusal(Listener("PLAIN"), PasswordLogin("PLAIN", "alice", f"{SECRET}\0"))
    assert why == "a password must have characters, and neither NUL nor lone surrogates"


def test_any_error_of_a_handshake_has_its_own_code() -> None:
    class Broken(Listener):
        def handshake(self, mechanism: str) -> SaslHandshakeResponse:
            return SaslHandshakeResponse(error_code=Code.UNKNOWN_SERVER_ERROR)

    code, why = refusal(Broken(), ALICE)
    assert code is Code.UNKNOWN_SERVER_ERROR
    assert why.startswith("the broker at b:9092 refuses SASL: The broker failed")


def test_no_value_of_a_login_shows_its_secret() -> None:
    shown = {
        "login": ALICE,
        "token": BearerToken(SECRET, 1.0, {"a": SECRET}),
        "request": SaslAuthenticateRequest(auth_bytes=SECRET.encode()),
    }
    assert SECRET not in repr(shown)
