"""A bounded cache of what has connections: the least recently used is closed first.

Spark uses a Python worker again for the tasks of any query, and a process that plans writes for any
write. So there is a bound: what was not used for the longest time is closed first, but nothing that
is in use, whatever the bound says.

Spark forks its workers. Connections of the parent are the parent's: a child neither uses nor closes
them, and does not drop them either, as that could end them, too.
"""

import os
from collections.abc import Callable, Hashable
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

    def using(self, key: K) -> "_Use[K, V]":
        """Return a context manager of the key's value, which is not closed meanwhile."""
        return _Use(self, key)

    def discard(self, key: K) -> None:
        """Have the next use of the key begin with a new value; close this one once it is unused."""
        with self._lock:
            self._leave_to_parent()
            entry = self._kept.pop(key, None)
            is_unused = entry is not None and not entry.users
        if entry is not None and is_unused:
            entry.value.close()

    def begin_use(self, key: K) -> "_Entry[V]":
        """Return the entry of the key, with one user more."""
        with self._lock:
            self._leave_to_parent()
            entry = self._kept.pop(key, None) or _Entry(self._opened(key))
            entry.users += 1
            self._kept[key] = entry
            surplus = self._surplus()
        for each in surplus:
            each.value.close()
        return entry

    def end_use(self, entry: "_Entry[V]") -> None:
        """Take note that the entry has one user less; close what is not kept any more."""
        with self._lock:
            entry.users -= 1
            unused = self._surplus()
            if not entry.users and entry not in self._kept.values() and entry not in unused:
                unused.append(entry)  # it was discarded
        for each in unused:
            each.value.close()

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


class _Use(Generic[K, V]):
    """The context manager of one use."""

    def __init__(self, kept: KeptOpen[K, V], key: K) -> None:
        self._kept, self._key = kept, key

    def __enter__(self) -> V:
        self._entry = self._kept.begin_use(self._key)
        return self._entry.value

    def __exit__(self, *_: object) -> None:
        self._kept.end_use(self._entry)
