"""Log recovery: the segments of a log after a start, without what a crash left half written.

Problem. After a loss of power a log directory may hold a torn batch at the end, zeros of
preallocated space, segments that a cleaning replaced but had no time to delete, and a half-written
cleaned segment. All durable records must be found again, and nothing else may be shown.

Method, one pass over the files in order of their base offsets (the names):
1. A `.cleaned` file never took its place: delete it.
2. A segment that ends at or below the log start (the largest `<offset>.start` file), or begins
   before its predecessor ends, is a leftover: its records were deleted, or are in the cleaned
   segment that took the place of its first sibling. It stays on the disk until what replaced it is
   known to be durable.
3. A sealed segment was durable when it was sealed: believe its seal, unread (decision 8). If its
   size has changed, no crash explains that: raise Damaged.
4. Any other segment is read batch by batch with its CRC. At the first bytes that are no batch the
   log ends, because a batch is acknowledged only when everything before it is durable. The file is
   truncated there, and segments behind it are deleted.
5. A gap after a sealed segment means a missing file: raise Damaged.

Why a crash during recovery does no harm: each step only removes what a second pass would remove
again. Cost: the unsealed segments are read once, usually the last one alone.

Example. Files 0 (sealed, offsets 0-99), 100 (unsealed, 100-149 whole, then half a batch). Result: 0
is believed; 100 is truncated behind offset 149; the next append gets offset 150.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from apportion.errors import DecodeError
from apportion.store.disk import Damaged, Disk
from apportion.store.segment import CLEANED, LOG, PREFIX_BYTES, Segment
from apportion.store.settings import LogSettings
from apportion.wire.batch import HEADER_BYTES, read_header

START = ".start"


class RecoveredLog(NamedTuple):
    """The outcome of a recovery.

    segments: in order, whole.
    unsealed: those of them that were read and checked.
    leftovers: segments whose records are deleted, or are in another segment.
    start_offsets: the log start offsets that have a file; the last one counts.
    truncated_bytes: how much was cut off, without zeros at the end.
    """

    segments: list[Segment]
    unsealed: list[Segment]
    leftovers: list[Segment]
    start_offsets: list[int]
    truncated_bytes: int


def recover(disk: Disk, directory: str, settings: LogSettings) -> RecoveredLog:
    """Recover the segments of the log in `directory` at a start, ready for appends.

    Cuts off what a crash left half written. A missing directory gives a log without segments. A
    segment with a seal (a side file with its state when it was finished) is not read.
    Errors: Damaged if a sealed segment has another size than when it was sealed, or a file is
    missing.
    """
    names = disk.list_dir(directory)
    log = RecoveredLog([], [], [], _offsets(names, START), 0)
    for name in names:
        if name.endswith(CLEANED):  # it never took the place of another segment
            disk.delete(f"{directory}/{name}")
    base_offsets = _offsets(names, LOG)
    # By the name of the next file, because a segment below the start is not read (decision 35).
    below_start = [
        base
        for base, following in pairwise(base_offsets)
        if following <= max(log.start_offsets, default=0)
    ]
    for base_offset in base_offsets:
        segment = Segment(disk, directory, base_offset, settings)
        before = log.segments[-1] if log.segments else None
        if base_offset in below_start or (before is not None and base_offset < before.next_offset):
            log.leftovers.append(segment)
        elif before is not None and before.next_offset != base_offset:
            # Behind a torn segment a gap is what a crash leaves; behind a sealed one a file was
            # removed by hand.
            if before not in log.unsealed:
                raise Damaged(
                    f"{segment.path}: the log before it ends at offset "
                    f"{before.next_offset}; a file is missing"
                )
            log = log._replace(truncated_bytes=log.truncated_bytes + _delete_segment(disk, segment))
        elif not segment.adopt_seal():
            log = log._replace(
                truncated_bytes=log.truncated_bytes + truncate_invalid_tail(disk, segment)
            )
            log.segments.append(segment)
            log.unsealed.append(segment)
        # The size alone: to read a sealed segment is what the seal is there to avoid (decision 8).
        elif disk.size(segment.path) != segment.size_bytes:
            size = disk.size(segment.path)
            raise Damaged(
                f"{segment.path} has {size} bytes, but had {segment.size_bytes} when it "
                "was complete"
            )
        else:
            log.segments.append(segment)
    return log


def truncate_invalid_tail(disk: Disk, segment: Segment) -> int:
    """Add the valid batches of the file to the log segment, and truncate the file behind them.

    For log recovery at a start. Returns how many bytes were cut off. Zeros at the end are not
    counted, for they are preallocated space. Valid: whole, right in CRC and counts, and with
    ascending offsets.
    """
    size = disk.size(segment.path)
    view = disk.view(segment.path, 0, size)
    at = 0
    while size - at >= HEADER_BYTES:
        end = (
            at + PREFIX_BYTES + int.from_bytes(view[at + 8 : at + PREFIX_BYTES], "big", signed=True)
        )
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
    truncated_bytes = len(bytes(view[at:]).rstrip(b"\0"))
    # Zeros as well: the next batch has to begin where this one ends.
    if at < size:
        segment.trim()
    return truncated_bytes


def _offsets(names: Iterable[str], suffix: str) -> list[int]:
    """Return the base offsets in the sorted file names of a log that have this suffix.

    For log recovery. A name is 20 digits and `.log`, or `.start` for a log start offset.
    """
    numbers = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return [int(number) for number in numbers if len(number) == 20 and number.isdecimal()]


def _delete_segment(disk: Disk, segment: Segment) -> int:
    """Delete a segment's seal and file, in log recovery; return how many bytes that loses.

    The seal is a side file with the state of a finished segment. Zeros at the end of the segment
    are not counted, for they are preallocated space.
    """
    size = disk.size(segment.path)
    truncated_bytes = len(bytes(disk.view(segment.path, 0, size)).rstrip(b"\0"))
    # The seal first: alone, it would be believed for the next file of that name.
    disk.delete(segment.seal_path)
    disk.delete(segment.path)
    return truncated_bytes
