"""The releases of Kafka Streams: metadata versions, values of `upgrade.from`, rebalance protocols.

Read off the jars of each release by javap (`SubscriptionInfo`, `StreamsConfig`,
`AssignorConfiguration`); see docs/streams.md. tests/compat/test_streams_releases.py asks some jars.
"""

from enum import Enum
from typing import NamedTuple

from apportion.streams.metadata.model import LATEST


class VersionNegotiation(Enum):
    """Way in which the members of a release agree on a metadata version; see `probing.py`."""

    FAILS = "a leader that meets a version from the future fails"
    PROBES = (
        "it answers with nothing and its own version; the group's last step up is the "
        "leader's to trigger (KIP-268)"
    )
    SHARES = (
        "it gives work to members from the future, too; every member steps up by itself when "
        "all can (since 2.4)"
    )


class Release(NamedTuple):
    """One release of Kafka Streams.

    newest_version: the newest metadata version that it encodes and decodes. upgrade_from: the
    values of `upgrade.from` that it knows. eager, cooperative: the rebalance protocols that its
    members can use (KIP-429).
    """

    name: str
    newest_version: int
    negotiation: VersionNegotiation
    upgrade_from: tuple[str, ...]
    eager: bool
    cooperative: bool


BEFORE_PROBING = ("0.10.0", "0.10.1", "0.10.2", "0.11.0", "1.0", "1.1")
BEFORE_COOPERATION = (*BEFORE_PROBING, "2.0", "2.1", "2.2", "2.3")
COOPERATIVE = (
    "2.4",
    "2.5",
    "2.6",
    "2.7",
    "2.8",
    "3.0",
    "3.1",
    "3.2",
    "3.3",
    "3.4",
    "3.5",
    "3.6",
    "3.7",
    "3.8",
    "3.9",
)
WITHOUT_EAGER = ("4.0", "4.1", "4.2", "4.3", "4.4")
"""A new release is a name here, once its jar is found to say the same
(tests/compat/test_streams_releases.py).
"""
NEWEST_RELEASE = WITHOUT_EAGER[-1]
SHARES_VERSIONS = (*COOPERATIVE, *WITHOUT_EAGER)
KNOWS_EVERY_RELEASE = SHARES_VERSIONS[SHARES_VERSIONS.index("3.3") :]
"""Since 3.3, `upgrade.from` also names releases that negotiate in the same way.

Such a value changes how records of foreign-key joins and of tables' repartition topics are
written, and since 4.3 whether the offsets of state stores are also saved as before 4.3. It changes
nothing of the rebalance.
"""

NEWEST_VERSION = {
    "0.10.0": 1,
    "0.10.1": 2,
    "0.10.2": 2,
    "0.11.0": 2,
    "1.0": 2,
    "1.1": 2,
    "2.0": 3,
    "2.1": 4,
    "2.2": 4,
    "2.3": 4,
    "2.4": 5,
    "2.5": 6,
    "2.6": 8,
    "2.7": 8,
    "2.8": 9,
    "3.0": 10,
    "3.1": 10,
}
"""The newest metadata version of each release; LATEST for those not listed."""

VERSION_BY_UPGRADE_FROM = {"0.10.0": 1, **dict.fromkeys(BEFORE_PROBING[1:], 2)}
"""The metadata version that a value of `upgrade.from` lowers a member to; others change none."""


def _release(name: str) -> Release:
    """Return the Kafka Streams release of that name, by what changed in 2.0, 2.4, 3.3 and 4.0."""
    metadata = NEWEST_VERSION.get(name, LATEST)
    # KIP-268 asks to backport KAFKA-6054, without which 0.10.1 to 1.1 know no upgrade.from; no such
    # release of 0.10.1 was ever made.
    if name in BEFORE_PROBING:
        known = () if name == "0.10.0" else ("0.10.0",)
        return Release(
            name, metadata, VersionNegotiation.FAILS, known, eager=True, cooperative=False
        )
    if name in BEFORE_COOPERATION:
        return Release(
            name, metadata, VersionNegotiation.PROBES, BEFORE_PROBING, eager=True, cooperative=False
        )
    older = SHARES_VERSIONS[: SHARES_VERSIONS.index(name)] if name in KNOWS_EVERY_RELEASE else ()
    eager = name in COOPERATIVE
    known = (*(BEFORE_COOPERATION if eager else ()), *older)
    return Release(name, metadata, VersionNegotiation.SHARES, known, eager, cooperative=True)


