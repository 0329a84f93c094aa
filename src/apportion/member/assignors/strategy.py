"""The assignors of a classic member (partition.assignment.strategy), and their common protocol."""

from collections.abc import Iterable

from apportion.member.assignors.builtin import CLIENT_ASSIGNORS
from apportion.member.assignors.interface import Assignor, Rebalance

DEFAULT = ("range", "cooperative-sticky")
"""The default of Kafka's clients. Only eager rebalances are common to both: for cooperative ones
name "cooperative-sticky" alone.
"""

METHODS = ("user_data", "assign", "on_assignment")


def strategy(chosen: str | Assignor | Iterable[str | Assignor] = DEFAULT) -> tuple[Assignor, ...]:
    """Return a classic member's assignors (partition.assignment.strategy), the preferred first.

    Raises ValueError.
    A name stands for a new object, since an assignor may keep state of its member.
    """
    listed = (
        tuple(chosen) if isinstance(chosen, Iterable) and not isinstance(chosen, str) else (chosen,)
    )
    assignors = tuple(_assignor(choice) for choice in listed)
    rebalance_of(assignors)
    return assignors


def rebalance_of(assignors: tuple[Assignor, ...]) -> Rebalance:
    """Return the highest rebalance protocol that all assignors support (KIP-429).

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
    common = [
        protocol
        for protocol in Rebalance
        if all(protocol in assignor.rebalances for assignor in assignors)
    ]
    if not common:
        protocols = "; ".join(
            f"{assignor.name}: {_rebalance_names(assignor)}" for assignor in assignors
        )
        raise ValueError(
            f"assignors {', '.join(names)} have no rebalance protocol in common ({protocols}); "
            "leave one out"
        )
    # KIP-429: members that are being upgraded offer both until the last one is cooperative
    return max(common)


def _assignor(choice: str | Assignor) -> Assignor:
    """Return the assignor for one entry of the strategy: a built-in name, or an object.

    Raises ValueError for an unknown name, and for an object without the interface.
    """
    if isinstance(choice, str):
        if "," in choice:
            # other clients take partition.assignment.strategy as one text with commas
            names = tuple(name.strip() for name in choice.split(",") if name.strip())
            raise ValueError(f"there is no assignor {choice!r}: give several as a tuple, {names}")
        if choice not in CLIENT_ASSIGNORS:
            raise ValueError(
                f"there is no assignor {choice!r}: give one of "
                f"{', '.join(CLIENT_ASSIGNORS)}, or an Assignor object"
            )
        return CLIENT_ASSIGNORS[choice]()
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
