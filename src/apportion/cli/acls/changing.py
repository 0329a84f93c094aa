"""`apportion acls add` and `remove`."""

from collections.abc import Sequence

from apportion.cli.acls.entries import TypedEntries, acl_bindings, acl_filters
from apportion.cli.acls.listing import principal_filters
from apportion.cli.acls.report import NO_ACL, acl_report, counted, print_acls, read_acls
from apportion.cli.acls.resources import OPTIONS, OWN_PATTERNS, PATTERNS, TypedResources
from apportion.cli.asked import Asked, Report
from apportion.cli.cluster_reports import ReportedChange, print_change
from apportion.cli.denials import advised
from apportion.cli.failures import WrongArguments
from apportion.cli.lines import print_dry_run, print_sentence, row_console
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.errors import Refused
from apportion.member.cluster_queries.acls import CreateAclsQuery, DeleteAclsQuery
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.security.acls import AclBinding, AclFilter, AclOperation

THERE_ALREADY = "there already"
STILL_THERE = "still there"
DRY_ADD = "Nothing was changed: leave --dry-run out to add them."
ONLY_ALL = "Without --operation just those of All are removed: name others, or --principal."


def add_acls(asked: Asked, resources: TypedResources, entries: TypedEntries, dry_run: bool) -> int:
    """Add the ACLs that are not there yet; return the exit code."""
    wanted = acl_bindings(entries, resources.patterns(OWN_PATTERNS))

    def change(cluster: Cluster) -> ReportedChange[list[Report]]:
        filters = [AclFilter(*acl) for acl in wanted]
        there = read_acls(cluster, filters)
        new = tuple(acl for acl in wanted if acl not in there)
        results: tuple[Refused | None, ...] = (None,) * len(new)
        if new and not dry_run:
            results = cluster.run(send_until_accepted(CreateAclsQuery(new)))
        failures = [_denied(each) for each in results if each is not None]
        added = [acl for acl, error in zip(new, results, strict=True) if error is None]
        rows = [
            acl_report(acl)
            | {
                "added": acl in added and not dry_run,
                "note": THERE_ALREADY if acl in there else None,
            }
            for acl in wanted
            if acl in there or acl in added
        ]
        # One sentence for all that have the same reason.
        by_text = {str(each): each for each in failures}
        return ReportedChange(rows, [*by_text.values()])

    def show(rows: list[Report]) -> None:
        print_acls(rows)
        count = sum(row["added"] for row in rows)
        print_sentence(row_console(), DRY_ADD if dry_run else f"{counted(count)} added.")

    return print_change(asked, change, show)


def remove_acls(
    asked: Asked,
    resources: TypedResources,
    entries: TypedEntries,
    principals: Sequence[str],
    *,
    execute: bool,
) -> int:
    """Show the ACLs that were named, or remove them; return the exit code."""
    filters = _filters_to_remove(resources, entries, principals)

    def change(cluster: Cluster) -> ReportedChange[list[Report]]:
        if not execute:
            found = read_acls(cluster, filters)
            return ReportedChange([acl_report(acl) | {"removed": False} for acl in found], ())
        try:
            gone, failures = cluster.run(send_until_accepted(DeleteAclsQuery(filters)))
        except Refused as refused:
            raise _denied(refused) from None
        left: Sequence[AclBinding] = ()
        reported: list[Exception] = [_denied(each) for each in failures]
        if failures:
            # The response does not say what matches a filter that has failed.
            try:
                left = read_acls(cluster, filters)
            except (Refused, Disconnected) as error:
                reported.append(error)
        rows = [acl_report(acl) | {"removed": acl in gone} for acl in sorted({*gone, *left})]
        return ReportedChange(rows, reported)

    def show(rows: list[Report]) -> None:
        if not rows:
            is_all_alone = entries.is_given and not entries.operations
            has_role = entries.is_producer or entries.is_consumer
            hint = f" {ONLY_ALL}" if is_all_alone and not has_role else ""
            print_sentence(row_console(), f"{NO_ACL}{hint}")
            return
        count = sum(row["removed"] for row in rows)
        is_partial = 0 < count < len(rows)
        notes = {True: "removed", False: STILL_THERE} if is_partial else {}
        print_acls(row | {"note": notes.get(row["removed"])} for row in rows)
        if execute:
            print_sentence(row_console(), f"{counted(count)} removed.")
        else:
            print_dry_run("remove them")

    return print_change(asked, change, show)


def _denied(refused: Refused) -> Refused:
    return advised(refused, "change ACLs", AclOperation.ALTER)


def _filters_to_remove(
    resources: TypedResources, entries: TypedEntries, principals: Sequence[str]
) -> tuple[AclFilter, ...]:
    """Return what to remove; raise WrongArguments where that would be every ACL, or is not clear.

    As in kafka-acls, resources alone stand for all of their ACLs.
    """
    named = resources.patterns(PATTERNS)
    if not entries.is_given:
        if not named and not principals:
            raise WrongArguments(
                "say which ACLs to remove: those of a principal, as --principal User:NAME, or of "
                f"{', '.join(OPTIONS.values())}"
            )
        return principal_filters(named, principals)
    if principals:
        raise WrongArguments(
            "--principal stands for all ACLs of a principal: leave --allow-..., --deny-..., "
            "--operation, --producer and --consumer out"
        )
    return acl_filters(entries, named)
