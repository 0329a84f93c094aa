"""`apportion users list`: who can log in by SCRAM."""

from collections.abc import Iterable

from apportion.cli.asked import Asked, Report
from apportion.cli.cluster_reports import print_report
from apportion.cli.lines import print_sentence, row_console
from apportion.cli.tables import Column, Kind, print_table
from apportion.cli.users.report import NoSuchUser, read_users, user_report
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected

COLUMNS = {
    "user": Column("USER", Kind.NAME),
    "mechanism": Column("MECHANISM"),
    "iterations": Column("ITERATIONS", Kind.NUMBER),
}


def list_users(asked: Asked, names: Iterable[str]) -> int:
    """Print the credentials of the named users, or of all; return the exit code."""
    named = tuple(dict.fromkeys(names))

    def read(cluster: Cluster) -> list[Report]:
        # Apache Kafka does not answer who may not DESCRIBE the cluster, unless users are
        # named. Only after an answer of that cluster is it likely to be this.
        cluster.nodes()
        try:
            found = read_users(cluster, named)
        except Disconnected as error:
            if named:
                raise
            raise Disconnected(
                f"{error} (Apache Kafka does not answer who may not DESCRIBE the cluster, unless "
                "users are named)"
            ) from None
        users = {each.user for each in found}
        for name in named:
            if name not in users:
                raise NoSuchUser(name, asked.at)
        return [user_report(each) for each in found]

    return print_report(asked, read, _show)


def _show(rows: list[Report]) -> None:
    if not rows:
        print_sentence(row_console(), "There are no SCRAM users.")
        return
    print_table(COLUMNS, rows)
