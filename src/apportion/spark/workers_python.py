"""The interpreter that Spark starts for the source and for Python tasks.

Spark starts `PYSPARK_PYTHON`, and `python3` of the PATH where that is not set. A script that was
started as `venv/bin/python job.py`, without activating the environment, would so get another
interpreter, which has no apportion: Spark then finds no source of that name.
"""

import logging
import os
import shutil
import sys
from collections.abc import MutableMapping

VARIABLE = "PYSPARK_PYTHON"
DEFAULT = "python3"
"""What Spark starts where PYSPARK_PYTHON is not set."""

log = logging.getLogger(__name__)


def use_this_python(environment: MutableMapping[str, str], *, is_spark_running: bool) -> None:
    """Set PYSPARK_PYTHON to this interpreter where Spark would start one of another environment.

    Logs a warning instead where Spark runs already: it has read the variable when it started.
    """
    if VARIABLE in environment or not sys.executable:
        return
    found = shutil.which(DEFAULT, path=environment.get("PATH", ""))
    # By directory: the interpreters of virtual environments are links to one and the same file.
    if found is not None and os.path.dirname(found) == os.path.dirname(sys.executable):
        return
    if is_spark_running:
        log.warning(
            "Spark has started with %s of the PATH (%s) for its workers, not with this Python: if "
            "it says DATA_SOURCE_NOT_FOUND, set %s=%s before Spark starts, or import "
            "apportion.spark before",
            DEFAULT,
            found or "there is none",
            VARIABLE,
            sys.executable,
        )
        return
    environment[VARIABLE] = sys.executable
    log.info("%s is not set: Spark's workers are started with %s", VARIABLE, sys.executable)
