"""A bounded cache of what has connections: the least recently used is closed first.

Spark uses a Python worker again for the tasks of any query, and a process that plans writes for any
write. So there is a bound: what was not used for the longest time is closed first, but nothing that
is in use, whatever the bound says.

Spark forks its workers. Connections of the parent are the parent's: a child neither uses nor closes
them, and does not drop them either, as that could end them, too.
"""

import os
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """Something with connections."""

    def close(self) -> None:
        """Close the connections."""


K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Closable)


class KeptOpen(Generic[K, V]):
    """Values by key, opened once in each process and used by one task after another."""

    def __init__(self, most: int, opened: Callable[[K], V]) -> None:
        """Begin empty. most: values that are kept. opened: returns a new value of a key."""
        self._most = most
        self._opened = opened
        self._process = os.getpid()
        self._kept: dict[K, _Entry[V]] = {}  # in the order of their last use
        self._of_parents: list[dict[K, _Entry[V]]] = []
        self._lock = Lock()

    @contextmanager
    def using(self, key: K) -> Iterator[V]:
        """Have the key's value, which is not closed meanwhile."""
        with self._lock:
            self._leave_to_parent()
            entry = self._kept.pop(key, None) or _Entry(self._opened(key))
            entry.users += 1
            self._kept[key] = entry
            surplus = self._surplus()
        try:
            _close(surplus)
            yield entry.value
        finally:
            with self._lock:
                entry.users -= 1
                unused = self._surplus()
                if not entry.users and entry not in self._kept.values() and entry not in unused:
                    unused.append(entry)  # it was discarded
            _close(unused)

    def discard(self, key: K) -> None:
        """Have the next use of the key begin with a new value; close this one once it is unused."""
        with self._lock:
            self._leave_to_parent()
            entry = self._kept.pop(key, None)
            is_unused = entry is not None and not entry.users
        if entry is not None and is_unused:
            entry.value.close()

    def _surplus(self) -> "list[_Entry[V]]":
        """Remove what is beyond the bound and unused, and return it."""
        excess = max(len(self._kept) - self._most, 0)
        keys = [key for key, entry in self._kept.items() if not entry.users][:excess]
        return [self._kept.pop(key) for key in keys]

    def _leave_to_parent(self) -> None:
        """Begin empty in a process that was forked."""
        if self._process != os.getpid():
            self._of_parents.append(self._kept)
            self._kept, self._process = {}, os.getpid()


class _Entry(Generic[V]):
    """A value with the number of its users."""

    def __init__(self, value: V) -> None:
        self.value, self.users = value, 0


def _close(entries: list[_Entry[V]]) -> None:
    """Close the values of entries that are kept no more."""
    for each in entries:
        each.value.close()
