"""Log lines for the notes of machines and rules."""

import logging

from apportion.machine import Note
from apportion.readable import readable

LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def log_note(log: logging.Logger, note: Note, group_id: str | None = None) -> None:
    """Log a note, after the name of its group if it has one, with its hint."""
    subject = "" if group_id is None else f"group {group_id}: "
    # Texts name what others chose, such as groups, and a terminal obeys control characters.
    log.log(LEVELS[note.level], "%s", readable(f"{subject}{note.text}{note.hint}"))
