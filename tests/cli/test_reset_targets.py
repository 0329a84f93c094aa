"""The targets of `apportion groups reset-offsets`: which offset each means for a partition."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from apportion.cli.failures import Impossible, WrongArguments
from apportion.cli.groups.partitions import PartitionChoice
from apportion.cli.groups.reset_targets import PartitionLog, TargetOptions
from apportion.cli.groups.resetting import parse_plan
from apportion.log_bounds import LogBounds
from apportion.topics import TopicPartition

NOW_MS = 1_000_000_000_000
LOG = PartitionLog(LogBounds(10, 100), committed=50, at_time=70)


def ms(*moment: int) -> int:
    return round(datetime(*moment, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("options", "log", "offset"),
    [
        (TargetOptions(to_earliest=True), LOG, 10),
        (TargetOptions(to_latest=True), LOG, 100),
        (TargetOptions(to_current=True), LOG, 50),
        (TargetOptions(to_current=True), LOG._replace(committed=None), 100),
        (TargetOptions(to_offset=7), LOG, 7),
        (TargetOptions(shift_by=-5), LOG, 45),
        (TargetOptions(shift_by=5), LOG, 55),
        (TargetOptions(to_datetime="2026-07-01T08:30"), LOG, 70),
        (TargetOptions(to_datetime="2026-07-01T08:30"), LOG._replace(at_time=-1), 100),
        (TargetOptions(by_duration="P1D"), LOG, 70),
    ],
)
def test_a_target_is_an_offset_of_each_partition(
    options: TargetOptions, log: PartitionLog, offset: int
) -> None:
    target = options.parse(NOW_MS)
    assert target is not None
    assert target.offset(log) == offset


@pytest.mark.parametrize(
    ("options", "time_ms"),
    [
        (TargetOptions(to_datetime="2026-07-01T08:30:00.250"), ms(2026, 7, 1, 8, 30, 0, 250_000)),
        (TargetOptions(to_datetime="2026-07-01T08:30:00+02:00"), ms(2026, 7, 1, 6, 30)),
        (TargetOptions(to_datetime="2026-07-01T08:30:00Z"), ms(2026, 7, 1, 8, 30)),
        (TargetOptions(by_duration="P1DT2H3M4.5S"), NOW_MS - 93_784_500),
        (TargetOptions(by_duration="PT90M"), NOW_MS - 5_400_000),
        (TargetOptions(by_duration="P9000W"), 0),
        (TargetOptions(to_earliest=True), None),
    ],
)
def test_a_time_is_utc_unless_it_has_a_zone(options: TargetOptions, time_ms: int | None) -> None:
    target = options.parse(NOW_MS)
    assert target is not None
    assert target.time_ms == time_ms


def test_no_target_is_none() -> None:
    assert TargetOptions().parse(NOW_MS) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            TargetOptions(to_earliest=True, to_offset=0),
            "give one target, not --to-earliest and --to-offset",
        ),
        (TargetOptions(to_offset=-1), "--to-offset must be 0 or more, not -1"),
        (
            TargetOptions(to_datetime="yesterday"),
            "--to-datetime must be a time such as 2026-07-01T08:30:00, in UTC, or one with its "
            "zone such as 2026-07-01T08:30:00+02:00, not 'yesterday'",
        ),
        (
            TargetOptions(by_duration="P"),
            "--by-duration must be a duration such as P7D or PT1H30M, not 'P'",
        ),
        (
            TargetOptions(by_duration="7d"),
            "--by-duration must be a duration such as P7D or PT1H30M, not '7d'",
        ),
        (
            TargetOptions(by_duration=f"P{'9' * 20}D"),
            f"--by-duration P{'9' * 20}D is longer than any log",
        ),
    ],
)
def test_a_wrong_target_is_refused(options: TargetOptions, message: str) -> None:
    with pytest.raises(WrongArguments) as refused:
        options.parse(NOW_MS)
    assert str(refused.value) == message


def test_nothing_can_be_shifted_without_a_committed_offset() -> None:
    target = TargetOptions(shift_by=1).parse(NOW_MS)
    assert target is not None
    with pytest.raises(Impossible, match="no committed offset to shift"):
        target.offset(LOG._replace(committed=None))


def test_a_spreadsheets_file_of_offsets_is_read_without_its_byte_order_mark(
    tmp_path: Path,
) -> None:
    path = tmp_path / "offsets.csv"
    path.write_bytes("t,0,1\r\nt,1,2\r\n".encode("utf-8-sig"))
    plan = parse_plan(
        *("g", PartitionChoice({}), TargetOptions(), path),
        all_topics=False,
        execute=False,
        new_group=False,
    )
    assert plan.offsets == {TopicPartition("t", 0): 1, TopicPartition("t", 1): 2}
