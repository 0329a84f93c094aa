"""What a start says about security that is allowed, and keeps clients out."""

import logging
from pathlib import Path
from typing import Any

import pytest

from apportion.broker import EmbeddedBroker, SettingRefused
from apportion.security.acls import (
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from apportion.security.authorizer import Acls
from apportion.security.scram_credentials import ScramCredential, ScramMechanism
from apportion.server.assignors import broker_settings
from apportion.server.start_warnings import (
    certificate_warnings,
    unchangeable_acl_warnings,
    user_warnings,
)
from apportion.store.metadata_log import LogEnd, ScramCredentials
from tests.certificates import DAY, Authority
from tests.node.acl_requests import AUTHORIZED
from tests.server.secured import plain_users
from tests.server.tls_peer import MUTUAL, TLS

AUTHORITY = Authority()
SHA_256, SHA_512 = ScramMechanism
SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
}


def warned(caplog: pytest.LogCaptureFixture, settings: dict[str, Any]) -> list[str]:
    """The lines of a start that are warnings."""
    caplog.set_level(logging.INFO, logger="apportion.server")
    with EmbeddedBroker(**settings):
        pass
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


TOKENS = {"sasl.enabled.mechanisms": "OAUTHBEARER", "apportion.oauthbearer.unsecured": "true"}
EVERYTHING = "any client that connects may read and write everything"


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"listeners": "PLAINTEXT://0.0.0.0:0"}, EVERYTHING),
        (TLS | {"listeners": "SSL://[::]:0"}, EVERYTHING),
        (TOKENS | {"listeners": "SASL_PLAINTEXT://0.0.0.0:0"}, EVERYTHING),
        (
            AUTHORIZED | {"listeners": "PLAINTEXT://0.0.0.0:0"},
            "any client that connects can be User:ANONYMOUS, a super user, who may read and write "
            "everything",
        ),
        (
            AUTHORIZED | {"listeners": "PLAINTEXT://0.0.0.0:0", "super.users": "User:CN=admin"},
            "any client that connects can be User:ANONYMOUS, and do what that user may",
        ),
        (
            AUTHORIZED | TOKENS | {"listeners": "SASL_PLAINTEXT://0.0.0.0:0"},
            "by a token without a signature any client that connects can be any user",
        ),
        (MUTUAL | {"listeners": "SSL://0.0.0.0:0"}, None),
        ({"listeners": "localhost:0"}, None),
    ],
)
def test_the_first_line_of_the_log_warns_of_a_listener_that_is_open_to_all(
    caplog: pytest.LogCaptureFixture, settings: dict[str, Any], what: str | None
) -> None:
    expected = [
        f"the listener {settings['listeners']} is reachable from other machines and authenticates "
        f"nobody: {what} (docs/security.md)"
    ]
    warned(caplog, settings)
    first = [record.getMessage() for record in caplog.records][:1]
    assert first == ([] if what is None else expected)


def of_certificate(pem: str, key: str) -> dict[str, Any]:
    return {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.certificate.chain": pem,
        "ssl.keystore.key": key,
    }


def test_an_expired_certificate_is_said_to_be_of_no_use(caplog: pytest.LogCaptureFixture) -> None:
    issued = AUTHORITY.issue("broker", ends_in=-DAY)
    ended = f"{issued.certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S}"
    [line] = warned(caplog, of_certificate(issued.chain_pem(), issued.key_pem()))
    assert line == (
        "clients will refuse the certificate of the listener SSL://127.0.0.1:0: CN=broker has "
        f"expired at {ended} UTC (ssl.keystore.certificate.chain)"
    )


def test_the_certificates_of_a_chain_are_looked_at(tmp_path: Path) -> None:
    broker = AUTHORITY.issue("broker")
    # Of the name of the issuer.
    between = Authority("another CA").issue("CA of a test", ends_in=DAY / 2)
    path = tmp_path / "broker.p12"
    path.write_bytes(broker.pkcs12("s"))
    chain = of_certificate(broker.chain_pem() + between.chain_pem(), broker.key_pem())
    with_ca = of_certificate(
        broker.chain_pem() + between.chain_pem() + AUTHORITY.pem, broker.key_pem()
    )
    store = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(path),
        "ssl.keystore.password": "s",
    }
    ends_s = between.certificate.not_valid_after_utc.timestamp()
    begins_s = broker.certificate.not_valid_before_utc.timestamp()
    begins = f"{broker.certificate.not_valid_before_utc:%Y-%m-%d %H:%M:%S}"
    start = "clients will refuse the certificate of the listener SSL://127.0.0.1:0"

    def lines(settings: dict[str, Any], now_s: float) -> list[str]:
        return [*certificate_warnings(broker_settings(settings).listening(), now_s)]

    assert lines(chain, ends_s) == []
    assert lines(chain, ends_s + 1) == [
        f"{start}, unless they trust another certificate of CN=CA of a test: CN=CA of a test has "
        f"expired at {between.certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC "
        "(ssl.keystore.certificate.chain)"
    ]
    # With the CA itself beside it, as where an older CA has vouched for it.
    assert lines(with_ca, ends_s + 1) == []
    assert lines(store, begins_s) == []
    assert lines(store, begins_s - 1) == [
        f"{start}: CN=broker is not valid until {begins} UTC (ssl.keystore.location)"
    ]


def test_a_listener_without_a_user_is_named(caplog: pytest.LogCaptureFixture) -> None:
    assert warned(caplog, SASL) == [
        "nobody can log in at the listener SASL_PLAINTEXT://127.0.0.1:0: there is no user of "
        "SCRAM-SHA-256 and SCRAM-SHA-512. Give one as --add-scram, or by `apportion users add` at "
        "another listener"
    ]


