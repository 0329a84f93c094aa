"""The settings of `apportion streams rehearse --matrix`, as `--help` prints them.

The settings of one rehearsed upgrade are in `sim/streams/settings.py`.
"""

from typing import Annotated, TypedDict

from apportion.settings import Setting


class MatrixSettings(TypedDict, total=False):
    """The choice to play the matrix of KIP-268, and where to play it."""

    matrix: Annotated[
        bool,
        Setting(
            "Play the test matrix of KIP-268: every upgrade in it, with and without a crash, in "
            "twelve ways each.",
            False,
        ),
    ]
    spark: Annotated[
        str | None,
        Setting("With --matrix: play on this Spark master, such as local[2] or spark://host:7077."),
    ]
    jobs: Annotated[int | None, Setting("With --matrix: processes to play in.", at_least=1)]
