"""What `make bench-peers` can be told: its options, and its help."""

import argparse
from collections.abc import Sequence

from bench.peers.rows import ROWS

DESCRIPTION = """Measure apportion beside Apache Kafka, kfake and Spark's own Kafka source.

Each row is measured in rounds, A B C A B C, so that all sides meet the same machine. A figure is
the median of its rounds; a ratio above 1 means that apportion is better. A peer that cannot be had
is named with the reason, and no figure stands without a peer of the same run.

Needs Java 17 or newer and Maven for Kafka and the connector, Go for kfake and for the load of small
requests. What they fetch goes to bench/peers/target, at pinned versions. Leave the machine alone
meanwhile: two cores are shared by load and broker."""


def parser(more_rows: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the command line. more_rows: those with --more."""
    made = argparse.ArgumentParser(
        prog='make bench-peers ARGS="..."',
        usage='make bench-peers [ARGS="[--only NAME] [--more] [--rounds N] [--json] | --table"]',
        description=DESCRIPTION,
        epilog=epilog(more_rows),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--only",
        metavar="NAME",
        help="only rows whose name holds NAME, and those that are measured with them",
    )
    made.add_argument(
        "--more", action="store_true", help="the rows that a run without it leaves out"
    )
    made.add_argument(
        "--rounds",
        type=rounds,
        metavar="N",
        help="rounds of each row; without it, as many as fit into 15 minutes. One says little",
    )
    made.add_argument("--json", action="store_true", help="print the rows as JSON, not as a table")
    made.add_argument(
        "--table", action="store_true", help="print the rows of earlier runs as Markdown"
    )
    return made


def parsed(more_rows: Sequence[str]) -> argparse.Namespace:
    """Return the options of this process, or end it with a sentence. more_rows: with --more."""
    command = parser(more_rows)
    options = command.parse_args()
    if options.table and (options.only or options.more or options.rounds or options.json):
        command.error("--table prints what earlier runs have measured: it takes no other option")
    return options


def epilog(more_rows: Sequence[str]) -> str:
    """Return what --help says of the rows and of examples. more_rows: those with --more."""
    lines = {row.name: f"  {row.name} [{row.unit}, {row.better} is better]" for row in ROWS}
    usual = "\n".join(line for name, line in lines.items() if name not in more_rows)
    others = "\n".join(line for name, line in lines.items() if name in more_rows)
    return f"""rows:
{usual}

rows with --more, which take some fifteen minutes:
{others}

examples:
  make bench-peers                               the first rows, under 15 minutes on two cores
  make bench-peers ARGS="--more"                 the others
  make bench-peers ARGS="--only heartbeats"      the rows whose name holds this text
  make bench-peers ARGS="--more --only storm"    the same of the others
  make bench-peers ARGS="--rounds 7"             more rounds: a narrower spread takes more time
  make bench-peers ARGS="--table"                print bench-out/peers.json, measure nothing

Rows of earlier runs stay in bench-out/peers.json until they are measured again.
"""


def rounds(text: str) -> int:
    """Return the number of rounds. Raises ArgumentTypeError."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rounds; give 1 or more")
    return int(text)
