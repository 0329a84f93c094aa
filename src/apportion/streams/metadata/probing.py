"""Which metadata version a group speaks: one table for its leader, one for each member (KIP-268), by the manners of their release.

Pure numbers: versions in, versions out. That the last old member is gone is never said; it follows from what the others support.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from apportion.errors import Code, Refused
from apportion.streams.metadata.model import EARLIEST_PROBEABLE, NO_VERSION
from apportion.streams.metadata.releases import Release, VersionNegotiation


class MetadataVersions(NamedTuple):
    """The two version numbers of a subscription or an assignment: the one that it is said in, and the newest that is supported."""

    used: int
    supported: int = NO_VERSION

    @property
    def understood(self) -> int:
        """The newest version that its sender understands; versions 1 and 2 do not say it."""
        return self.used if self.supported == NO_VERSION else self.supported


class VersionDecision(NamedTuple):
    """What a leader makes of the versions of its members.

    spoken: what every assignment says. future: the members whose words it cannot read. empty: those that get nothing, and are
    told so in `spoken_to_future`. unfinished: all understand a higher version than somebody still speaks.
    """

    versions: MetadataVersions
    future_members: tuple[str, ...]
    empty_members: tuple[str, ...]
    future_versions: MetadataVersions
    upgrade_pending: bool


class NextVersion(NamedTuple):
    """What a member speaks from now on, and why it joins again at once; None: it does not."""

    used: int
    rejoin_reason: str | None = None


def decide_versions(said: Mapping[str, MetadataVersions], release: Release) -> VersionDecision:
    """The versions of one assignment. said: of every member by id, the leader's own included. release: the leader's.

    Refused if a version cannot be, or if nobody can lead such a group: one member older than probing and one from the future.
    """
    latest, manners = release.newest_version, release.negotiation
    future = tuple(member for member in sorted(said) if said[member].used > latest)
    for member, spoken in sorted(said.items()):
        if spoken.used < 1 or spoken.understood < spoken.used:
            why = f"member {member!r} speaks metadata version {spoken.used} and says to support {spoken.supported}"
            raise Refused(Code.INVALID_REQUEST, why)
    used = min([latest, *(spoken.used for spoken in said.values())])
    if future and (manners is VersionNegotiation.FAILS or used < EARLIEST_PROBEABLE):
        why = f"member {future[0]!r} speaks metadata version {said[future[0]].used}, this leader understands {latest}"
        other = (
            "which cannot probe" if manners is VersionNegotiation.FAILS else f"and another member speaks {used}, which cannot probe"
        )
        raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, f"{why}, {other}: stop it, or set its upgrade.from")
    common = min([latest, *(spoken.understood for spoken in said.values())])
    if manners is VersionNegotiation.SHARES:
        spoken = _versions_in(used, common)
        return VersionDecision(spoken, future, (), spoken, upgrade_pending=used < common)
    spoken = _versions_in(used, latest)
    return VersionDecision(spoken, future, future, MetadataVersions(latest, latest), upgrade_pending=used < common)


def _versions_in(used: int, supported: int) -> MetadataVersions:
    return MetadataVersions(used, supported if used >= EARLIEST_PROBEABLE else NO_VERSION)


def next_subscription_version(sent: int, heard: MetadataVersions, release: Release, leads_unfinished: bool = False) -> NextVersion:
    """What a member makes of its assignment. sent: the version of its subscription. release: its own.

    leads_unfinished: it leads, and its ruling was `unfinished`. Refused for an assignment in a version above
    `sent`, or with a supported version above what the release understands: the leader does not know what it says.
    """
    latest, manners = release.newest_version, release.negotiation
    if heard.used > sent:
        why = f"version {sent} was sent and version {heard.used} came back: an assignment never goes beyond its subscription"
        raise Refused(Code.INVALID_REQUEST, why)
    if manners is VersionNegotiation.SHARES and heard.supported > latest:
        raise Refused(Code.INVALID_REQUEST, f"all are said to support version {heard.supported}; this member understands {latest}")
    if heard.used < EARLIEST_PROBEABLE:
        return NextVersion(sent)
    return _NEXT_VERSION[manners](sent, heard, latest, leads_unfinished)


def _after_probing(sent: int, heard: MetadataVersions, latest: int, leads_unfinished: bool) -> NextVersion:
    """The leader's own version is what counts: below it, go down and ask again; above it, speak up from the next generation on."""
    if heard.understood < sent:
        return NextVersion(heard.understood, f"the leader understands version {heard.understood}, not {sent}")
    used = min(heard.understood, latest)
    return NextVersion(used, f"all understand version {used} now" if leads_unfinished else None)


def _after_common_version(sent: int, heard: MetadataVersions, latest: int, leads_unfinished: bool) -> NextVersion:
    """What all have in common is what counts, up or down."""
    if heard.supported > sent:
        return NextVersion(heard.supported, f"all understand version {heard.supported} now")
    if heard.supported < sent:
        return NextVersion(heard.supported, f"somebody understands no more than version {heard.supported}")
    if heard.used < sent:  # though whoever says less hears from the same assignment that he need not: 4.3.1 does so, too
        return NextVersion(sent, f"somebody speaks version {heard.used} yet")
    return NextVersion(sent)


def _unchanged(sent: int, heard: MetadataVersions, latest: int, leads_unfinished: bool) -> NextVersion:
    return NextVersion(sent)


_NEXT_VERSION: dict[VersionNegotiation, Callable[[int, MetadataVersions, int, bool], NextVersion]] = {
    VersionNegotiation.FAILS: _unchanged,
    VersionNegotiation.PROBES: _after_probing,
    VersionNegotiation.SHARES: _after_common_version,
}
