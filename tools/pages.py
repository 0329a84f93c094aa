"""Write the files of docs/ that are printed from the code, in whole or in their tables.

Called by `make docs`, or as `python -m tools.pages`.
"""

from collections.abc import Callable
from pathlib import Path

from tools import diagrams
from tools.rooms_page import rooms_page
from tools.settings_page import settings_page, with_tables

ROOT = Path(__file__).resolve().parents[1]
PRINTED: dict[str, Callable[[], str]] = {  # file -> the function that prints it
    "docs/batch-read.md": lambda: with_tables(
        (ROOT / "docs/batch-read.md").read_text(), "options of a batch read"
    ),
    "docs/broker.md": lambda: with_tables(
        (ROOT / "docs/broker.md").read_text(), "metrics of a broker", "settings of a topic"
    ),
    "docs/consumer.md": lambda: with_tables(
        (ROOT / "docs/consumer.md").read_text(),
        "options of a consumer",
        "options of a classic consumer",
    ),
    "docs/diagrams/classic-group-states.svg": diagrams.group_states,
    "docs/diagrams/classic-member-states.svg": diagrams.classic_states,
    "docs/diagrams/consumer-member-states.svg": diagrams.consumer_states,
    "docs/diagrams/heartbeat.svg": diagrams.heartbeat,
    "docs/diagrams/micro-batch.svg": diagrams.micro_batch,
    "docs/diagrams/rooms.svg": diagrams.rooms,
    "docs/differences.md": lambda: with_tables(
        (ROOT / "docs/differences.md").read_text(), "APIs that are not there"
    ),
    "docs/from-format-kafka.md": lambda: with_tables(
        (ROOT / "docs/from-format-kafka.md").read_text(),
        "refused options of any read",
        "refused options of a stream",
        "refused options of a batch read",
    ),
    "docs/rooms.md": rooms_page,
    "docs/security.md": lambda: with_tables(
        (ROOT / "docs/security.md").read_text(),
        "security options of a consumer",
        "security options of the Spark source",
        "permissions of APIs",
    ),
    "docs/settings.md": settings_page,
    "docs/spark.md": lambda: with_tables(
        (ROOT / "docs/spark.md").read_text(),
        "options of the Spark source",
        "table features of Delta",
    ),
    "docs/spark-metrics.md": lambda: with_tables(
        (ROOT / "docs/spark-metrics.md").read_text(), "metrics of Spark queries"
    ),
    "docs/spark-writing.md": lambda: with_tables(
        (ROOT / "docs/spark-writing.md").read_text(), "options of a write"
    ),
    "docs/streams.md": lambda: with_tables(
        (ROOT / "docs/streams.md").read_text(), "options of a StreamsConsumer"
    ),
}


def main() -> None:
    """Write each file that is not as the code has it."""
    for name, printed in PRINTED.items():
        path, text = ROOT / name, printed()
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"{name} is written")


if __name__ == "__main__":
    main()
