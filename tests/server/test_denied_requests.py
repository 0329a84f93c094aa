"""The broker's log line about a request that its caller has no permission for."""

import logging

import pytest

from apportion.broker import BrokerSecurity, EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.client.security_options import client_security
from apportion.errors import Code, Refused


def test_a_denied_request_has_a_line_and_its_repetitions_a_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="apportion.server")
    security = BrokerSecurity(
        protocol="SASL_PLAINTEXT",
        users={"alice": "a-secret", "bob": "b-secret"},
        mechanisms=["PLAIN"],
        super_users=["User:alice"],
    )
    with EmbeddedBroker(security=security) as broker:
        for user in ("alice", "bob"):
            options = client_security(broker.client_options(user))
            cluster = Cluster(broker.bootstrap, security=options)
            for _ in range(3):
                try:
                    cluster.find_coordinator("etl\n\x1b[2J")
                    cluster.forget_coordinator("etl\n\x1b[2J")
                except Refused as refused:
                    assert (user, refused.code) == ("bob", Code.GROUP_AUTHORIZATION_FAILED)
                else:
                    assert user == "alice"
            cluster.close()
    caller = "of User:bob from 127.0.0.1"
    what = "FindCoordinator: no permission for DESCRIBE on the group 'etl\\n\\x1b[2J'"
    lines = [record for record in caplog.records if "denied" in record.getMessage()]
    assert [record.getMessage() for record in lines] == [
        f"denied a request {caller}, {what}",
        f"denied 2 more requests {caller}, the last one {what}",
    ]
    assert {record.levelname for record in lines} == {"INFO"}
