"""Commands of a principal without permissions: each names which one is missing, and of what."""

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from apportion.broker import BrokerSecurity, EmbeddedBroker
from apportion.cli.main import app

ADD = "`apportion acls add --allow-principal User:NAME --operation"
GIVES = f"whoever may alter the cluster gives it by {ADD}"
NO_DESCRIBE = "this client's principal has no permission for DESCRIBE on the"
GIVES_READ = f"whoever may alter the cluster gives READ, which includes it, by {ADD} Read"


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The options of a command by which bob, who may do nothing, reaches a broker."""
    security = BrokerSecurity(
        protocol="SASL_PLAINTEXT",
        users={"alice": "a-secret", "bob": "b-secret"},
        mechanisms=["PLAIN"],
        super_users=["User:alice"],
    )
    path = tmp_path_factory.mktemp("bob") / "client.properties"
    with EmbeddedBroker(security=security) as broker:
        properties = broker.client_properties("bob")
        path.write_text("\n".join(f"{name}={value}" for name, value in properties.items()))
        yield ["--bootstrap-server", broker.bootstrap, "--command-config", str(path)]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (
            "groups describe etl --configs",
            "GROUP_AUTHORIZATION_FAILED: User:bob has no permission for DESCRIBE_CONFIGS on group "
            f"etl; {GIVES} DescribeConfigs --group etl`",
        ),
        (
            "topics describe flights",
            f"TOPIC_AUTHORIZATION_FAILED: {NO_DESCRIBE} topic 'flights'; {GIVES_READ} "
            "--topic flights`",
        ),
        (
            "topics create flights --partitions 1",
            "TOPIC_AUTHORIZATION_FAILED: User:bob has no permission for CREATE on topic flights; "
            f"{GIVES} Create --topic flights`",
        ),
    ],
)
def test_a_command_names_the_permission_that_is_missing(
    options: list[str], command: str, why: str
) -> None:
    result = CliRunner().invoke(app, [*command.split(), *options])
    kind = command.split()[0]
    told = (1, "", f"apportion {kind}: {why.removesuffix('`')} --bootstrap {options[1]}`\n")
    assert (result.exit_code, result.stdout, result.stderr) == told
