"""The checks of OAUTHBEARER's tokens: by keys, by a function, and of tokens without a signature."""

import asyncio
import base64
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from apportion.node.sasl_settings import JwtRules, TokenCheckFunction
from apportion.node.settings import SettingRefused
from apportion.security.oauthbearer import (
    TokenAccepted,
    TokenCheck,
    TokenRejected,
    TokenVerdict,
)
from apportion.server import jwt_checks
from apportion.server.token_checks import checker_of
from tests.server.planted import plant
from tests.web_server import WebServer, web_server

NOW = int(time.time())
ENDS = NOW + 3_600
CLAIMS = {"sub": "alice", "iat": NOW - 60, "exp": ENDS, "aud": "kafka", "iss": "us"}
ACCEPTED = TokenAccepted("alice", ENDS * 1000)


@functools.cache
def rsa_key() -> Any:
    return rsa.generate_private_key(65_537, 2048)


@functools.cache
def ec_key() -> Any:
    return ec.generate_private_key(ec.SECP256R1())


def public(key: Any, **fields: Any) -> dict[str, Any]:
    """The public key as a row of a key set."""
    kind: Any = jwt.algorithms.RSAAlgorithm
    if isinstance(key, ec.EllipticCurvePrivateKey):
        kind = jwt.algorithms.ECAlgorithm
    row: dict[str, Any] = json.loads(kind.to_jwk(key.public_key()))
    return {name: value for name, value in row.items() if name != "key_ops"} | fields


def key_file(directory: Path, *rows: Any) -> str:
    path = directory / "keys.json"
    path.write_text(json.dumps({"keys": rows}))
    return path.as_uri()


def signed(key: Any, algorithm: str = "RS256", key_id: str | None = "k1", **claims: Any) -> str:
    """A token with these claims; None leaves one out."""
    said = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    return jwt.encode(said, key, algorithm, {"kid": key_id} if key_id else {})


def verdict(token: str, **rules: Any) -> TokenVerdict:
    return checker_of(JwtRules(**rules))(TokenCheck(token, {}))


@pytest.fixture
def keys(tmp_path: Path) -> str:
    return key_file(tmp_path, public(rsa_key(), kid="k1"), public(ec_key(), kid="k2", use="sig"))


UNKNOWN_KEY = "the token is signed by a key that its issuer does not have"
WRONG_KIND = "the token has a signature of a kind that is not accepted"
WRONG_SIGNATURE = "the token's signature is not that of its key"
FOR_KAFKA: dict[str, Any] = {"audiences": ("a", "kafka"), "issuer": "us"}


def with_other_claims() -> str:
    """A token whose claims were exchanged behind its signature."""
    head, _, signature = signed(rsa_key()).split(".")
    return f"{head}.{signed(rsa_key(), sub='root').split('.')[1]}.{signature}"


TOKENS: dict[str, tuple[Callable[[], str], dict[str, Any], str]] = {
    "RSA": (lambda: signed(rsa_key()), {}, "alice"),
    "PS256": (lambda: signed(rsa_key(), "PS256"), {}, "alice"),
    "EC": (lambda: signed(ec_key(), "ES256", "k2"), {}, "alice"),
    "for us": (lambda: signed(rsa_key()), FOR_KAFKA, "alice"),
    "for several": (lambda: signed(rsa_key(), aud=["x", "a"]), FOR_KAFKA, "alice"),
    "for others": (
        *(lambda: signed(rsa_key(), aud="x"), FOR_KAFKA),
        "the token is not for this audience",
    ),
    "of another": (
        *(lambda: signed(rsa_key(), iss="them"), FOR_KAFKA),
        "the token is of another issuer",
    ),
    "another claim": (
        *(lambda: signed(rsa_key(), sub=None, client="bob"), {"name_claim": "client"}),
        "bob",
    ),
    "no user": (
        lambda: signed(rsa_key(), sub=None),
        {},
        "the token has no user in the claim 'sub'",
    ),
    "unknown key": (lambda: signed(rsa_key(), key_id="k9"), {}, UNKNOWN_KEY),
    "no key": (lambda: signed(rsa_key(), key_id=None), {}, UNKNOWN_KEY),
    "forged": (lambda: signed(rsa.generate_private_key(65_537, 2048)), {}, WRONG_SIGNATURE),
    "other claims": (with_other_claims, {}, WRONG_SIGNATURE),
    "no signature": (
        lambda: jwt.encode(CLAIMS, None, "none", {"kid": "k1"}),  # type: ignore[arg-type]
        *({}, WRONG_KIND),
    ),
    # The public key is known to everybody, so a MAC by it shows nothing.
    "a MAC": (
        lambda: jwt.encode(CLAIMS, "a public key, said to be a secret", "HS256", {"kid": "k1"}),
        *({}, WRONG_KIND),
    ),
}


