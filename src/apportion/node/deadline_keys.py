"""The node's own deadlines: their keys, and how far away they are."""

from apportion.deadlines import Key

# Deadlines; those with the same time are served in the order of these keys.
FLUSH: Key = ("flush",)  # while it is armed no flush begins
PRODUCERS: Key = ("producers",)  # the next check for expired producer states
RETRY: Key = ("again",)  # run the units that a failed step has left
# announce topics and settings to the remaining shards after one of them has failed
TOPICS_CHANGED: Key = ("tell",)
FAILURES: Key = ("failures",)  # log the failures that were only counted
FLUSH_RETRY_MS = 1_000  # the pause before the next flush after two refused ones in a row
PRODUCER_EXPIRY_CHECK_MS = 600_000  # Kafka's producer.id.expiration.check.interval.ms
