"""The exit codes, and the messages of commands that fail: a sentence, or JSON with `--json`.

A message goes to stderr. stdout has the result alone, so it is empty then; the exit code is the
same with and without `--json`. A message ends with the next step where there is one.
"""

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from apportion.errors import Code, Refused
from apportion.readable import listed, readable

FAILED = 1  # exit code: a law broke, an upgrade does not go well, or the cluster refused
UNUSABLE = 2  # exit code where the arguments make no sense
MOST_MEMBERS = 3
"""How many members of a group a sentence names."""


class WrongArguments(Exception):
    """The arguments make no sense, alone or together; the text says what to type."""


class Impossible(Exception):
    """The cluster's state does not allow what was asked; the text says what to do first."""


class Advised(Refused):
    """An error whose text is for people who type commands, and stands without the code's name."""

    def __str__(self) -> str:
        return self.why


class Denied(Advised):
    """The caller may not do that; a command without a login ends it with how to give one."""


class NoSuchGroup(Advised):
    """There is no group of that name; the text says how to list the groups of that cluster."""

    def __init__(self, group_id: str, at: str, meaning: str = "", also: str = "") -> None:
        """Create the error for a group that does not exist; it names `apportion groups list`.

        meaning: a sentence on the kind of name that the option takes; it stands before the command.
        at: the options that name the cluster (`Asked.at`). also: another step than to list the
        groups.
        """
        super().__init__(
            Code.GROUP_ID_NOT_FOUND,
            f"there is no group {group_id!r}: {meaning}`apportion groups list "
            f"{at}` shows what there is{also}",
        )


class NoSuchTopic(Advised):
    """There is no topic of that name; the text says how to list the topics of that cluster."""

    def __init__(self, topic: str, at: str) -> None:
        """Create the error for a topic that does not exist; it names `apportion topics list`.

        at: the options that name the cluster (`Asked.at`).
        """
        super().__init__(
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            f"there is no topic {topic!r}: `apportion topics list {at}` shows what there is",
        )


class GroupHasMembers(Advised):
    """The group has members, which would overwrite the change or need what it deletes."""

    def __init__(
        self,
        group_id: str,
        members: Sequence[Mapping[str, Any]],
        at: str,
        session_ms: int | None = None,
    ) -> None:
        """Create the error for a group that must be empty first.

        members: as in the report on a group; () where they are not known. at: the options that
        name the cluster (`Asked.at`). session_ms: the time after which a silent member is removed;
        None where that is not known.
        """
        count = len(members)
        who = f"{count} member{'' if count == 1 else 's'}: " if count else "members"
        who += listed([*map(_member_words, members)], MOST_MEMBERS)
        named = shlex.quote(group_id)
        shown = f"; `apportion groups members {named} {at}` shows them"
        time = "" if session_ms is None else f", {session_ms / 1000:g} s after its last heartbeat"
        removes = (
            f". One that was killed stays a member until its session ends{time}; `apportion groups "
            f"remove-members {named} --all --execute {at}` removes it at once"
        )
        super().__init__(
            Code.NON_EMPTY_GROUP,
            f"group {group_id!r} has {who}{'' if 0 < count <= MOST_MEMBERS else shown}. Stop its "
            f"applications first{removes if count else ''}",
        )


def _member_words(member: Mapping[str, Any]) -> str:
    """Return a member of a report for a sentence: its name, and where its process is."""
    host = member["host"].removeprefix("/")
    return f"{member['instance'] or member['member']} (client {member['client']}, host {host})"


class NoStreamsGroup(Exception):
    """There is no such group of Kafka Streams; the text says what there is instead."""


def print_failure(command: str, error: Exception, as_json: bool) -> None:
    """Print the error that ended `command`.

    JSON keys: `error`, Kafka's name of the error code where there is one, and `message`, which does
    not say the code again.
    """
    # Errors quote names from brokers, which may hold control characters of a terminal.
    if as_json:
        code, text = (
            (error.code.name, error.why) if isinstance(error, Refused) else (None, str(error))
        )
        print(json.dumps({"error": code, "message": readable(text)}), file=sys.stderr)
    else:
        begin = f"apportion {command}".rstrip()
        print(f"{begin}: {readable(str(error))}", file=sys.stderr)


def print_warning(command: str, text: str, as_json: bool) -> None:
    """Print a consequence of a command that has done what it was told. JSON key: `warning`."""
    if as_json:
        print(json.dumps({"warning": readable(text)}), file=sys.stderr)
    else:
        print(f"apportion {command}: {readable(text)}", file=sys.stderr)


def drop_stdout() -> None:
    """Discard what is still in stdout's buffer, whose reader has gone.

    Else Python would flush it when the process ends, and fail once more.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
