"""The filters of `apportion groups list`: by state and by type."""

from collections.abc import Iterable
from typing import NamedTuple

from apportion.cli.failures import WrongArguments
from apportion.wire.group_states import GroupState
from apportion.wire.messages.list_groups import ListedGroup

TYPES = ("classic", "consumer", "share", "streams")


class Filter(NamedTuple):
    """The groups that are listed: of one of the states, and of one of the types; () for all."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    def passes(self, group: ListedGroup) -> bool:
        """Return whether the group is listed."""
        # A broker before KIP-848 sends no type: all of its groups are classic.
        group_type = group.group_type.lower() or "classic"
        return (not self.states or group.group_state.lower() in self.states) and (
            not self.types or group_type in self.types
        )


def parse_filter(states: Iterable[str], types: Iterable[str]) -> Filter:
    """Return the filter that was typed, as in `--state stable,empty`; raise WrongArguments."""
    return Filter(
        _chosen("--state", states, tuple(GroupState)),
        _chosen("--type", types, TYPES),
    )


def _chosen(option: str, texts: Iterable[str], choices: tuple[str, ...]) -> tuple[str, ...]:
    words = [word.strip() for text in texts for word in text.split(",")]
    for word in words:
        if word.lower() not in [choice.lower() for choice in choices]:
            raise WrongArguments(f"{option} must be one of {', '.join(choices)}, not {word!r}")
    return tuple(word.lower() for word in words)
