"""Whether the topics that a consumer subscribed to exist: one log line when it begins to wait for some, one when each is there.

The cluster is asked on a thread of its own, because an answer may take longer than a poll may.
"""

import logging
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.errors import Refused
from apportion.readable import readable

if TYPE_CHECKING:
    from apportion.topics import Topics

log = logging.getLogger("apportion.consumer")

LOOK_EVERY_S = 5.0


class MetadataLookup(threading.Thread):
    """One question to the cluster. topics: those of `names` that exist, once the thread has ended; None if nobody answered."""

    def __init__(self, cluster: Cluster, names: tuple[str, ...]) -> None:
        super().__init__(name="apportion-missing-topics", daemon=True)
        self._cluster, self._names = cluster, names
        self.topics: Topics | None = None

    def run(self) -> None:
        """Ask once."""
        with suppress(Disconnected, Refused):  # the session tells of a cluster that does not answer
            self.topics = self._cluster.topics(self._names, fresh=True)


class MissingTopics:
    """Those of the subscribed topics that have not been seen yet."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self._cluster, self._group = cluster, group_id
        self._unseen: tuple[str, ...] = ()
        self._told: tuple[str, ...] = ()
        self._look: MetadataLookup | None = None
        self._look_at_s = 0.0

    def expect(self, names: Iterable[str]) -> None:
        """These are subscribed to now."""
        self._unseen, self._told, self._look, self._look_at_s = tuple(names), (), None, 0.0

    def look(self) -> None:
        """Log what is missing and what has come, as far as is known: this waits for nobody.

        Ask the cluster every few seconds, and no more once every topic was seen.
        """
        if self._look is not None and not self._look.is_alive():
            topics, self._look = self._look.topics, None
            self._look_at_s = time.monotonic() + LOOK_EVERY_S
            if topics is not None:
                self._tell(tuple(name for name in self._unseen if topics.named(name) is None))
        if self._unseen and self._look is None and time.monotonic() >= self._look_at_s:
            self._look = MetadataLookup(self._cluster, self._unseen)
            self._look.start()

    def _tell(self, missing: tuple[str, ...]) -> None:
        for name in missing:
            if name not in self._told:
                log.warning(
                    "group %s: topic %s does not exist yet; it is read once it does: is its name right?",
                    readable(self._group),
                    name,
                )
        for name in self._told:
            if name not in missing:
                log.warning("group %s: topic %s exists now", readable(self._group), name)
        self._unseen = self._told = missing
