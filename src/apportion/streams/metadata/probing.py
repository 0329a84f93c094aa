"""Version probing (KIP-268): which metadata version a Streams group uses during a rolling upgrade.

Problem. Members of several releases are in one group. Each subscription is encoded in a metadata
version ("used") and names the newest one its sender supports. A leader can decode versions up to
its own newest; of a subscription from the future it reads the two numbers only. The group has to
keep working during the bounce and end in the newest version that all members support.

Method. A rebalance has two pure decisions, numbers in and numbers out:
1. The leader (`decide_versions`): assignments use the lowest version that any member used. For
   members from the future it depends on the leader's release: it fails (before 2.0), sends them an
   empty assignment with its own version so that they downgrade and rejoin (2.0 to 2.3), or assigns
   tasks to them like to all others and publishes the version that all support (since 2.4).
2. Each member (`next_subscription_version`): compares its own version with the two numbers of its
   assignment and decides the version of its next subscription, and whether to rejoin at once.

No message says that the last old member has left. It follows from the supported versions: once all
support a higher one than is used, the upgrade is pending; until 2.3 the leader triggers the
rebalance that finishes it, since 2.4 every member rejoins by itself.

Why it ends: after a rebalance in which all members answered, each member uses the version that all
support, and the decisions no longer ask anybody to rejoin.

Example (since 2.4). a and b support 11; b is bounced to a release that supports 12 and subscribes
in 12. The leader a answers in version 11, common version 11; b steps down to 11. Then a is bounced:
the common version is 12, and both rejoin with 12.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from apportion.errors import Code, Refused
from apportion.streams.metadata.model import EARLIEST_PROBEABLE, NO_VERSION
from apportion.streams.metadata.releases import Release, VersionNegotiation


class MetadataVersions(NamedTuple):
    """The two version numbers of a subscription or an assignment.

    used: the version it is encoded in. supported: the newest version that its sender supports, or
    in an assignment the newest that all members support.
    """

    used: int
    supported: int = NO_VERSION

    @property
    def understood(self) -> int:
        """The newest version that the sender decodes; versions 1 and 2 do not name it."""
        return self.used if self.supported == NO_VERSION else self.supported


class VersionDecision(NamedTuple):
    """Decision of a leader from the metadata versions of its members.

    versions: of every assignment. future_members: those whose subscriptions it cannot decode.
    empty_members: those that get no tasks and are sent `future_versions`. upgrade_pending: all
    members support a higher version than some member still uses.
    """

    versions: MetadataVersions
    future_members: tuple[str, ...]
    empty_members: tuple[str, ...]
    future_versions: MetadataVersions
    upgrade_pending: bool


class NextVersion(NamedTuple):
    """The version of a member's next subscription.

    rejoin_reason: why the member rejoins at once, for the JoinGroup request; None if it does not.
    """

    used: int
    rejoin_reason: str | None = None


def decide_versions(
    subscribed: Mapping[str, MetadataVersions], release: Release
) -> VersionDecision:
    """Decide the metadata versions of one Streams assignment, for the leader (KIP-268).

    subscribed: the versions of every member by id, the leader included. release: the leader's.
    Raises Refused for impossible numbers, and if no release can lead such a group: one member from
    before probing and one from the future.
    """
    latest, negotiation = release.newest_version, release.negotiation
    future = tuple(member for member in sorted(subscribed) if subscribed[member].used > latest)
    for member, versions in sorted(subscribed.items()):
        # No Kafka Streams sends this; accepting it would let one faulty member lower or raise the
        # version of the whole group.
        if versions.used < 1 or versions.understood < versions.used:
            why = (
                f"member {member!r} speaks metadata version {versions.used} and says to support "
                f"{versions.supported}"
            )
            raise Refused(Code.INVALID_REQUEST, why)
    # The lowest version in use is the one that every member can decode.
    used = min([latest, *(versions.used for versions in subscribed.values())])
    if future and (negotiation is VersionNegotiation.FAILS or used < EARLIEST_PROBEABLE):
        why = (
            f"member {future[0]!r} speaks metadata version {subscribed[future[0]].used}, this "
            f"leader understands {latest}"
        )
        cause = (
            "which cannot probe"
            if negotiation is VersionNegotiation.FAILS
            else f"and another member speaks {used}, which cannot probe"
        )
        raise Refused(
            Code.INCONSISTENT_GROUP_PROTOCOL, f"{why}, {cause}: stop it, or set its upgrade.from"
        )
    # 2.0 to 2.3 publish the leader's own version; since 2.4 the common one (Kafka's
    # commonlySupportedVersion), by which each member steps up or down by itself.
    common = min([latest, *(versions.understood for versions in subscribed.values())])
    if negotiation is VersionNegotiation.SHARES:
        versions = _versions_in(used, common)
        return VersionDecision(versions, future, (), versions, upgrade_pending=used < common)
    versions = _versions_in(used, latest)
    # Until 2.3 the members from the future are sent the leader's newest version as both numbers:
    # that is what they step down to (KIP-268).
    return VersionDecision(
        versions, future, future, MetadataVersions(latest, latest), upgrade_pending=used < common
    )


def _versions_in(used: int, supported: int) -> MetadataVersions:
    # Versions 1 and 2 have no field for the common version, so nothing can be announced in them.
    return MetadataVersions(used, supported if used >= EARLIEST_PROBEABLE else NO_VERSION)


def next_subscription_version(
    sent: int, received: MetadataVersions, release: Release, leads_unfinished: bool = False
) -> NextVersion:
    """Decide the metadata version of a Streams member's next subscription from its assignment.

    `member/streams` asks for each SyncGroup response. sent: the version of its last subscription.
    release: the member's. leads_unfinished: it is the leader, and its `VersionDecision` had
    `upgrade_pending`.

    Raises Refused for an assignment above `sent`, or with a common version above what the release
    understands: such an answer comes from no known leader.
    """
    latest, negotiation = release.newest_version, release.negotiation
    # A leader takes the minimum of all used versions, and this member's own is one of them.
    if received.used > sent:
        why = (
            f"version {sent} was sent and version {received.used} came back: an assignment "
            "never goes beyond its subscription"
        )
        raise Refused(Code.INVALID_REQUEST, why)
    # The common version is a minimum over members that include this one, so it cannot exceed what
    # this member announced.
    if negotiation is VersionNegotiation.SHARES and received.supported > latest:
        raise Refused(
            Code.INVALID_REQUEST,
            f"all are said to support version {received.supported}; this member "
            f"understands {latest}",
        )
    # KIP-268: below version 3 there is no probing. Such a group moves up by a second rolling
    # bounce, without upgrade.from.
    if received.used < EARLIEST_PROBEABLE:
        return NextVersion(sent)
    return _NEXT_VERSION[negotiation](sent, received, latest, leads_unfinished)


def _after_probing(
    sent: int, received: MetadataVersions, latest: int, leads_unfinished: bool
) -> NextVersion:
    """Return a Streams member's next metadata version, by the leader's own version (2.0 to 2.3).

    KIP-268: after an empty assignment the member goes down to the leader's version and rejoins.
    Only the leader rejoins to go up; the others follow in the rebalance that it starts.
    """
    # The assignment was empty, so nothing is lost by rejoining before it is adopted.
    if received.understood < sent:
        return NextVersion(
            received.understood, f"the leader understands version {received.understood}, not {sent}"
        )
    # Only the leader sees all supported versions. It steps up first; the rebalance that it starts
    # tells the others.
    used = min(received.understood, latest)
    return NextVersion(used, f"all understand version {used} now" if leads_unfinished else None)


def _after_common_version(
    sent: int, received: MetadataVersions, _latest: int, _leads_unfinished: bool
) -> NextVersion:
    """Return a Streams member's next metadata version, by what all members support (since 2.4).

    For `next_subscription_version`, after SyncGroup; `received.supported` is that common version.
    """
    # The common version is compared before the used one: with both a higher common and a lower used
    # version, stepping up ends the upgrade in one rebalance.
    if received.supported > sent:
        return NextVersion(received.supported, f"all understand version {received.supported} now")
    if received.supported < sent:
        return NextVersion(
            received.supported, f"somebody understands no more than version {received.supported}"
        )
    # Some member still uses a lower version. That member steps up by itself, from this same
    # assignment, so rejoining is not needed; Kafka 4.4.0 rejoins here, too.
    if received.used < sent:
        return NextVersion(sent, f"somebody speaks version {received.used} yet")
    return NextVersion(sent)


def _unchanged(
    sent: int, _received: MetadataVersions, _latest: int, _leads_unfinished: bool
) -> NextVersion:
    """Return the same metadata version: Streams members from before 2.0 have no version probing."""
    return NextVersion(sent)


# All three have the signature of this table, so two of them ignore arguments.
_NEXT_VERSION: dict[
    VersionNegotiation, Callable[[int, MetadataVersions, int, bool], NextVersion]
] = {
    VersionNegotiation.FAILS: _unchanged,
    VersionNegotiation.PROBES: _after_probing,
    VersionNegotiation.SHARES: _after_common_version,
}
