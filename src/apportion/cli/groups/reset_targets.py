"""The targets of `groups reset-offsets`: from a partition's log and offset to its new offset.

The options are those of kafka-consumer-groups, and so are their rules: an offset outside of the log
becomes the nearest one in it, and a time after the last record means the end.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from apportion.cli.failures import Impossible, WrongArguments
from apportion.log_bounds import LogBounds

DURATION = re.compile(
    r"P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


class PartitionLog(NamedTuple):
    """A partition as the cluster knows it. committed: None where the group has no offset.

    bounds: of its log. at_time: the offset of the first record at or after the time of the target,
    -1 for none.
    """

    bounds: LogBounds
    committed: int | None
    at_time: int = -1


class ResetTarget(NamedTuple):
    """The place to which offsets are reset.

    offset: of one partition, in which the caller keeps it within the log. time_ms: for which
    `PartitionLog.at_time` is needed; None if it is not.
    """

    offset: Callable[[PartitionLog], int]
    time_ms: int | None = None


class TargetOptions(NamedTuple):
    """The options that name a target, as they were typed; None and False for those that were not.

    Their names are those of the options.
    """

    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_offset: int | None = None
    shift_by: int | None = None
    to_datetime: str | None = None
    by_duration: str | None = None

    def parse(self, now_ms: int) -> ResetTarget | None:
        """Return the target; None if no option was given. Raises WrongArguments."""
        given = {
            name: value
            for name, value in self._asdict().items()
            if value is not None and value is not False
        }
        if len(given) > 1:
            names = " and ".join(f"--{name.replace('_', '-')}" for name in given)
            raise WrongArguments(f"give one target, not {names}")
        return next((PARSERS[name](value, now_ms) for name, value in given.items()), None)


def _to_current(log: PartitionLog) -> int:
    # As Kafka does: a partition without an offset begins at its end.
    return log.bounds.end if log.committed is None else log.committed


def _to_offset(offset: int, _now_ms: int) -> ResetTarget:
    if offset < 0:
        raise WrongArguments(f"--to-offset must be 0 or more, not {offset}")
    return ResetTarget(lambda _: offset)


def _shift_by(count: int, _now_ms: int) -> ResetTarget:
    def shifted(log: PartitionLog) -> int:
        if log.committed is None:
            raise Impossible("there is no committed offset to shift; give --to-offset or the like")
        return log.committed + count

    return ResetTarget(shifted)


def _to_datetime(text: str, _now_ms: int) -> ResetTarget:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise WrongArguments(
            "--to-datetime must be a time such as 2026-07-01T08:30:00, in UTC, or one with its "
            f"zone such as 2026-07-01T08:30:00+02:00, not {text!r}"
        ) from None
    # As in Kafka's tool: without a zone it is UTC.
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return _at(round(aware.timestamp() * 1000))


def _by_duration(text: str, now_ms: int) -> ResetTarget:
    found = DURATION.fullmatch(text)
    parts = (
        {} if found is None else {name: part for name, part in found.groupdict().items() if part}
    )
    if not parts:
        raise WrongArguments(
            f"--by-duration must be a duration such as P7D or PT1H30M, not {text!r}"
        )
    try:
        past = timedelta(**{name: float(part) for name, part in parts.items()})
    except OverflowError:
        raise WrongArguments(f"--by-duration {text} is longer than any log") from None
    return _at(max(0, now_ms - round(past.total_seconds() * 1000)))


def _at(time_ms: int) -> ResetTarget:
    # No record that late: the group goes on with what comes.
    return ResetTarget(lambda log: log.bounds.end if log.at_time < 0 else log.at_time, time_ms)


PARSERS: Mapping[str, Callable[..., ResetTarget]] = {
    "to_earliest": lambda _value, _now_ms: ResetTarget(lambda log: log.bounds.start),
    "to_latest": lambda _value, _now_ms: ResetTarget(lambda log: log.bounds.end),
    "to_current": lambda _value, _now_ms: ResetTarget(_to_current),
    "to_offset": _to_offset,
    "shift_by": _shift_by,
    "to_datetime": _to_datetime,
    "by_duration": _by_duration,
}
