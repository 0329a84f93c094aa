"""Checks of what a custom assignor answers, on either side."""

from collections.abc import Collection, Mapping
from numbers import Integral
from typing import Any

from apportion.assign.by_name import ClusterTopics, Given, Subscription
from apportion.errors import Code, Refused
from apportion.readable import foreign_text

MAX_USER_DATA_BYTES = 1 << 16
"""How many bytes an assignor may give to one member of a consumer group beside its partitions."""
MAX_ALL_USER_DATA_BYTES = 1 << 26
"""How many it may give to all members together."""
EXPECTED = "by_topic([(topic, number), ...])"  # how the partitions of a Given are made


def check_given(
    cluster: ClusterTopics, members: Mapping[str, Subscription], answer: Mapping[str, Given]
) -> None:
    """Raise Refused, naming partition and member, for an assignor's answer that is no assignment.

    Every partition exists, is assigned once, and to a member of the group that is subscribed to its
    topic. An answer that is no mapping of member ids to `Given` is refused as well.
    """
    # The shape first: the checks below index into it.
    check_shape(answer)
    owners: dict[str, dict[int, str]] = {}
    for member, given in answer.items():
        if member not in members:
            gives = next(
                (
                    f"gives partition {numbers[0]} of {topic!r} to"
                    for topic, numbers in given.partitions
                    if numbers
                ),
                "answers for",
            )
            raise invalid_assignment(f"{gives} {member!r}, which is no member of the group")
        subscribed = dict.fromkeys(members[member].topics)
        for topic, numbers in given.partitions:
            if numbers and topic not in subscribed:
                raise invalid_assignment(
                    f"gives partition {numbers[0]} of {topic!r} to {member!r}, which is "
                    "not subscribed to that topic"
                )
            size = cluster[topic].partitions if topic in cluster else 0
            owner_of = owners.setdefault(topic, {})
            for number in numbers:
                if not 0 <= number < size:
                    has = f"has {size} partitions" if topic in cluster else "does not exist"
                    raise invalid_assignment(
                        f"gives partition {number} of {topic!r} to {member!r}, but the topic {has}"
                    )
                if number in owner_of:
                    other = (
                        "twice" if owner_of[number] == member else f"and to {owner_of[number]!r}"
                    )
                    raise invalid_assignment(
                        f"gives partition {number} of {topic!r} to {member!r} {other}"
                    )
                owner_of[number] = member


def check_shape(answer: Any) -> None:
    """Raise Refused, naming the member, unless the answer maps member ids to `Given` values.

    A custom assignor is foreign code, so all types are checked, down to the partition numbers.
    """
    if not isinstance(answer, Mapping):
        raise invalid_assignment(
            f"answers {foreign_text(answer):.80}, which is no mapping of member ids to `Given` "
            "values"
        )
    for member, given in answer.items():
        if not isinstance(member, str):
            shown = foreign_text(member)
            raise invalid_assignment(f"answers for {shown:.80}, which is no member id")
        if not isinstance(given, Given):
            raise invalid_assignment(
                f"gives {foreign_text(given):.80} to {member!r}, which is no Given: "
                f"use Given({EXPECTED})"
            )
        if given.user_data is not None and not isinstance(given.user_data, bytes):
            raise invalid_assignment(
                f"gives {foreign_text(given.user_data):.80} as user data to {member!r}, which are "
                "no bytes"
            )
        if not isinstance(given.partitions, tuple | list):
            raise invalid_assignment(
                f"gives {foreign_text(given.partitions):.80} to {member!r}, which are no "
                f"partitions: use {EXPECTED}"
            )
        for parts in given.partitions:
            is_pair = isinstance(parts, tuple) and len(parts) == 2
            if not is_pair or not isinstance(parts[0], str) or not are_numbers(parts[1]):
                raise invalid_assignment(
                    f"gives {foreign_text(parts):.80} to {member!r}, which is no topic with whole "
                    f"numbers: use {EXPECTED}"
                )


def check_metadata_sizes(sizes_bytes: Collection[int]) -> None:
    """Raise Refused unless a consumer group's members may be given metadata of these sizes."""
    longest_bytes, all_bytes = max(sizes_bytes, default=0), sum(sizes_bytes)
    if longest_bytes > MAX_USER_DATA_BYTES or all_bytes > MAX_ALL_USER_DATA_BYTES:
        raise invalid_assignment(
            f"gives more than {MAX_USER_DATA_BYTES} bytes of metadata to one member, or "
            f"{MAX_ALL_USER_DATA_BYTES} to all"
        )


def are_numbers(numbers: Any) -> bool:
    """Return whether this is a tuple or list of integers, Python's or NumPy's, without booleans."""
    return isinstance(numbers, tuple | list) and all(
        isinstance(number, Integral) and not isinstance(number, bool) for number in numbers
    )


def invalid_assignment(what: str) -> Refused:
    """Return the refusal of an assignor's answer. what: the rest of "the assignor ..."."""
    return Refused(Code.INVALID_REQUEST, f"the assignor {what}")
