"""Requests about SCRAM credentials, and what their responses say."""

from typing import Any

from apportion.security.scram_credentials import ScramMechanism, salted_password
from apportion.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from apportion.wire.messages.describe_user_scram_credentials import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    DescribeUserScramCredentialsRequest,
)
from tests.messages import request

SALTED = {SCRAM_SHA_256: bytes(range(32)), SCRAM_SHA_512: bytes(range(64))}
NO_MECHANISM = 7


Change = dict[str, Any]


def upsertion(name: str, mechanism: int = SCRAM_SHA_256, **fields: Any) -> Change:
    """A credential with an invented salted password."""
    secret = {"salt": b"a salt", "salted_password": SALTED.get(mechanism, b"?")}
    return {"name": name, "mechanism": mechanism, "iterations": 4_096} | secret | fields


def deletion(name: str, mechanism: int = SCRAM_SHA_256) -> Change:
    return {"name": name, "mechanism": mechanism}


def altering(*changes: Change) -> Any:
    """A request with these deletions and upsertions."""
    return request(
        "AlterUserScramCredentials",
        deletions=[each for each in changes if "salt" not in each],
        upsertions=[each for each in changes if "salt" in each],
    )


def with_password(password: str, mechanism: int, *names: str, iterations: int = 4_096) -> Any:
    """The request that gives these users the password."""
    kind = list(ScramMechanism)[mechanism - 1]
    secret = salted_password(kind, password, b"a salt", iterations)
    facts: Change = {"iterations": iterations, "salted_password": secret}
    return altering(*(upsertion(name, mechanism, **facts) for name in names))


def describing(*users: str) -> Any:
    return request("DescribeUserScramCredentials", users=[{"name": name} for name in users])


def codes(response: Any) -> dict[str, int]:
    """The code of each user."""
    found = {result.user: result.error_code for result in response.results}
    assert len(found) == len(response.results)
    return found


def described(response: Any) -> dict[str, dict[int, int] | int]:
    """The iterations of each mechanism of each user, or why there are none."""
    assert (response.error_code, response.error_message) == (0, "")
    return {
        result.user: result.error_code
        or {info.mechanism: info.iterations for info in result.credential_infos}
        for result in response.results
    }


SAME_AS_KAFKA = {
    "a credential": altering(upsertion("alice")),
    "two mechanisms of one user": altering(
        upsertion("bob", SCRAM_SHA_256), upsertion("bob", SCRAM_SHA_512)
    ),
    "one credential twice": altering(*[upsertion("carl")] * 3),
    "deleted and set": altering(deletion("alice"), upsertion("alice")),
    "deleted and another one set": altering(deletion("alice"), upsertion("alice", SCRAM_SHA_512)),
    "not there, and set": altering(deletion("zed"), upsertion("zed")),
    "wrong, and then right": altering(upsertion("yan", iterations=9), upsertion("yan")),
    "right, and then wrong": altering(upsertion("yan"), upsertion("yan", iterations=9)),
    "deleted twice": altering(deletion("alice"), deletion("alice")),
    "deleted, and not there": altering(deletion("nobody"), deletion("alice", SCRAM_SHA_512)),
    "deleted of no mechanism": altering(deletion("alice", NO_MECHANISM), deletion("x", -1)),
    "deleted without a name": altering(deletion("", NO_MECHANISM)),
    "set without a name": altering(upsertion("", NO_MECHANISM, iterations=1)),
    "set of no mechanism": altering(upsertion("m", NO_MECHANISM, iterations=1)),
    "iterations": altering(
        *(upsertion(f"i{count}", iterations=count) for count in (-1, 4_095, 4_096, 16_384, 16_385))
    ),
    "names": altering(*map(upsertion, ("a b", "näme", "a,b=c", "x" * 300, "tab\t"))),
    "a mixture": altering(
        deletion("alice"), deletion("bob"), upsertion("dora"), upsertion("eve", iterations=1)
    ),
    "nothing": altering(),
}
"""Requests in this order, to which a real Kafka answers with the same codes."""
DESCRIBED_AS_KAFKA = {
    "all": describing(),
    "all by null": request("DescribeUserScramCredentials", users=None),
    "some": describing("dora", "nobody", "alice", ""),
    "twice": describing("dora", "dora", "nobody", "nobody", "a b"),
}
"""Requests that a real Kafka answers alike, after those above."""
USERS_NAMED_TWICE = {
    (AlterUserScramCredentialsRequest, ("deletions",)),
    (AlterUserScramCredentialsRequest, ("upsertions",)),
    (DescribeUserScramCredentialsRequest, ("users",)),
}
"""The lists in which the requests above name a user twice."""
