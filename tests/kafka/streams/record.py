"""Make tests/streams/golden/metadata.json anew, with the Kafka Streams of
tests/kafka/pom-streams.xml.

Run from the root of the repository: .venv/bin/python -m tests.kafka.streams.record
"""

import json
from pathlib import Path

from apportion.testing.kafka import jars_of, version_of
from tests.kafka.streams.oracle import Oracle
from tests.kafka.streams.samples import samples
from tests.streams.metadata import in_json

POM = Path(__file__).parent.with_name("pom-streams.xml")
GOLDEN = Path(__file__).parents[2] / "streams" / "golden" / "metadata.json"


def recorded(jars: Path) -> str:
    """The whole file, one line a sample."""
    lines = []
    with Oracle(jars) as java:
        for info in samples():
            written, ordered = java.write(info)
            row = {"value": in_json(info), "bytes": written.hex()} | (
                {} if written == ordered else {"ordered": ordered.hex()}
            )
            lines.append(json.dumps(row))
    return f'{{"kafka": "{version_of(jars)}", "samples": [\n' + ",\n".join(lines) + "\n]}\n"


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(recorded(jars_of(POM)))
    print(GOLDEN)
