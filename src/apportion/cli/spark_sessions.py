"""The Spark session of a command with `--spark`, and its errors as one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apportion.exports import install_command


@contextmanager
def spark_session(master: str, refused: type[ValueError]) -> Iterator[Any]:
    """Provide a Spark session on that master; raise `refused` if Spark is missing or fails."""
    try:
        from apportion.spark.seeds import SparkError, session
    except ModuleNotFoundError as error:
        # pyspark may be there without pyarrow; the message names what is missing.
        library = (error.name or "pyspark").split(".")[0]
        raise refused(
            f"--spark needs {library}, which is not installed: {install_command('spark')}."
        ) from None
    try:
        with session(master) as spark:
            yield spark
    except SparkError as error:
        raise refused(f"Spark says: {str(error).strip().splitlines()[0]}") from error
