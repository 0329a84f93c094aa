"""Names of groups and of their settings, for Tab's completions."""

from collections.abc import Callable

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
    bootstrap: str, prefix: str, is_offered: Callable[[ListedGroup], bool] | None = None
) -> list[str]:
    """Return the names of groups that begin with `prefix`, in order, for Tab's completions.

    There are none if the cluster does not reply at once, or with an error.
    """

    def read(cluster: Cluster) -> list[str]:
        groups = cluster.list_groups()
        return [each.group_id for each in groups if is_offered is None or is_offered(each)]

    return names_of_cluster(bootstrap, prefix, read)


def group_setting_names(bootstrap: str, prefix: str) -> list[str]:
    """Return the names of settings of groups that begin with `prefix`, as `group_names` does."""

    def read(cluster: Cluster) -> list[str]:
        return [*cluster.run(send_until_accepted(DescribeConfigsQuery(GROUP, ANY_GROUP)))]

    return names_of_cluster(bootstrap, prefix, read)


def names_of_cluster(
    bootstrap: str, prefix: str, read: Callable[[Cluster], list[str]]
) -> list[str]:
    """Return those names that `read` finds which begin with `prefix`; none if it fails."""
    try:
        cluster = Cluster(bootstrap, timeout_ms=COMPLETION_TIMEOUT_MS)
    except ValueError:
        return []
    try:
        names = read(cluster)
    # An error message in the middle of a command line would be worse than no completions.
    except (Refused, Disconnected):
        return []
    finally:
        cluster.close()
    return [name for name in names if name.startswith(prefix)]
