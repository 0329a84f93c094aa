"""The keys of the deadlines that the node serves itself, and two of their times.

Those of others stand where they are armed (`node/cleaning.py`, `retention.py`, `coordinators.py`,
`delayed_fetches.py`).
"""

from apportion.deadlines import Key

# Deadlines with the same time are served in the order of their keys, as tuples are sorted.
FLUSH: Key = ("flush",)  # while it is armed no flush begins
PRODUCERS: Key = ("producers",)  # the next check for expired producer states
RETRY: Key = ("again",)  # run the units that a failed step has left
# announce topics and settings to the remaining shards after one of them has failed
TOPICS_CHANGED: Key = ("tell",)
FAILURES: Key = ("failures",)  # log the failures that were only counted
FLUSH_RETRY_MS = 1_000  # the pause before the next flush after two refused ones in a row
PRODUCER_EXPIRY_CHECK_MS = 600_000  # Kafka's producer.id.expiration.check.interval.ms
