"""What the log says first of a listener that other machines reach without a proof."""

import logging
from typing import Any

import pytest

from apportion.broker import EmbeddedBroker
from tests.node.acl_requests import AUTHORIZED
from tests.server.tls_peer import MUTUAL, TLS


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        (
            {"listeners": "0.0.0.0:0"},
            [
                "the listener PLAINTEXT://0.0.0.0:0 is reachable from other machines and "
                "authenticates nobody: whoever connects may read and write everything "
                "(docs/security.md)"
            ],
        ),
        (
            TLS | {"listeners": "SSL://[::]:0"},
            [
                "the listener SSL://[::]:0 is reachable from other machines and authenticates "
                "nobody: whoever connects may read and write everything (docs/security.md)"
            ],
        ),
        (
            {
                "listeners": "SASL_PLAINTEXT://0.0.0.0:0",
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "apportion.oauthbearer.unsecured": "true",
            },
            [
                "the listener SASL_PLAINTEXT://0.0.0.0:0 is reachable from other machines and "
                "authenticates nobody: whoever connects may read and write everything "
                "(docs/security.md)"
            ],
        ),
        (
            AUTHORIZED | {"listeners": "0.0.0.0:0"},
            [
                "the listener PLAINTEXT://0.0.0.0:0 is reachable from other machines and "
                "authenticates nobody: whoever connects can be User:ANONYMOUS, a super user, who "
                "may read and write everything (docs/security.md)"
            ],
        ),
        (
            AUTHORIZED | {"listeners": "0.0.0.0:0", "super.users": "User:CN=admin"},
            [
                "the listener PLAINTEXT://0.0.0.0:0 is reachable from other machines and "
                "authenticates nobody: whoever connects can be User:ANONYMOUS, and do what that "
                "user may (docs/security.md)"
            ],
        ),
        (
            AUTHORIZED
            | {
                "listeners": "SASL_PLAINTEXT://0.0.0.0:0",
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "apportion.oauthbearer.unsecured": "true",
            },
            [
                "the listener SASL_PLAINTEXT://0.0.0.0:0 is reachable from other machines and "
                "authenticates nobody: by a token without a signature whoever connects can be any "
                "user (docs/security.md)"
            ],
        ),
        (MUTUAL | {"listeners": "SSL://0.0.0.0:0"}, []),
        ({"listeners": "localhost:0"}, []),
    ],
)
def test_the_first_line_of_the_log_warns_of_a_listener_that_is_open_to_all(
    caplog: pytest.LogCaptureFixture, settings: dict[str, Any], lines: list[str]
) -> None:
    caplog.set_level(logging.INFO, logger="apportion.server")
    with EmbeddedBroker(**settings):
        pass
    assert [record.getMessage() for record in caplog.records][:1] == lines
