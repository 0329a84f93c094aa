"""A query whose ACLs are taken away while it runs: what it waits for, and what ends it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from apportion.broker import AclBinding, BrokerSecurity, EmbeddedBroker, ResourceType
from apportion.client.cluster import Cluster
from apportion.client.security_options import client_security
from apportion.member.cluster_queries.acls import DeleteAclsQuery
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.security.acls import AclFilter
from tests.node.acl_requests import acl, creating
from tests.spark.harness import Pipeline, until
from tests.spark.secured_pipeline import pipeline_of_alice

NAME = "lost-acls"
OF_TOPIC = acl(f"{NAME}-topic")
OF_GROUP = acl(f"{NAME}-group", resource_type=ResourceType.GROUP)


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[tuple[EmbeddedBroker, Pipeline]]:
    security = BrokerSecurity(
        protocol="SASL_PLAINTEXT",
        users={"admin": "a", "alice": "b"},
        mechanisms=["PLAIN"],
        super_users=["User:admin"],
        acls=(OF_TOPIC, OF_GROUP),
    )
    with pipeline_of_alice(security, tmp_path, NAME, 2) as made:
        yield made


def test_a_query_waits_for_its_topic_and_ends_without_its_group(
    secured: tuple[EmbeddedBroker, Pipeline], tmp_path: Path
) -> None:
    broker, pipeline = secured
    admin = Cluster(broker.bootstrap, security=client_security(broker.client_options("admin")))

    def take_away(binding: AclBinding) -> None:
        admin.run(send_until_accepted(DeleteAclsQuery((AclFilter(*binding),))))

    def log() -> str:
        return (tmp_path / "first.log").read_text(errors="replace")

    pipeline.produce(20)
    first = pipeline.start("first")
    pipeline.until_written()
    take_away(OF_TOPIC)
    # Whichever is refused first says it: the reader, or the planner's ListOffsets by its name.
    line = re.compile(
        f"group {NAME}-group: TOPIC_AUTHORIZATION_FAILED: "
        rf"(ListOffsets of {NAME}-topic-\d: )?this client's principal has no permission"
    )
    until(lambda: line.search(log()), what="a line about the topic", also=[first])
    pipeline.produce(20)
    admin.call(creating(OF_TOPIC))
    pipeline.until_written()
    assert f"group {NAME}-group: reading again" in log()
    take_away(OF_GROUP)
    assert first.process.wait(60) == 1
    assert (
        f"MembershipFailed: group {NAME}-group: GROUP_AUTHORIZATION_FAILED: this client's "
        f"principal has no permission for READ on the group '{NAME}-group'; "
    ) in log()
    assert pipeline.rows() == pipeline.expected()
    admin.close()
