"""The interpreter that Spark starts for the source and for Python tasks.

Spark starts `PYSPARK_PYTHON`, and `python3` of the PATH where that is not set. A script that was
started as `venv/bin/python job.py`, without activating the environment, would so get another
interpreter, which has no apportion: Spark then finds no source of that name.
"""

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, MutableMapping

VARIABLE = "PYSPARK_PYTHON"
DEFAULT = "python3"
"""What Spark starts where PYSPARK_PYTHON is not set."""
OF_WORKERS = "PYTHON_WORKER_FACTORY_"
"""How names begin in the environment of Spark's Python processes, and of no other."""
ANSWERS_WITHIN_S = 10
LACKS_APPORTION = "import importlib.util; print(importlib.util.find_spec('apportion') is None)"

log = logging.getLogger(__name__)


def use_this_python(environment: MutableMapping[str, str], *, is_spark_running: bool) -> None:
    """Set PYSPARK_PYTHON to this interpreter where Spark would start one of another environment.

    Logs a warning instead where Spark runs already: it has read the variable when it started; and
    where the variable names a Python that has no apportion.
    """
    if not sys.executable:
        return
    if VARIABLE in environment:
        _warn_of_python_without_apportion(environment)
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


def _warn_of_python_without_apportion(environment: Mapping[str, str]) -> None:
    """Log a warning if PYSPARK_PYTHON names a Python of this machine that has no apportion."""
    if any(name.startswith(OF_WORKERS) for name in environment):
        return  # this is that Python
    found = shutil.which(environment[VARIABLE], path=environment.get("PATH", ""))
    if found is None or os.path.dirname(found) == os.path.dirname(sys.executable):
        return
    try:
        answer = subprocess.run(
            [found, "-c", LACKS_APPORTION],
            env=environment,
            capture_output=True,
            text=True,
            timeout=ANSWERS_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return  # it does not start, and Spark says so
    if answer.stdout.strip() == "True":
        log.warning(
            "%s is %s, a Python without apportion, where Spark looks for the source: it will say "
            "DATA_SOURCE_NOT_FOUND. Install apportion there, or set %s=%s",
            VARIABLE,
            environment[VARIABLE],
            VARIABLE,
            sys.executable,
        )
