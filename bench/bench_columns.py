"""How many rows a second one core decodes to Arrow, from batches of 1,000 records of 100 bytes."""

from random import Random
from time import thread_time
from typing import Any

from apportion.columns.read import to_arrow
from apportion.wire.batch import decode_batch, encode_batch, split_batches

BATCHES, RECORDS, REPEATS = 100, 1_000, 9


def fetched(compression: int, headers: int = 0, records: int = RECORDS) -> bytes:
    """Return fetched record batches with 100,000 records: JSON of 100 bytes, keys of 12."""
    random = Random(1)
    words = [f"{random.getrandbits(32):08x}" for _ in range(500)]

    def record() -> Any:
        user, page = random.choice(words), random.choice(words)
        value = f'{{"user":"{user}","page":"/{page}","took_ms":{random.randrange(9999)},"session":"'
        value = (value + "".join(random.choice(words) for _ in range(9)))[:98] + '"}'
        return (
            b"key-%08d" % random.randrange(10**8),
            value.encode(),
            (("trace", b"0123456789abcdef"),) * headers,
        )

    encoded = []
    for offset in range(0, BATCHES * RECORDS, records):
        lines = [record() for _ in range(records)]
        encoded.append(
            encode_batch(
                lines, base_offset=offset, timestamp_ms=1_700_000_000_000, compression=compression
            )
        )
    return b"".join(encoded)


def rows_per_second(data: bytes, include_headers: bool = False) -> float:
    """Return the best of some runs, in CPU time of this thread: other processes do not count."""
    best = float("inf")
    for _ in range(REPEATS):
        start = thread_time()
        batches = to_arrow(
            data,
            topic="lines",
            partition=0,
            from_offset=0,
            before_offset=1 << 62,
            include_headers=include_headers,
        )
        rows = sum(batch.num_rows for batch in batches)
        best = min(best, thread_time() - start)
        assert rows == BATCHES * RECORDS
    return float(rows / best)


def run() -> list[dict[str, Any]]:
    """Return the rows of `make bench`: two with targets, and others to compare them with."""
    figures = [
        ("arrow_plain_mrows_s", rows_per_second(fetched(0)), 8),
        ("arrow_lz4_mrows_s", rows_per_second(fetched(3)), 4),
        ("arrow_zstd_mrows_s", rows_per_second(fetched(4)), None),
        ("arrow_snappy_mrows_s", rows_per_second(fetched(2)), None),
        ("arrow_gzip_mrows_s", rows_per_second(fetched(1)), None),
        (
            "arrow_two_headers_mrows_s",
            rows_per_second(fetched(0, headers=2), include_headers=True),
            None,
        ),
        ("arrow_batches_of_10_mrows_s", rows_per_second(fetched(0, records=10)), None),
        ("python_decode_mrows_s", python_rows_per_second(fetched(0)), None),
    ]
    return [
        {
            "name": name,
            "value": round(rows / 1e6, 3),
            "unit": "M rows/s",
            "target": target,
            "better": "higher",
        }
        for name, rows, target in figures
    ]


def python_rows_per_second(data: bytes) -> float:
    """Return the same for the decoder in plain Python, which makes an object of each record."""
    start = thread_time()
    rows = sum(len(decode_batch(batch)) for batch in split_batches(data))
    return rows / (thread_time() - start)


if __name__ == "__main__":
    for figure in run():
        print(figure)
