"""Principals for Tab's completions: of ACLs, and of users of SCRAM."""

from contextlib import suppress

from apportion.cli.groups.names import names_of_cluster
from apportion.cli.typed_cluster import TypedCluster
from apportion.client.cluster import Cluster
from apportion.errors import Refused
from apportion.member.cluster_queries.acls import DescribeAclsQuery
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.member.cluster_queries.scram_users import DescribeUsersQuery
from apportion.security.acls import AclFilter


def principal_names(typed: TypedCluster, prefix: str) -> list[str]:
    """Return the principals that begin with `prefix`, in order, for Tab's completions.

    There are none if the cluster does not reply at once, or with an error.
    """

    def read(cluster: Cluster) -> list[str]:
        found = set()
        with suppress(Refused):  # a cluster without ACLs
            acls = cluster.run(send_until_accepted(DescribeAclsQuery(AclFilter())))
            found |= {acl.principal for acl in acls}
        found |= {f"User:{name}" for name in _users(cluster)}
        return sorted(found)

    return names_of_cluster(typed, prefix, read)


def user_names(typed: TypedCluster, prefix: str) -> list[str]:
    """Return the users of SCRAM that begin with `prefix`, as `principal_names` does."""
    return names_of_cluster(typed, prefix, lambda cluster: sorted(_users(cluster)))


def _users(cluster: Cluster) -> set[str]:
    return {each.user for each in cluster.run(send_until_accepted(DescribeUsersQuery()))}
