"""The vote for the protocol (assignor) of a generation."""

from collections.abc import Iterable, Sequence


def select_protocol(ballots: Iterable[Sequence[str]]) -> str:
    """Return the assignor that most members of a classic group prefer of those all support.

    The coordinator calls it when all members have joined. Kafka calls the assignor the group's
    protocol. Each member votes for its first protocol that all support. Of several with equally
    many votes the first by name wins.
    ballots: for each member the names of its protocols, best first, none twice. At least one name
        must be on every ballot.
    """
    ballots = list(ballots)
    supporters: dict[str, int] = {}
    for ballot in ballots:
        for name in ballot:
            supporters[name] = supporters.get(name, 0) + 1
    votes: dict[str, int] = {}
    for ballot in ballots:
        # Never without a result: JoinGroup admits no member that shares no protocol with all
        # others.
        favourite = next(name for name in ballot if supporters[name] == len(ballots))
        votes[favourite] = votes.get(favourite, 0) + 1
    # Kafka leaves a tie to a hash table. By name, the same members always choose the same protocol.
    return min(votes, key=lambda name: (-votes[name], name))
