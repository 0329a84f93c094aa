"""`apportion acls list`: who may do what with what."""

from collections.abc import Iterable, Sequence

from apportion.cli.acls.entries import check_principal
from apportion.cli.acls.report import NO_ACL, acl_report, counted, print_acls, read_acls
from apportion.cli.acls.resources import LITERAL, PATTERNS, ResourcePattern, TypedResources
from apportion.cli.asked import Asked, Report
from apportion.cli.cluster_reports import print_report
from apportion.cli.lines import print_sentence, row_console
from apportion.client.cluster import Cluster
from apportion.security.acls import AclBinding, AclFilter, PatternType


def list_acls(asked: Asked, typed: TypedResources, principals: Sequence[str]) -> int:
    """Print the ACLs of the named resources and principals, or all; return the exit code."""
    resources = typed.patterns(PATTERNS)
    filters = principal_filters(resources, principals)
    more: list[AclBinding] = []

    def read(cluster: Cluster) -> list[Report]:
        found = read_acls(cluster, filters)
        if typed.pattern.lower() == LITERAL and resources and not asked.as_json:
            wider = (each._replace(pattern_type=PatternType.MATCH) for each in resources)
            matching = read_acls(cluster, principal_filters(tuple(wider), principals))
            more.extend(acl for acl in matching if acl not in found)
        return [acl_report(acl) for acl in found]

    def show(rows: list[Report]) -> None:
        if rows:
            print_acls(rows)
        else:
            print_sentence(
                row_console(), NO_ACL if resources or principals else "There are no ACLs."
            )
        if more:
            print_sentence(
                row_console(),
                f"{counted(len(more))} about these, too, by a prefix or by *: "
                "--resource-pattern-type match shows all.",
            )

    return print_report(asked, read, show)


def principal_filters(
    resources: tuple[ResourcePattern, ...], principals: Iterable[str]
) -> tuple[AclFilter, ...]:
    """Return filters of every ACL of the resources, or of all, for the principals, or for all.

    Raises WrongArguments.
    """
    named = tuple(dict.fromkeys(principals))
    for principal in named:
        check_principal("--principal", principal)
    return tuple(
        AclFilter(*resource, principal)
        for resource in resources or (ResourcePattern(),)
        for principal in named or (None,)
    )
