"""The rolling bounces of an upgrade: one from release to release, or two with `upgrade.from`.

Decided from `releases.py` alone, that is from metadata versions and rebalance protocols; nothing
here knows the instances.
"""

from typing import NamedTuple

from apportion.streams.metadata.releases import (
    BRIDGE_RELEASE,
    RELEASES,
    Release,
    VersionNegotiation,
    known_release,
)

LAST_OF_OLD_RECORDS = "3.4"
"""The last release whose records of some internal topics later releases write otherwise."""


class RollingBounce(NamedTuple):
    """One rolling bounce: each instance in turn is restarted as this release.

    upgrade_from: the value of `upgrade.from` that they run with; None for none.
    """

    release: Release
    upgrade_from: str | None = None

    def __str__(self) -> str:
        """Return the release of this rolling bounce, with its `upgrade.from` if that is set."""
        return (
            self.release.name
            if self.upgrade_from is None
            else f"{self.release.name} with upgrade.from={self.upgrade_from}"
        )


class UpgradePath(NamedTuple):
    """The rolling bounces from one release to another.

    why: one sentence. bridge: the name of a third release, if the first bounce must go to one.
    """

    bounces: tuple[RollingBounce, ...]
    why: str
    bridge: str | None = None

    @property
    def upgrade_from(self) -> str | None:
        """The value of `upgrade.from` during the first of two bounces."""
        return self.bounces[0].upgrade_from


def upgrade_path(from_: str, to: str) -> UpgradePath:
    """Return the rolling bounces from one Kafka Streams release to another, up or down.

    For `apportion streams rehearse`. Raises ValueError, with one sentence, if no rolling bounce
    leads there.
    """
    old, new = known_release(from_), known_release(to)
    # A downgrade is the same mixture of releases in one group, so it needs the same bounces
    # (KIP-268).
    low, high = sorted((old, new), key=_age)
    why = _incompatibility_or_none(low, high)
    if why is None:
        return UpgradePath((RollingBounce(new),), "members of both releases can be in one group")
    middle = _interim_release_or_none(low, high)
    if middle is None:
        known = ", ".join(high.upgrade_from) or "none"
        raise ValueError(
            f"no rolling bounce leads from {old.name} to {new.name}: {why}, and "
            f"{high.name} knows {known} for upgrade.from; "
            f"stop all instances, then start them as {new.name}"
        )
    bridge = None if middle in (old, new) else middle.name
    return UpgradePath(
        (RollingBounce(middle, low.name), RollingBounce(new)),
        f"{why}, which upgrade.from={low.name} avoids",
        bridge,
    )


def topology_caution(from_: str, to: str) -> str:
    """Return why one bounce is not enough for some topologies, as one sentence; "" if it is.

    Members of both releases can share a group, but not read each other's records in the topics of a
    foreign-key join and in repartition topics of tables. Those have changed up to 3.5, says
    Kafka's upgrade guide. Two bounces, which `upgrade_path` asks for by itself, have an
    `upgrade.from` already.
    """
    old, new = known_release(from_), known_release(to)
    is_concerned = (
        LAST_OF_OLD_RECORDS in new.upgrade_from
        and old.name in new.upgrade_from
        and _age(old) <= _AGES[LAST_OF_OLD_RECORDS]
    )
    if not is_concerned or len(upgrade_path(from_, to).bounces) > 1:
        return ""
    return (
        "If the topology has foreign-key joins or repartition topics of tables, make two rolling "
        f"bounces, the first with upgrade.from={old.name}: their records have changed since, and a "
        "rehearsal knows no topology."
    )


def forced_upgrade_path(from_: str, to: str, bounces: int) -> UpgradePath:
    """Return that many rolling bounces between two Streams releases, also where they are too few.

    For `apportion streams rehearse --bounces`. The choice is one bounce without `upgrade.from`, or
    the two that are needed. Raises ValueError as `upgrade_path` does, and for any other number.
    """
    needed = upgrade_path(from_, to)
    if bounces == len(needed.bounces):
        return needed
    # Only the path that is too short is worth forcing: it shows what goes wrong. Needless bounces
    # show nothing.
    if bounces != 1:
        needs = (
            "one bounce is needed"
            if len(needed.bounces) == 1
            else "two bounces are needed, or one by force"
        )
        raise ValueError(f"from {from_} to {to} {needs}, not {bounces}")
    return UpgradePath(
        (RollingBounce(known_release(to)),), "that is what was asked for, not what is needed"
    )


_AGES = {name: age for age, name in enumerate(RELEASES)}


def _age(release: Release) -> int:
    return _AGES[release.name]


def _incompatibility_or_none(low: Release, high: Release) -> str | None:
    """Return why two Streams releases need `upgrade.from` to share a group; None if they do not."""
    # KIP-268: members from before 2.0 fail on a version from the future, so the new members must
    # use the old version (`upgrade.from`) until all old ones are gone.
    if low.negotiation is VersionNegotiation.FAILS and high.newest_version > low.newest_version:
        return (
            f"a leader of {low.name} fails when a member speaks metadata version "
            f"{high.newest_version}"
        )
    # KIP-429: an eager leader assigns partitions at once that a cooperative member still reads.
    if low.cooperative != high.cooperative:
        return (
            f"members of {low.name if low.eager and not low.cooperative else high.name} "
            "rebalance eagerly"
        )
    return None


def _interim_release_or_none(low: Release, high: Release) -> Release | None:
    """Return the Streams release of the first of two bounces: `high`, or the bridge release.

    Returns None if neither of them knows `low` as a value of `upgrade.from`.
    """
    if low.name in high.upgrade_from:
        return high
    # Since 4.0 no release rebalances eagerly, so 3.9 is the last stop for groups from before 2.4.
    bridge = RELEASES[BRIDGE_RELEASE]
    return bridge if high.cooperative and low.name in bridge.upgrade_from else None
