"""The forms in which `apportion groups` shows a group: its part, and the order of its rows."""

from enum import Enum
from typing import NamedTuple

from apportion.cli.failures import WrongArguments


class GroupView(Enum):
    """The part of a description that is printed."""

    OFFSETS = "offsets"
    MEMBERS = "members"
    STATE = "state"
    CONFIGS = "configs"
    ALL = "all"


class Sort(Enum):
    """The order of the rows of offsets."""

    TOPIC = "topic"
    LAG = "lag"
    OWNER = "owner"


class GroupForm(NamedTuple):
    """The form of a description. is_verbose: with what is seldom needed of groups and members."""

    view: GroupView = GroupView.OFFSETS
    sort: Sort = Sort.TOPIC
    is_verbose: bool = False


def parse_sort(text: str) -> Sort:
    """Return the order that was typed as `--sort`; raise WrongArguments."""
    words = [each.value for each in Sort]
    if text not in words:
        raise WrongArguments(f"--sort must be one of {', '.join(words)}, not {text!r}")
    return Sort(text)
