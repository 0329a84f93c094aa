"""Names of groups and of their settings, for Tab's completions."""

from collections.abc import Callable

from apportion.cli.command_config import command_security
from apportion.cli.failures import WrongArguments
from apportion.cli.typed_cluster import TypedCluster
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.errors import Refused
from apportion.member.cluster_queries.configs import DescribeConfigsQuery
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.wire.messages.describe_configs import GROUP
from apportion.wire.messages.list_groups import ListedGroup

COMPLETION_TIMEOUT_MS = 1_000  # a shell waits for Tab's completions
ANY_GROUP = "any"  # every group, existing or not, has the same names of settings


def group_names(
    typed: TypedCluster, prefix: str, is_offered: Callable[[ListedGroup], bool] | None = None
) -> list[str]:
    """Return the names of groups that begin with `prefix`, in order, for Tab's completions.

    There are none if the cluster does not reply at once, or with an error.
    """

    def read(cluster: Cluster) -> list[str]:
        groups = cluster.list_groups()
        return [each.group_id for each in groups if is_offered is None or is_offered(each)]

    return names_of_cluster(typed, prefix, read)


def group_setting_names(typed: TypedCluster, prefix: str) -> list[str]:
    """Return the names of settings of groups that begin with `prefix`, as `group_names` does."""

    def read(cluster: Cluster) -> list[str]:
        return [*cluster.run(send_until_accepted(DescribeConfigsQuery(GROUP, ANY_GROUP)))]

    return names_of_cluster(typed, prefix, read)


def names_of_cluster(
    typed: TypedCluster, prefix: str, read: Callable[[Cluster], list[str]]
) -> list[str]:
    """Return those names that `read` finds which begin with `prefix`; none if it fails."""
    try:
        security = command_security(typed.command_config)
        cluster = Cluster(typed.bootstrap, timeout_ms=COMPLETION_TIMEOUT_MS, security=security)
    except (ValueError, WrongArguments):
        return []
    try:
        names = read(cluster)
    # An error message in the middle of a command line would be worse than no completions.
    except (Refused, Disconnected):
        return []
    finally:
        cluster.close()
    return [name for name in names if name.startswith(prefix)]
