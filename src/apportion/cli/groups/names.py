"""Names of groups for Tab's completions."""

from collections.abc import Callable

from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.errors import Refused
from apportion.wire.messages.list_groups import ListedGroup

COMPLETION_TIMEOUT_MS = 1_000  # a shell waits for Tab's completions


def group_names(
    bootstrap: str, prefix: str, is_offered: Callable[[ListedGroup], bool] | None = None
) -> list[str]:
    """Return the names of groups that begin with `prefix`, in order, for Tab's completions.

    There are none if the cluster does not reply at once, or with an error.
    """
    try:
        cluster = Cluster(bootstrap, timeout_ms=COMPLETION_TIMEOUT_MS)
    except ValueError:
        return []
    try:
        groups = cluster.list_groups()
    # An error message in the middle of a command line would be worse than no completions.
    except (Refused, Disconnected):
        return []
    finally:
        cluster.close()
    return [
        group.group_id
        for group in groups
        if group.group_id.startswith(prefix) and (is_offered is None or is_offered(group))
    ]