RELEASES = {name: _release(name) for name in (*BEFORE_COOPERATION, *SHARES_VERSIONS)}
"""The releases by name, oldest first."""

SIMULATED_VERSION = LATEST + 1
"""A metadata version that no release speaks yet."""
RELEASES["post-2.0"] = Release(
    "post-2.0",
    SIMULATED_VERSION,
    VersionNegotiation.PROBES,
    BEFORE_PROBING,
    eager=True,
    cooperative=False,
)
RELEASES["future"] = Release(
    "future",
    SIMULATED_VERSION,
    VersionNegotiation.SHARES,
    SHARES_VERSIONS,
    eager=False,
    cooperative=True,
)
LEAVES_GROUP_ON_CLOSE = ("0.10.0", "0.10.1")
"""Instances of all others send no LeaveGroup when closed (KAFKA-4881); their session times out."""
BRIDGE_RELEASE = "3.9"
"""The newest release that members of before 2.4 can be upgraded to while they run."""


def known_release(name: str) -> Release:
    """Return the Kafka Streams release of that name: "4.0.1" is one of 4.0, and "1.1.x" of 1.1.

    Raises ValueError, with one sentence, if there is none.
    """
    parts = name.strip().removesuffix(".x").split(".")
    # Three parts first: "0.10.2" is a release, while "4.0.1" is a patch of "4.0".
    for length in (3, 2):
        if (release := RELEASES.get(".".join(parts[:length]))) is not None:
            return release
    first = f"{name.strip()}.0"
    hint = f"did you mean {first}? There are" if first in RELEASES else "there are"
    raise ValueError(
        f"there is no release {name!r} of Kafka Streams known here; {hint} {', '.join(RELEASES)}"
    )


def initial_metadata_version(release: Release, upgrade_from: str | None) -> int:
    """Return the metadata version of a new Streams member's first subscription.

    Raises ValueError if the release does not know that `upgrade.from`.
    """
    _check(release, upgrade_from)
    return min(
        release.newest_version,
        VERSION_BY_UPGRADE_FROM.get(upgrade_from or "", release.newest_version),
    )


def is_eager(release: Release, upgrade_from: str | None) -> bool:
    """Return whether Streams members of the release revoke all partitions before they rejoin.

    An `upgrade.from` before 2.4 makes a cooperative release eager, so that it may share a group
    with that release (KIP-429). Raises ValueError if the release does not know that `upgrade.from`.
    """
    _check(release, upgrade_from)
    # KIP-429: members of both kinds may share a group only while all of them rebalance eagerly.
    return not release.cooperative or upgrade_from in BEFORE_COOPERATION


def _check(release: Release, upgrade_from: str | None) -> None:
    """Raise ValueError if the Kafka Streams release does not know that value of `upgrade.from`."""
    if upgrade_from is None or upgrade_from in release.upgrade_from:
        return
    if upgrade_from not in RELEASES:
        raise ValueError(f"upgrade.from must name a release such as 1.1, not {upgrade_from!r}")
    # Kafka 4.0 removed eager rebalancing together with the values of upgrade.from before 2.4.
    if upgrade_from in BEFORE_COOPERATION and not release.eager:
        why = f"it cannot rebalance eagerly; go by way of {BRIDGE_RELEASE}"
    else:
        why = f"it knows {', '.join(release.upgrade_from) or 'none'}"
    raise ValueError(f"Kafka Streams {release.name} has no upgrade.from={upgrade_from}: {why}")
