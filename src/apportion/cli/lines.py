"""Sentences and tables on a terminal: broken between words, nothing cut; unbroken in a pipe."""

import sys
from shutil import get_terminal_size

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 10_000  # no terminal, no line breaks: a line is a row


def report_console(piped_columns: int) -> Console:
    """Return a console as wide as the terminal, or as COLUMNS says."""
    width = None if sys.stdout.isatty() else get_terminal_size((piped_columns, 0)).columns
    return Console(highlight=False, markup=False, width=width)


def row_console() -> Console:
    """Return a console for reports that grep and awk read: in a pipe no cell is folded."""
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    return Console(highlight=False, markup=False, emoji=False, width=width)


def print_sentence(console: Console, sentence: str | Text, style: str = "") -> None:
    """Print the sentence in as many lines as the terminal needs; in one line to a pipe."""
    console.print(sentence, style=style, soft_wrap=not sys.stdout.isatty())


def print_dry_run(what: str) -> None:
    """Print that a command has only shown what it would do. what: it, after "to"."""
    print_sentence(row_console(), f"Nothing was changed: add --execute to {what}.")


def folded(table: Table) -> Table:
    """Return the table with long cells folded into several lines.

    Rich would cut them, and names that differ at their ends would look the same.
    """
    for column in table.columns:
        column.overflow = "fold"
    return table
