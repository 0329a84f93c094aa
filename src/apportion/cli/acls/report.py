"""ACLs as the commands of `apportion acls` read, order and print them."""

from collections.abc import Iterable

from apportion.cli.asked import Report
from apportion.cli.denials import advised
from apportion.cli.tables import Column, Kind, print_table
from apportion.client.cluster import Cluster
from apportion.errors import Refused
from apportion.member.cluster_queries.acls import DescribeAclsQuery
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.security.acls import AclBinding, AclFilter, AclOperation

COLUMNS = {
    "resource": Column("RESOURCE"),
    "name": Column("NAME", Kind.NAME),
    "pattern": Column("PATTERN"),
    "principal": Column("PRINCIPAL", Kind.NAME),
    "host": Column("HOST"),
    "permission": Column("PERMISSION"),
    "operation": Column("OPERATION"),
    "note": Column("NOTE", is_rare=True),
}
NO_ACL = "No ACL matches."


def read_acls(cluster: Cluster, filters: Iterable[AclFilter]) -> tuple[AclBinding, ...]:
    """Return the ACLs that one of the filters matches, in order."""
    try:
        found = [
            acl
            for wanted in filters
            for acl in cluster.run(send_until_accepted(DescribeAclsQuery(wanted)))
        ]
    except Refused as refused:
        raise advised(refused, "show ACLs", AclOperation.DESCRIBE) from None
    return tuple(sorted(dict.fromkeys(found)))


def acl_report(acl: AclBinding) -> Report:
    """Return the report on one ACL, in Kafka's words."""
    return {
        "resource": acl.resource_type.name,
        "name": acl.name,
        "pattern": acl.pattern_type.name,
        "principal": acl.principal,
        "host": acl.host,
        "permission": acl.permission.name,
        "operation": acl.operation.name,
    }


def print_acls(rows: Iterable[Report]) -> None:
    """Print a row for each ACL, with its note if it has one."""
    print_table(COLUMNS, rows)


def counted(count: int) -> str:
    """Return a number of ACLs with its verb, as in `1 ACL is` and `2 ACLs are`."""
    return f"{count} ACL is" if count == 1 else f"{count} ACLs are"
