"""The releases of Spark that apportion runs on, and what differs between them.

What depends on the number of a release is here. Where a feature can be looked for, the module that
uses it does that, and may name in its texts the release that brought it. A release that is newer
than TESTED may work, and is not refused.
"""

import ast
import json
import re
from contextlib import suppress
from importlib.abc import ResourceLoader
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

TESTED = ("4.0", "4.1", "4.2", "4.3")
"""The releases that the tests run (requirements.lock, tests/compat/spark)."""
STATEFUL_SUPERTYPES = {  # the first release -> the JVM class that every stateful operator extends
    (4, 1): "org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator",
    (4, 0): "org.apache.spark.sql.execution.streaming.StatefulOperator",
}


class SparkTooOld(ImportError):
    """The installed Spark has no streaming sources in Python."""


class UnsupportedTrigger(ValueError):
    """The query has a trigger that this release of Spark cannot run with a Python source."""


def refuse_old_spark() -> None:
    """Raise SparkTooOld if the installed pyspark is older than any that works."""
    version = _installed_version_or_none()
    if version is not None:
        refuse_if_old(version)


def refuse_if_old(version: str) -> None:
    """Raise SparkTooOld for this version of pyspark if it is older than the first of TESTED."""
    if _release(version) < _release(TESTED[0]):
        raise SparkTooOld(
            f"apportion.spark works with Spark {', '.join(TESTED[:-1])} and {TESTED[-1]}, and this "
            f"Python has pyspark {version}: pip install 'pyspark>={TESTED[0]}'"
        )


def has_admission_control() -> bool:
    """Return whether Spark tells a Python source the start and the limit of a batch (Spark 4.2)."""
    # Looked for, and not asked of the version: vendors bring it to older releases.
    return find_spec("pyspark.sql.streaming.datasource") is not None


def newest_java_or_none(version: str) -> int | None:
    """Return the newest Java on which this version of Spark starts; None if no newer one fails."""
    return None if _release(version) >= (4, 2) else 21


def connect_shows_queries(version: str) -> bool:
    """Return whether Spark Connect of this version shows a Delta writer its query (Spark 4.2)."""
    return _release(version) >= (4, 2)


def stateful_operator_class(version: str) -> str:
    """Return the JVM class that every stateful operator of this version of Spark extends."""
    release = _release(version)
    return next(name for first, name in STATEFUL_SUPERTYPES.items() if release >= first)


def to_utc_arrow_schema(schema: "StructType") -> "pa.Schema":
    """Return Spark's columns as Arrow's, with timestamps in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Until Spark 4.2, UTC was the default, and the parameter had another name.
    has_timezone = "timezone" in signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if has_timezone else to_arrow_schema(schema)


def offset_value(text: str) -> Any:
    """Return the value of an offset's text in a query's progress; None if it is not readable."""
    try:
        return json.loads(text)
    except ValueError:
        # PySpark 4.0 and 4.1 show the text of a Python dictionary.
        with suppress(ValueError, SyntaxError):
            return ast.literal_eval(text)
    return None


def refuse_available_now(execution: Any) -> None:
    """Raise UnsupportedTrigger for trigger(availableNow=True) where Spark makes one batch of it.

    execution: the JVM's StreamExecution.
    """
    # SPARK-45178: it does so with a source without admission control. That batch may be the first
    # of the checkpoint, which reads nothing, or the replay of one that was interrupted.
    if not has_admission_control() and execution.trigger().toString() == "AvailableNowTrigger":
        raise UnsupportedTrigger(
            f"trigger(availableNow=True) needs Spark 4.2 or newer: Spark "
            f"{execution.sparkSession().version()} runs it as one "
            "batch with a Python source and leaves the rest unread. "
            "Start the query with trigger(processingTime=...), and stop it when its group has no "
            "lag"
        )


def _installed_version_or_none() -> str | None:
    """Return the version of pyspark; None where there is none: whoever imports it says so."""
    # Read and not imported, which takes a second.
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None or not isinstance(spec.loader, ResourceLoader):
        return None
    try:
        text = spec.loader.get_data(str(Path(spec.origin).with_name("version.py"))).decode()
    except OSError:
        return None
    found = re.search(r"__version__[^=]*= *[\"']([^\"']+)", text)
    return found[1] if found else None


def _release(version: str) -> tuple[int, int]:
    """Return the major and the minor number of a version, such as 4.2.1 or 4.4.0.dev0."""
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)
