"""`apportion doctor`: all checks, one after the other, as lines or as JSON."""

import json
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.text import Text

from apportion.cli.asked import Asked
from apportion.cli.doctor.cluster_checks import check_cluster
from apportion.cli.doctor.finding import Finding, Result
from apportion.cli.doctor.path_checks import check_paths
from apportion.cli.doctor.programs import check_programs
from apportion.cli.doctor.subjects import Subjects
from apportion.cli.failures import FAILED
from apportion.cli.lines import print_sentence, row_console
from apportion.readable import readable

STYLES = {
    Result.OK: "green",
    Result.WARNING: "yellow",
    Result.FAILED: "bold red",
    Result.SKIPPED: "dim",
}
WIDTH = max(len(result) for result in Result)


def examine(asked: Asked, subjects: Subjects, environment: Mapping[str, str]) -> int:
    """Print what each check has found; return the exit code: FAILED if one of them failed.

    environment: the variables with which this process was started.
    """
    findings: list[Finding] = []
    console = row_console()
    for finding in _findings(asked, subjects, environment):
        findings.append(finding)
        if not asked.as_json:  # at once: a cluster that does not answer takes its time
            _show(console, finding)
    count = sum(finding.result is Result.FAILED for finding in findings)
    if asked.as_json:
        print(json.dumps({"checks": [each.report() for each in findings]}, indent=2))
    else:
        print_sentence(console, _summary(count))
    return FAILED if count else 0


def _findings(
    asked: Asked, subjects: Subjects, environment: Mapping[str, str]
) -> Iterator[Finding]:
    yield from check_programs(environment)
    yield from check_cluster(asked, subjects)
    yield from check_paths(subjects)


def _show(console: Console, finding: Finding) -> None:
    # Names and errors may come from brokers, with control characters of a terminal.
    line = Text(f"{finding.result:{WIDTH}}  ", style=STYLES[finding.result])
    line.append(readable(f"{finding.check}: {finding.found}"), style="default")
    print_sentence(console, line)
    if finding.remedy:
        print_sentence(console, f"{'':{WIDTH}}  -> {readable(finding.remedy)}")


def _summary(count: int) -> str:
    if not count:
        return "A query of apportion can run here, as far as these checks see."
    return f"{count} check{'' if count == 1 else 's'} failed: a query would not run."
