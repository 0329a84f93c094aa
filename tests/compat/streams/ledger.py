"""What was fed to an application, what it has counted, and the laws between the two.

A count is "3 lines-0@17#2": the third of its word, made by word 2 of the record at offset 17 of
lines-0. So the changelog of the store says of every single count what it came from, also after a
crash.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence


class Ledger:
    """Both sides of one application; it is written by a producer's thread and read by the test."""

    def __init__(self) -> None:
        self._fed: dict[str, list[str]] = {}  # place of a record -> its words
        self.begin()

    def begin(self) -> None:
        """Nothing was read of the application's results."""
        # word -> (count, place of the word), in the order of the changelog
        self.changes: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        self.results: defaultdict[str, list[int]] = defaultdict(
            list
        )  # word -> counts, in the order of the sink

    def fed(self, position: str, words: list[str]) -> None:
        """The record at that place has these words."""
        self._fed[position] = words

    def words_at(self, position: str) -> Sequence[str]:
        """The words of the record at that place; none if it is no record of the source."""
        return self._fed.get(position, ())

    def changed(self, word: str, value: str) -> None:
        """The changelog has that value."""
        count, position = value.split(" ")
        self.changes[word].append((int(count), position))

    def came(self, word: str, count: int) -> None:
        """The sink has that count."""
        self.results[word].append(count)

    @property
    def wanted(self) -> dict[str, set[str]]:
        """{word: the places where it stands in the source}."""
        wanted = defaultdict(set)
        for position, words in list(self._fed.items()):
            for number, word in enumerate(words):
                wanted[word].add(f"{position}#{number}")
        return dict(wanted)

    @property
    def is_done(self) -> bool:
        """Every word that was fed is counted, and the sink has the last count."""
        return not self._uncounted() and all(
            word in self.results and self.results[word][-1] == changes[-1][0]
            for word, changes in self.changes.items()
        )

    def missing(self) -> str:
        """In words, what is not there yet."""
        return (
            f"all is counted: {sum(map(len, self._uncounted().values()))} of {len(self._fed)} "
            "records' words are not"
        )

    def _uncounted(self) -> dict[str, set[str]]:
        left = {
            word: positions - {position for _, position in self.changes[word]}
            for word, positions in self.wanted.items()
        }
        return {word: positions for word, positions in left.items() if positions}

    @property
    def counts(self) -> dict[str, int]:
        """{word: its count}, as the changelog ends."""
        return {word: changes[-1][0] for word, changes in self.changes.items()}

    @property
    def gaps(self) -> list[tuple[str, int, int]]:
        """[(word, count before, count)] where a count is not one more than the one before it:
        something was forgotten.
        """
        return [
            (word, before, count)
            for word, changes in self.changes.items()
            for before, (count, _) in zip(
                [0, *(count for count, _ in changes)], changes, strict=False
            )
            if count != before + 1
        ]

    @property
    def repeated(self) -> dict[str, int]:
        """{place of a word: how many times more than once it was counted}."""
        times = Counter(position for changes in self.changes.values() for _, position in changes)
        return {position: count - 1 for position, count in times.items() if count > 1}

    def agrees(self) -> bool:
        """Each count is the number of its words in the source, and of those that were counted
        again; nothing else was counted.
        """
        wanted, again = self.wanted, self.repeated
        assert self.gaps == []
        assert {
            word: {position for _, position in changes} for word, changes in self.changes.items()
        } == wanted
        assert self.counts == {
            word: len(positions) + sum(again.get(position, 0) for position in positions)
            for word, positions in wanted.items()
        }
        assert {word: counts[-1] for word, counts in self.results.items()} == self.counts
        return True
