"""The shard of a group, by Kafka's rule.

Clients, tools and a real Kafka's log thus agree with this broker.
"""

from functools import lru_cache

LONGEST_KEPT = 64
"""The shards of longer ids are computed each time: ids of 32 kB would fill the memory."""


def shard_of(group_id: str, shards: int) -> int:
    """Return the index of the partition of `__consumer_offsets` that has the group.

    The index is the absolute value of Java's string hash, modulo `shards`. The hash runs over
    UTF-16 units. The one value without an absolute value in 32 bits counts as 0.
    """
    return (_kept if len(group_id) <= LONGEST_KEPT else _computed)(group_id, shards)


def _computed(group_id: str, shards: int) -> int:
    """Return the shard of a group, by a pass over its id."""
    value = 0
    units = group_id.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    # Java's abs() leaves this one value negative, so Kafka takes 0 for it.
    return 0 if signed == -(1 << 31) else abs(signed) % shards


# Heartbeats ask for the same groups again and again.
_kept = lru_cache(maxsize=16_384)(_computed)