@pytest.mark.parametrize(("token", "rules", "expected"), TOKENS.values(), ids=TOKENS)
def test_a_token_is_its_users_by_a_known_key_and_the_rules(
    keys: str, token: Callable[[], str], rules: dict[str, Any], expected: str
) -> None:
    found = verdict(token(), keys_url=keys, **rules)
    is_user = expected in ("alice", "bob")
    assert found == (TokenAccepted(expected, ENDS * 1000) if is_user else TokenRejected(expected))


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": NOW - 31}, "the token is over"),
        ({"exp": None}, "the token lacks a claim: exp, iat, aud or iss"),
        ({"iat": None}, "the token lacks a claim: exp, iat, aud or iss"),
        ({"exp": "soon"}, "the token does not say when it ends (exp)"),
        ({"exp": 1e300}, "the token does not say when it ends (exp)"),
        ({"nbf": NOW + 3_600}, "the token is not valid yet"),
        ({"iat": NOW + 3_600}, "the token is not valid yet"),
        ({"nbf": []}, "the token has a time that is no number (iat, nbf)"),
        ({"sub": ""}, "the token has no user in the claim 'sub'"),
        ({"sub": 5}, "the token has no user in the claim 'sub'"),
        ({"scope": {"a": 1}}, "the token has no scopes in the claim 'scope'"),
    ],
)
def test_a_token_that_says_something_wrong_is_refused(
    keys: str, claims: dict[str, Any], why: str
) -> None:
    # Encoded by hand: the library refuses to make some of these.
    head = base64.urlsafe_b64encode(b'{"alg":"RS256","kid":"k1"}').rstrip(b"=")
    said = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    body = base64.urlsafe_b64encode(json.dumps(said).encode()).rstrip(b"=")
    signature = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256).sign(
        head + b"." + body, rsa_key()
    )
    token = b".".join((head, body, base64.urlsafe_b64encode(signature).rstrip(b"=")))
    assert verdict(token.decode(), keys_url=keys) == TokenRejected(why)


def test_clocks_may_differ_a_little(keys: str) -> None:
    over = int(time.time()) - 5  # of this moment: the skew that is allowed is half a minute
    assert verdict(signed(rsa_key(), exp=over), keys_url=keys) == TokenAccepted(
        "alice", over * 1000
    )
    late = verdict(signed(rsa_key(), exp=over), keys_url=keys, skew_s=0)
    assert late == TokenRejected("the token is over")


def test_a_key_signs_as_its_set_says_and_a_token_that_names_none_is_of_the_only_one(
    tmp_path: Path,
) -> None:
    url = key_file(tmp_path, public(rsa_key(), kid="k1", alg="RS256"))
    assert verdict(signed(rsa_key(), key_id=None), keys_url=url) == ACCEPTED
    assert verdict(signed(rsa_key(), "RS512"), keys_url=url) == TokenRejected(WRONG_KIND)


def test_a_set_may_have_keys_for_others(tmp_path: Path) -> None:
    url = key_file(
        tmp_path,
        {"kty": "oct", "k": "c2VjcmV0", "kid": "k0"},
        {"kty": "EC", "crv": "of tomorrow", "kid": "k3"},
        {"kty": "RSA", "kid": [], "alg": []},
        "no key",
        public(ec_key(), kid="k2", use="enc"),
        public(rsa_key(), kid="k1"),
    )
    assert verdict(signed(rsa_key()), keys_url=url) == ACCEPTED


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "gives no keys: No such file or directory"),
        ("no JSON", "gives no JSON Web Key Set"),
        ("[" * 100_000, "gives no JSON Web Key Set"),
        ('{"keys": 5}', "gives no JSON Web Key Set"),
        ('{"keys": []}', "has no public key that is known here"),
    ],
)
def test_a_file_without_keys_is_told_at_the_start(
    tmp_path: Path, text: str | None, why: str
) -> None:
    path = tmp_path / "keys.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingRefused) as refused:
        checker_of(JwtRules(path.as_uri()))
    assert str(refused.value) == f"sasl.oauthbearer.jwks.endpoint.url: {path.as_uri()} {why}."


