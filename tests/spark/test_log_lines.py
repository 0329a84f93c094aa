"""The source's log lines look like Spark's own, unless the user has set up logging."""

import logging
import re
import subprocess
import sys

from apportion.spark.monitoring.log_lines import SparkLine

PROGRAM = """
import logging
{setup}
from apportion.spark.monitoring.log_lines import log_like_spark
log_like_spark()
logging.getLogger("apportion.spark").warning("group g: topic %s does not exist yet", "flihgts")
logging.getLogger("apportion.session").info("not shown")
"""
REBALANCE = """
import logging
{setup}
from apportion.member.batch.membership import BatchOwnership
from apportion.spark.monitoring.log_lines import log_like_spark
from apportion.spark.monitoring.rebalance_lines import GroupName, RebalanceLines
log_like_spark()
RebalanceLines(GroupName("g")).log_change(BatchOwnership(1, {{}}), 1)
logging.getLogger("apportion.session").info("not shown")
"""


def stderr_of(setup: str = "", program: str = PROGRAM) -> str:
    """What the program writes to stderr after `setup`."""
    done = subprocess.run(
        [sys.executable, "-c", program.format(setup=setup)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stderr


def test_a_line_has_time_level_and_logger_in_sparks_layout() -> None:
    record = logging.LogRecord(
        "apportion.spark", logging.WARNING, "x.py", 1, "group %s: reading again", ("g",), None
    )
    line = SparkLine().format(record)
    when, rest = line[:17], line[17:]
    assert re.fullmatch(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d", when)
    assert rest == " WARN apportion.spark: group g: reading again"


def test_without_a_logging_configuration_lines_are_sparks() -> None:
    line = stderr_of()
    assert re.fullmatch(
        r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARN apportion\.spark: group g: topic flihgts "
        r"does not exist yet\n",
        line,
    ), line


def test_a_logging_configuration_of_the_user_stays_as_it_is() -> None:
    assert (
        stderr_of("logging.basicConfig(format='mine %(message)s')")
        == "mine group g: topic flihgts does not exist yet\n"
    )
    silent = "logging.getLogger('apportion').addHandler(logging.NullHandler())"
    assert stderr_of(silent) == ""
    assert (
        stderr_of("logging.lastResort = None")
        == 'No handlers could be found for logger "apportion.spark"\n'
    )


def test_a_rebalance_is_shown_unless_the_user_has_set_up_logging() -> None:
    assert re.fullmatch(
        r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d INFO apportion\.spark\.rebalance: "
        r"group g: rebalance: joined; has 0 partitions now, member epoch 1\n",
        stderr_of(program=REBALANCE),
    )
    assert stderr_of("logging.basicConfig(format='mine %(message)s')", REBALANCE) == ""
    own_level = "logging.getLogger('apportion.spark.rebalance').setLevel('WARNING')"
    assert stderr_of(own_level, REBALANCE) == ""
    chosen = "logging.basicConfig(format='mine %(message)s', level='INFO')"
    assert stderr_of(chosen, REBALANCE) == (
        "mine group g: rebalance: joined; has 0 partitions now, member epoch 1\nmine not shown\n"
    )
