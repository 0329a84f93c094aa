"""The command `apportion doctor`: options and help."""

import os
from typing import Annotated

import typer

from apportion.cli.arguments import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_MS,
    AsJson,
    Bootstrap,
    CommandConfig,
    Timeout,
    group_names,
    topic_names,
)
from apportion.cli.asked import Asked


def doctor(
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="GROUP",
            help="The query's kafka.group.id.",
            autocompletion=group_names,
            show_default=False,
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC",
            help="A topic that the query reads. May be given more than once.",
            autocompletion=topic_names,
            show_default=False,
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY", help="The query's checkpointLocation.", show_default=False
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The Delta table of delta.Writer.", show_default=False),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Check what a Spark query needs, and say what to do where it is missing.

    It looks at this Python, Spark's packages, Java, the Python of Spark's
    workers, the cluster and the login, the topics, the group, the checkpoint
    and the table. It changes nothing and joins no group. The exit code is 1
    if a check failed.

    \b
    apportion doctor --group etl --topic flights --checkpoint checkpoints/v1 --table lake/flights
    apportion doctor --bootstrap kafka:9093 --command-config client.properties --json
    """
    environment = dict(os.environ)  # before apportion.spark is imported, which may set a variable
    from apportion.cli.doctor.examination import examine
    from apportion.cli.doctor.subjects import Subjects

    asked = Asked("doctor", bootstrap, timeout_ms, as_json, command_config)
    subjects = Subjects(group, tuple(topic or ()), checkpoint, table)
    raise typer.Exit(examine(asked, subjects, environment))