def answer(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def k1() -> dict[str, Any]:
    return public(rsa_key(), kid="k1")


def checked(check: Any, token: str) -> TokenVerdict:
    found: TokenVerdict = check(TokenCheck(token, {}))
    return found


def no_keys(server: WebServer, status: int) -> TokenRejected:
    return TokenRejected(f"{server.address}/keys gives no keys: HTTP status {status}")


def rules(server: WebServer, **facts: Any) -> JwtRules:
    return JwtRules(f"{server.address}/keys?secret=s", **facts)


def test_keys_are_fetched_once_and_for_a_new_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwt_checks, "BETWEEN_FETCHES_S", 0.0)
    with web_server(200, answer(k1())) as server:
        check = checker_of(rules(server))
        assert [checked(check, signed(rsa_key())) for _ in range(3)] == [ACCEPTED] * 3
        assert len(server.requests) == 1
        server.body = answer(k1(), public(ec_key(), kid="k2"))
        assert checked(check, signed(ec_key(), "ES256", "k2")) == ACCEPTED
        assert len(server.requests) == 2


def test_unknown_keys_do_not_make_the_broker_ask_each_time() -> None:
    with web_server(200, answer(k1())) as server:
        check = checker_of(rules(server))
        for number in range(5):
            checked(check, signed(rsa_key(), key_id=f"x{number}"))
        assert len(server.requests) == 1


def test_an_issuer_that_is_away_keeps_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwt_checks, "BETWEEN_FETCHES_S", 0.0)
    with web_server(200, answer(k1())) as server:
        check = checker_of(rules(server, refresh_ms=0))
        assert checked(check, signed(rsa_key())) == ACCEPTED
        server.status, server.body = 503, b""
        assert checked(check, signed(rsa_key())) == ACCEPTED
        assert len(server.requests) == 2
        assert checked(check, signed(rsa_key(), key_id="x")) == no_keys(server, 503)


def test_an_issuer_without_keys_is_named_until_it_is_asked_again() -> None:
    with web_server(503, b"") as server:
        check = checker_of(rules(server))
        assert [checked(check, signed(rsa_key())) for _ in range(3)] == [no_keys(server, 503)] * 3
        assert len(server.requests) == 1


def test_keys_come_from_the_server_that_was_named_alone(keys: str) -> None:
    with web_server(302, keys.encode()) as server:
        assert checked(checker_of(rules(server)), signed(rsa_key())) == no_keys(server, 302)


def test_a_function_looks_at_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    found: Any = ("alice", 5.5)

    def look(token: str) -> Any:
        if token == "bad":
            raise ValueError(token)
        return found

    name = plant(monkeypatch, look)
    check = checker_of(TokenCheckFunction(name))
    assert check(TokenCheck("good", {})) == TokenAccepted("alice", 5_500)
    assert check(TokenCheck("bad", {})) == TokenRejected(f"the function {name} raised ValueError")
    found = None
    assert check(TokenCheck("good", {})) == TokenRejected(
        f"the function {name} does not accept the token"
    )
    found = True
    assert check(TokenCheck("good", {})) == TokenRejected(
        f"the function {name} must return the user and the second since 1970 when the token "
        "ends, or None, not a bool"
    )


@pytest.mark.parametrize("raised", [SystemExit, asyncio.CancelledError, KeyboardInterrupt])
def test_a_function_that_would_end_its_thread_rejects_the_token(
    monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:

    def look(_token: str) -> Any:
        raise raised

    name = plant(monkeypatch, look)
    assert checker_of(TokenCheckFunction(name))(TokenCheck("any", {})) == TokenRejected(
        f"the function {name} raised {raised.__name__}"
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "no.such:f",
            "sasl.server.callback.handler.class: no.such:f cannot be loaded: ModuleNotFoundError: "
            "No module named 'no'.",
        ),
        (
            "time:no",
            "sasl.server.callback.handler.class: time:no cannot be loaded: AttributeError: "
            "module 'time' has no attribute 'no'.",
        ),
        (
            "time:tzname",
            "sasl.server.callback.handler.class must name a Python function as module:function, "
            "not 'time:tzname'.",
        ),
        (
            "org.apache.X",
            "sasl.server.callback.handler.class must name a Python function as module:function, "
            "not 'org.apache.X'.",
        ),
    ],
)
def test_a_function_that_is_none_is_told_at_the_start(name: str, why: str) -> None:
    with pytest.raises(SettingRefused) as refused:
        checker_of(TokenCheckFunction(name))
    assert str(refused.value) == why
