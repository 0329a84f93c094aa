"""What a start finds: the segments of a log, with everything cut away that a crash left half written.

A sealed segment was durable when it was sealed and is believed. Any other is checked batch by batch, CRC and all; at the first
bytes that are no batch the log ends, since whatever stands behind them cannot have been durable either. A file that begins before
the one before it ends is what a cleaning had no time to delete. A log that was told to begin later has an empty file whose name
says where, and a file of which all stands before that is what there was no time to delete either.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from apportion.errors import DecodeError
from apportion.store.disk import Damaged, Disk
from apportion.store.segment import CLEANED, LOG, PREFIX_BYTES, LogSettings, Segment
from apportion.wire.batch import HEADER_BYTES, read_header

START = ".start"


class RecoveredLog(NamedTuple):
    """The segments in order, whole. checked: those that were not sealed. cut_bytes: what was thrown away, zeros not counted.

    leftovers: files without anything that still counts; they stay until what says so is known to be durable.
    starts: where the log was told to begin, the last word last.
    """

    segments: list[Segment]
    unsealed: list[Segment]
    leftovers: list[Segment]
    start_offsets: list[int]
    truncated_bytes: int


def recover(disk: Disk, directory: str, settings: LogSettings) -> RecoveredLog:
    """The log in `directory`, ready to be appended to; no segments if there is none.

    Damaged: a sealed segment has another size than when it was sealed, or the one after it does not continue it.
    """
    names = disk.list_dir(directory)
    found = RecoveredLog([], [], [], _offsets(names, START), 0)
    for name in names:
        if name.endswith(CLEANED):  # it has not taken anybody's place
            disk.delete(f"{directory}/{name}")
    base_offsets = _offsets(names, LOG)
    past = [base for base, following in pairwise(base_offsets) if following <= max(found.start_offsets, default=0)]
    for base_offset in base_offsets:
        segment = Segment(disk, directory, base_offset, settings)
        before = found.segments[-1] if found.segments else None
        if base_offset in past or (before is not None and base_offset < before.next_offset):
            found.leftovers.append(segment)
        elif before is not None and before.next_offset != base_offset:
            if before not in found.unsealed:
                raise Damaged(f"{segment.path}: the log before it ends at offset {before.next_offset}; a file is missing")
            found = found._replace(truncated_bytes=found.truncated_bytes + _delete_segment(disk, segment))
        elif not segment.adopt_seal():
            found = found._replace(truncated_bytes=found.truncated_bytes + truncate_invalid_tail(disk, segment))
            found.segments.append(segment)
            found.unsealed.append(segment)
        elif disk.size(segment.path) != segment.size_bytes:
            size = disk.size(segment.path)
            raise Damaged(f"{segment.path} has {size} bytes, but had {segment.size_bytes} when it was complete")
        else:
            found.segments.append(segment)
    return found


def truncate_invalid_tail(disk: Disk, segment: Segment) -> int:
    """The segment holds every whole, right, ascending batch of its file up to the first bytes that are none; the file ends there.

    The number of bytes that were cut, without the zeros at the end.
    """
    size = disk.size(segment.path)
    view = disk.view(segment.path, 0, size)
    at = 0
    while size - at >= HEADER_BYTES:
        end = at + PREFIX_BYTES + int.from_bytes(view[at + 8 : at + PREFIX_BYTES], "big", signed=True)
        if not at + HEADER_BYTES <= end <= size:
            break
        try:
            header = read_header(view[at:end])
        except DecodeError:
            break
        if header.base_offset < segment.next_offset:
            break
        segment.add_batch(header.base_offset, end - at, header.last_offset, header.max_timestamp_ms)
        at = end
    cut = len(bytes(view[at:]).rstrip(b"\0"))
    if at < size:
        segment.trim()
    return cut


def _offsets(names: Iterable[str], suffix: str) -> list[int]:
    """The offsets in the sorted names that end so."""
    numbers = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return [int(number) for number in numbers if len(number) == 20 and number.isdecimal()]


def _delete_segment(disk: Disk, segment: Segment) -> int:
    """The file is gone; its bytes without the zeros at the end."""
    size = disk.size(segment.path)
    cut = len(bytes(disk.view(segment.path, 0, size)).rstrip(b"\0"))
    disk.delete(segment.seal_path)
    disk.delete(segment.path)
    return cut
