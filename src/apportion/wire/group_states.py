"""The states of a group, as the protocol names them in descriptions and lists of groups."""

from enum import StrEnum


class GroupState(StrEnum):
    """The state of a group of any type, in DescribeGroups, ConsumerGroupDescribe and ListGroups.

    A newer broker may send another name, so responses keep their text.
    """

    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    EMPTY = "Empty"
    DEAD = "Dead"
    """There is no such group, in DescribeGroups before version 6."""
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"
