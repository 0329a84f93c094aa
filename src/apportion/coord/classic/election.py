"""Which protocol a generation speaks."""

from collections.abc import Iterable, Sequence


def select_protocol(ballots: Iterable[Sequence[str]]) -> str:
    """The protocol that most members like best of those that all of them speak; among equals the first by name.

    ballots: of each member, the names of its protocols, best first, none twice. At least one name must be on every ballot.
    """
    ballots = list(ballots)
    speakers: dict[str, int] = {}
    for ballot in ballots:
        for name in ballot:
            speakers[name] = speakers.get(name, 0) + 1
    votes: dict[str, int] = {}
    for ballot in ballots:
        favourite = next(name for name in ballot if speakers[name] == len(ballots))
        votes[favourite] = votes.get(favourite, 0) + 1
    return min(votes, key=lambda name: (-votes[name], name))