@pytest.mark.parametrize(
    "further",
    [
        TOKENS,
        {
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_users(alice="s"),
        },
    ],
)
def test_other_mechanisms_than_scram_need_no_user_of_it(
    caplog: pytest.LogCaptureFixture, further: dict[str, Any]
) -> None:
    assert warned(caplog, SASL | further) == []


CREDENTIAL = ScramCredential(4_096, b"s", b"k", b"k")


def credentials(sha_256: list[str], sha_512: list[str]) -> ScramCredentials:
    return {
        SHA_256: dict.fromkeys(sha_256, CREDENTIAL),
        SHA_512: dict.fromkeys(sha_512, CREDENTIAL),
    }


@pytest.mark.parametrize(
    ("settings", "users", "lines"),
    [
        (SASL, credentials(["alice"], []), []),
        (SASL | {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}, credentials(["a"], ["a"]), []),
        (
            SASL | {"sasl.enabled.mechanisms": "SCRAM-SHA-256"},
            credentials(["alice"], ["carol", "bob", "alice"]),
            [
                "bob, carol cannot log in: no listener offers SCRAM-SHA-512, and there is no "
                "password for another mechanism (sasl.enabled.mechanisms)"
            ],
        ),
        (
            {"listeners": "127.0.0.1:0"},
            credentials(["alice"], ["alice"]),
            [
                "alice cannot log in: no listener offers SCRAM-SHA-256 and SCRAM-SHA-512, and "
                "there is no password for another mechanism (sasl.enabled.mechanisms)"
            ],
        ),
    ],
)
def test_users_whom_no_listener_lets_in_are_named(
    settings: dict[str, Any], users: ScramCredentials, lines: list[str]
) -> None:
    listening = broker_settings(settings).listening()
    assert [*user_warnings(listening, users)] == lines


def test_super_users_that_nobody_can_be_are_named(caplog: pytest.LogCaptureFixture) -> None:
    users = "\"User:admin\";User:ANONYMOUS;user:bob;'User:carol'"
    assert warned(caplog, AUTHORIZED | {"super.users": users}) == [
        'super.users has "User:admin", which no client is: its quotation marks are a part of the '
        "name; write User:admin",
        "super.users has user:bob, which no client is: every principal here begins with User:, as "
        "User:bob does",
        "super.users has 'User:carol', which no client is: its quotation marks are a part of the "
        "name; write User:carol",
    ]


def test_super_users_without_a_type_are_refused_as_in_kafka() -> None:
    with pytest.raises(SettingRefused) as refused:
        EmbeddedBroker(**AUTHORIZED | {"super.users": "admin"})
    assert str(refused.value) == (
        "super.users has 'admin', which is no principal: write User:admin."
    )


PLAIN = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_users(alice="s"),
}
MAY_ALTER = AclBinding(
    ResourceType.CLUSTER,
    "kafka-cluster",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.ALL,
    AclPermission.ALLOW,
)
NOBODY = "nobody can change ACLs or users:"
NO_ACL = "and no ACL allows one who can log in to ALTER the cluster"


def changers(settings: dict[str, Any], *acls: AclBinding) -> list[str]:
    """What a start says of who may change ACLs, where bob has a password of SCRAM-SHA-256."""
    broker = broker_settings(AUTHORIZED | settings)
    durable = LogEnd(0, credentials(["bob"], []), Acls(acls))
    return [*unchangeable_acl_warnings(broker.listening(), durable, broker)]


def test_a_broker_on_which_nobody_can_change_acls_says_so() -> None:
    assert changers(PLAIN | {"super.users": "User:admin;User:bob"}) == [
        f"{NOBODY} no client can log in as User:admin, User:bob (super.users), {NO_ACL}"
    ]
    assert changers(PLAIN | {"super.users": ""}) == [f"{NOBODY} super.users names nobody, {NO_ACL}"]
    assert changers({"super.users": "User:admin"}) == [
        f"{NOBODY} no client can log in as User:admin (super.users), {NO_ACL}"
    ]
    others = (
        MAY_ALTER._replace(principal="User:carol"),
        MAY_ALTER._replace(operation=AclOperation.CREATE),
    )
    denies = MAY_ALTER._replace(permission=AclPermission.DENY)
    assert changers(PLAIN | {"super.users": ""}, *others, denies) == [
        f"{NOBODY} super.users names nobody, {NO_ACL}"
    ]


@pytest.mark.parametrize(
    "settings",
    [
        PLAIN | {"super.users": "User:admin;User:alice"},
        SASL | {"super.users": "User:bob"},
        {"super.users": "User:ANONYMOUS"},
        {"authorizer.class.name": "", "super.users": ""},
        PLAIN | {"super.users": "", "allow.everyone.if.no.acl.found": "true"},
        PLAIN
        | {
            "super.users": "User:a-token",
            "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
            "apportion.oauthbearer.unsecured": "true",
        },
    ],
)
def test_a_broker_on_which_somebody_may_be_able_to_change_acls_says_nothing(
    settings: dict[str, Any],
) -> None:
    assert changers(settings) == []


def test_an_acl_on_the_cluster_is_enough_to_change_acls() -> None:
    nobody = PLAIN | {"super.users": ""}
    assert changers(nobody, MAY_ALTER) == []
    assert changers(nobody, MAY_ALTER._replace(principal="User:*", host="10.0.0.1")) == []


def test_a_start_says_that_nobody_can_change_acls(caplog: pytest.LogCaptureFixture) -> None:
    assert warned(caplog, AUTHORIZED | {"super.users": "User:admin"}) == [
        f"{NOBODY} no client can log in as User:admin (super.users), {NO_ACL}"
    ]
