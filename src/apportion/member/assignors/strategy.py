"""A member's own assignors: those of a classic member, and those of a KIP-848 member.

A classic member has them in partition.assignment.strategy, and its group needs a rebalance protocol
that they have in common. A KIP-848 member has them in group.local.assignors; its coordinator moves
partitions in its own way.
"""

from collections.abc import Iterable

from apportion.exports import attribute_of
from apportion.member.assignors.builtin import CLIENT_ASSIGNORS
from apportion.member.assignors.interface import Assignor, Rebalance
from apportion.member.assignors.weighted import BytesWeighted, LagWeighted

NAMED: dict[str, type[Assignor]] = CLIENT_ASSIGNORS | {
    assignor.name: assignor for assignor in (LagWeighted, BytesWeighted)
}
"""The package's assignors by the names that members vote for."""

DEFAULT = ("range", "cooperative-sticky")
"""The default of Kafka's clients. Only eager rebalances are common to both: for cooperative ones
name "cooperative-sticky" alone.
"""

METHODS = ("user_data", "assign", "on_assignment")
MAX_INT16 = 2**15 - 1


def strategy(chosen: str | Assignor | Iterable[str | Assignor] = DEFAULT) -> tuple[Assignor, ...]:
    """Return a classic member's assignors (partition.assignment.strategy), the preferred first.

    Raises ValueError.
    A name stands for a new object, since an assignor may keep state of its member.
    """
    assignors = _listed(chosen)
    rebalance_of(assignors)
    return assignors


def local_assignors(chosen: str | Assignor | Iterable[str | Assignor] = ()) -> tuple[Assignor, ...]:
    """Return a KIP-848 member's assignors (group.local.assignors), the preferred first.

    None is right, too: the broker assigns. Raises ValueError, and makes objects of names, as
    `strategy` does.
    """
    assignors = _listed(chosen)
    _check_names(assignors)
    for assignor in assignors:
        minimum, maximum = versions_of(assignor)
        are_numbers = isinstance(minimum, int) and isinstance(maximum, int)
        if not are_numbers or not 0 <= minimum <= maximum <= MAX_INT16:
            raise ValueError(
                f"the versions of the assignor {assignor.name!r} must be from 0 to {MAX_INT16}, "
                f"the oldest first, not {minimum!r} to {maximum!r}"
            )
    return assignors


def versions_of(assignor: Assignor) -> tuple[int, int]:
    """Return the oldest and the newest version of user data that an assignor understands."""
    # 0 alone where it is no VersionedAssignor.
    return getattr(assignor, "minimum_version", 0), getattr(assignor, "maximum_version", 0)


def _listed(chosen: str | Assignor | Iterable[str | Assignor]) -> tuple[Assignor, ...]:
    listed = (
        tuple(chosen) if isinstance(chosen, Iterable) and not isinstance(chosen, str) else (chosen,)
    )
    return tuple(_assignor(choice) for choice in listed)


def _check_names(assignors: tuple[Assignor, ...]) -> None:
    """Raise ValueError for a name that stands twice."""
    names = [assignor.name for assignor in assignors]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"assignor {name!r} is named twice; a group votes for assignors by name, "
                "so name each once"
            )


def rebalance_of(assignors: tuple[Assignor, ...]) -> Rebalance:
    """Return the highest rebalance protocol that all assignors support (KIP-429).

    Raises ValueError if there is none, no assignor, or a name twice.
    """
    if not assignors:
        raise ValueError(
            f"a classic member needs an assignor: name one or more of {', '.join(NAMED)}"
        )
    _check_names(assignors)
    common = [
        protocol
        for protocol in Rebalance
        if all(protocol in assignor.rebalances for assignor in assignors)
    ]
    if not common:
        protocols = "; ".join(
            f"{assignor.name}: {_rebalance_names(assignor)}" for assignor in assignors
        )
        names = ", ".join(assignor.name for assignor in assignors)
        raise ValueError(
            f"assignors {names} have no rebalance protocol in common ({protocols}); leave one out"
        )
    # KIP-429: members that are being upgraded offer both until the last one is cooperative
    return max(common)


def _assignor(choice: str | Assignor) -> Assignor:
    """Return the assignor for one entry: a built-in name, `module:Class`, or an object.

    Raises ValueError for an unknown name, and for an object without the interface.
    """
    if isinstance(choice, str) and ":" in choice and "," not in choice:
        choice = _loaded(choice)
    if isinstance(choice, str):
        if "," in choice:
            # other clients take partition.assignment.strategy as one text with commas
            names = tuple(name.strip() for name in choice.split(",") if name.strip())
            raise ValueError(f"there is no assignor {choice!r}: give several as a tuple, {names}")
        if choice not in NAMED:
            raise ValueError(
                f"there is no assignor {choice!r}: give one of "
                f"{', '.join(NAMED)}, your own as module:Class, or an Assignor object"
            )
        return NAMED[choice]()
    # a common mistake: the class instead of an object
    if isinstance(choice, type) and hasattr(choice, "assign"):
        raise ValueError(
            f"the class {choice.__name__} is no assignor: give a name, or an object, "
            f"{choice.__name__}()"
        )
    if not hasattr(choice, "assign"):
        raise ValueError(
            f"{choice!r} is no assignor: give a name, or an object with the methods of "
            "apportion's Assignor"
        )
    _check_interface(choice)
    return choice


def _loaded(name: str) -> Assignor:
    """Return an object of the class that a module has; raise ValueError for what cannot be one."""
    module, _, path = name.partition(":")
    try:
        found = attribute_of(module, path)
        made: Assignor | None = found() if isinstance(found, type) else None
    # Foreign code; it may also end the process.
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"the assignor {name} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if made is None:
        raise ValueError(
            f"the assignor {name} is no class: name one, of which each member makes its own object"
        )
    return made


def _check_interface(assignor: object) -> None:
    """Raise ValueError unless a custom assignor has a name, protocols and every method."""
    kind = type(assignor).__name__
    name = getattr(assignor, "name", "")
    protocols = getattr(assignor, "rebalances", None)
    if name is None or name == "":
        raise ValueError(
            f"the assignor {kind} has no name: give it one, `name`, for which all its members vote"
        )
    if not isinstance(name, str):
        raise ValueError(
            f"the name of the assignor {kind} must be a string, for which all its members "
            f"vote, not {name!r}"
        )
    if not isinstance(protocols, tuple | list) or not all(
        isinstance(protocol, Rebalance) for protocol in protocols
    ):
        raise ValueError(
            f"the `rebalances` of the assignor {kind} must be a tuple such as "
            f"(Rebalance.COOPERATIVE,), not {protocols!r}"
        )
    for method in METHODS:
        if not callable(getattr(assignor, method, None)):
            raise ValueError(
                f"the assignor {kind} has no method {method!r}: subclass Assignor and "
                "write what you need"
            )


def _rebalance_names(assignor: Assignor) -> str:
    return " and ".join(protocol.name.lower() for protocol in assignor.rebalances) or "none"
