"""The settings of `apportion sim` itself: what is played, and where. `--help` prints them.

The settings of the simulated world are in `sim/kernel/settings.py`.
"""

from typing import Annotated, TypedDict

from apportion.settings import Setting


class PlaySettings(TypedDict, total=False):
    """The seeds to play: one, many, or one with the fewest faults; and where to play them."""

    seed: Annotated[
        int | None,
        Setting(
            "Play this one history; print the owner of each partition over time, and the end of "
            "its trace if a law is broken."
        ),
    ]
    only_faults: Annotated[
        str | None,
        Setting("With --seed: only these of the drawn faults, by number, such as 3,7,9."),
    ]
    runs: Annotated[
        int | None,
        Setting(
            "Play this number of seeds, each a history of its own; print those that fail.",
            at_least=1,
        ),
    ]
    first: Annotated[int | None, Setting("With --runs: the first seed; 0 by default.")]
    jobs: Annotated[
        int | None,
        Setting(
            "With --runs: processes to play in; by default as many as there are cores.", at_least=1
        ),
    ]
    spark: Annotated[
        str | None,
        Setting("With --runs: play on this Spark master, such as local[2] or spark://host:7077."),
    ]
    out: Annotated[
        str | None,
        Setting("With --spark: also write a row for each seed as Parquet into this new directory."),
    ]
    shrink: Annotated[
        int | None,
        Setting("Find the fewest faults of this seed that still break the same law."),
    ]
