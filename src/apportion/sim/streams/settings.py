"""The settings of a rehearsed upgrade: `--help` prints them, and a `Rehearsal` keeps them.

Imports no part of the simulator, because the command line has to start fast.
"""

from typing import Annotated, TypedDict

from apportion.settings import Setting

LEADERS = ("first", "middle", "last")
VICTIMS = ("instance", "leader", "broker")


class UpgradeSettings(TypedDict, total=False):
    """The releases, and the size of the application."""

    from_: Annotated[str | None, Setting("The release that runs now, such as 1.1 or 2.3.")]
    to: Annotated[
        str | None,
        Setting(
            "The release to upgrade to, such as 4.0. `future` and `post-2.0` speak a metadata "
            "version that no release speaks yet."
        ),
    ]
    instances: Annotated[int, Setting("Instances of the application.", 6, at_least=1, at_most=100)]
    threads: Annotated[
        int,
        Setting("num.stream.threads: the members of each instance.", 1, at_least=1, at_most=10),
    ]
    partitions: Annotated[
        int,
        Setting(
            "Partitions of the source topic, with two tasks for each.", 6, at_least=1, at_most=1_000
        ),
    ]
    standbys: Annotated[int, Setting("num.standby.replicas.", 0, at_least=0, at_most=100)]


class BounceSettings(TypedDict, total=False):
    """Settings of the rolling bounces: their order, and the faults meanwhile."""

    leader: Annotated[
        str,
        Setting(
            "When the group's leader is bounced: first, middle, last, or as the N-th. The leader "
            "is looked up when a bounce begins.",
            "last",
            choices=LEADERS,
        ),
    ]
    crash_at: Annotated[
        int | None,
        Setting(
            "At this step, counted through all bounces, the victim crashes while the step's "
            "instance is away.",
            at_least=1,
        ),
    ]
    victim: Annotated[
        str,
        Setting(
            "With --crash-at: what crashes: instance (one that is not being bounced), leader, or "
            "broker.",
            "instance",
            choices=VICTIMS,
        ),
    ]
    bounces: Annotated[
        int | None,
        Setting(
            "Make this number of bounces, right or wrong: 1 shows what happens if upgrade.from is "
            "forgotten."
        ),
    ]
    away_ms: Annotated[
        int, Setting("How long an instance takes to restart.", 3_000, at_least=1, at_most=600_000)
    ]
    session_ms: Annotated[
        int | None,
        Setting(
            "session.timeout.ms; by default 10,000, or 45,000 where both releases are 3.0 or "
            "later.",
            at_least=2_000,
            at_most=1_800_000,
        ),
    ]
    seed: Annotated[
        int,
        Setting("One seed is one history, on every machine with the same Python and C library.", 0),
    ]
