"""Subscribed topics that do not exist: a warning when one is missing, another when it appears.

The look-up runs on a thread of its own, because a Metadata request may take longer than a poll may.
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
from apportion.member.missing_topic import missing_topic_remedy
from apportion.readable import readable

if TYPE_CHECKING:
    from apportion.topics import Topics

log = logging.getLogger("apportion.consumer")

LOOKUP_INTERVAL_S = 5.0


class MetadataLookup(threading.Thread):
    """One Metadata request on a thread of its own, so that `Consumer.poll` does not wait for it.

    topics: the topics that exist; None while there is no response.
    """

    def __init__(self, cluster: Cluster, names: tuple[str, ...]) -> None:
        super().__init__(name="apportion-missing-topics", daemon=True)
        self._cluster, self._names = cluster, names
        self.topics: Topics | None = None

    def run(self) -> None:
        """Send one Metadata request for the missing topics, on a thread of its own."""
        # The membership's own log says that a cluster does not answer.
        with suppress(Disconnected, Refused):
            self.topics = self._cluster.topics(self._names, fresh=True)


class MissingTopics:
    """The subscribed topics that have not been seen yet; checked from `Consumer.poll`."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        """Watch no topics yet, for one consumer."""
        self._cluster, self._group = cluster, group_id
        self._unresolved: tuple[str, ...] = ()
        self._warned: tuple[str, ...] = ()
        self._lookup: MetadataLookup | None = None
        self._next_lookup_s = 0.0

    def subscribe(self, names: Iterable[str]) -> None:
        """Watch these topics, in place of the former ones."""
        self._unresolved, self._warned = tuple(names), ()
        self._lookup, self._next_lookup_s = None, 0.0

    def check(self) -> None:
        """Log the consumer's topics that are missing or have appeared since; never block.

        Starts a look-up every few seconds until every topic has been seen.
        """
        # One look-up at a time: during an outage they would pile up, a thread for each poll.
        if self._lookup is not None and not self._lookup.is_alive():
            topics, self._lookup = self._lookup.topics, None
            self._next_lookup_s = time.monotonic() + LOOKUP_INTERVAL_S
            if topics is not None:
                self._log_changes(
                    tuple(name for name in self._unresolved if topics.named(name) is None)
                )
        if self._unresolved and self._lookup is None and time.monotonic() >= self._next_lookup_s:
            self._lookup = MetadataLookup(self._cluster, self._unresolved)
            self._lookup.start()

    def _log_changes(self, missing: tuple[str, ...]) -> None:
        """Warn of each topic that is newly missing, and of each that exists now."""
        for name in missing:
            if name not in self._warned:
                log.warning(
                    "group %s: topic %s does not exist yet; it is read once it does: %s",
                    readable(self._group),
                    name,
                    missing_topic_remedy(name, self._cluster.bootstrap_servers),
                )
        for name in self._warned:
            if name not in missing:
                log.warning("group %s: topic %s exists now", readable(self._group), name)
        self._unresolved = self._warned = missing
