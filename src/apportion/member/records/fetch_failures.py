"""The errors of single partitions in a consumer's fetches: which are raised, which are logged.

An error of one partition must not hold back what others have, so a fetch fails as a whole only if
no retry mends the error, or if nothing could be fetched of any partition.
"""

from collections.abc import Container, Mapping

from apportion.machine import Note
from apportion.member.cluster_queries.records import PartitionFetch, refusals
from apportion.member.reactions import is_permanent
from apportion.rules import Rule
from apportion.topics import TopicIdPartition


class FetchFailures:
    """The partitions of one consumer that cannot be fetched for now, each logged at both ends."""

    def __init__(self) -> None:
        """Know of no failure yet."""
        # each failing partition -> whether that was logged
        self._failing: dict[TopicIdPartition, bool] = {}

    def record(
        self,
        fetched: Mapping[TopicIdPartition, PartitionFetch],
        owned: Container[TopicIdPartition],
    ) -> Rule[bool]:
        """Log which partitions began to fail or are fetched again; return whether any fails.

        Raises Refused for an error that no retry mends, or if every partition has an error.
        OFFSET_OUT_OF_RANGE is none here.
        """
        refused = refusals(fetched)
        permanent = [error for error in refused.values() if is_permanent(error)]
        if permanent or len(refused) == len(fetched) > 0:
            raise (permanent or [*refused.values()])[0]
        for partition, error in refused.items():
            # From the second error in a row on: the first one may just say that the leader has
            # moved, and then the next fetch finds it.
            if self._failing.get(partition) is False:
                why = f"cannot fetch {partition} now, and tries again until it can: {error}"
                yield Note("warning", why)
            self._failing[partition] = partition in self._failing
        for partition in [each for each in self._failing if each not in refused]:
            # Neither failed nor fetched: its leader did not answer.
            if partition not in fetched and partition in owned:
                continue
            is_logged = self._failing.pop(partition)
            if is_logged and partition in fetched:
                yield Note("warning", f"{partition} is fetched again")
        return bool(refused)
