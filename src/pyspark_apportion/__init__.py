"""PySpark looks here by itself: `format("apportion")` needs no registration."""

from apportion.spark.source import GroupSource as DefaultSource

__all__ = ["DefaultSource"]
