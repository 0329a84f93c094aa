"""Which assignors a classic member offers (partition.assignment.strategy), and the rebalance
protocol they imply.
"""

from collections.abc import Iterable

from apportion.member.assignors.builtin import CLIENT_ASSIGNORS
from apportion.member.assignors.interface import Assignor, Rebalance

DEFAULT = ("range", "cooperative-sticky")
"""As Kafka's own clients. Only eager rebalances are common to both: to be cooperative, name
"cooperative-sticky" alone.
"""

METHODS = ("user_data", "assign", "on_assignment")


def strategy(wanted: str | Assignor | Iterable[str | Assignor] = DEFAULT) -> tuple[Assignor, ...]:
    """Return the assignors in order of preference, each an object of its own. Raises ValueError."""
    listed = (
        tuple(wanted) if isinstance(wanted, Iterable) and not isinstance(wanted, str) else (wanted,)
    )
    assignors = tuple(_assignor(each) for each in listed)
    rebalance_of(assignors)
    return assignors


def rebalance_of(assignors: tuple[Assignor, ...]) -> Rebalance:
    """Return the highest rebalance protocol that all of them support.

    Raises ValueError if there is none, no assignor, or a name twice.
    """
    if not assignors:
        raise ValueError(
            f"a classic member needs an assignor: name one or more of {', '.join(CLIENT_ASSIGNORS)}"
        )
    names = [assignor.name for assignor in assignors]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"assignor {name!r} is named twice; a group votes for assignors by name, "
                "so name each once"
            )
    common = [way for way in Rebalance if all(way in assignor.rebalances for assignor in assignors)]
    if not common:
        ways = "; ".join(f"{assignor.name}: {_rebalance_names(assignor)}" for assignor in assignors)
        raise ValueError(
            f"assignors {', '.join(names)} have no way to rebalance in common ({ways}); "
            "leave one out"
        )
    return max(common)


def _assignor(wanted: str | Assignor) -> Assignor:
    if isinstance(wanted, str):
        if "," in wanted:
            names = tuple(name.strip() for name in wanted.split(",") if name.strip())
            raise ValueError(f"there is no assignor {wanted!r}: give several as a tuple, {names}")
        if wanted not in CLIENT_ASSIGNORS:
            raise ValueError(
                f"there is no assignor {wanted!r}: give one of "
                f"{', '.join(CLIENT_ASSIGNORS)}, or an Assignor object"
            )
        return CLIENT_ASSIGNORS[wanted]()
    if isinstance(wanted, type) and hasattr(wanted, "assign"):
        raise ValueError(
            f"the class {wanted.__name__} is no assignor: give a name, or an object, "
            f"{wanted.__name__}()"
        )
    if not hasattr(wanted, "assign"):
        raise ValueError(
            f"{wanted!r} is no assignor: give a name, or an object with the methods of "
            "apportion's Assignor"
        )
    _check_interface(wanted)
    return wanted


def _check_interface(assignor: object) -> None:
    """Raise ValueError unless the assignor has a name, rebalance protocols and every method."""
    kind, name, ways = (
        type(assignor).__name__,
        getattr(assignor, "name", ""),
        getattr(assignor, "rebalances", None),
    )
    if name is None or name == "":
        raise ValueError(
            f"the assignor {kind} has no name: give it one, `name`, for which all its members vote"
        )
    if not isinstance(name, str):
        raise ValueError(
            f"the name of the assignor {kind} must be a text, for which all its members "
            f"vote, not {name!r}"
        )
    if not isinstance(ways, tuple | list) or not all(isinstance(way, Rebalance) for way in ways):
        raise ValueError(
            f"the `rebalances` of the assignor {kind} must be a tuple such as "
            f"(Rebalance.COOPERATIVE,), not {ways!r}"
        )
    for method in METHODS:
        if not callable(getattr(assignor, method, None)):
            raise ValueError(
                f"the assignor {kind} has no method {method!r}: subclass Assignor and "
                "write what you need"
            )


def _rebalance_names(assignor: Assignor) -> str:
    return " and ".join(way.name.lower() for way in assignor.rebalances) or "none"
