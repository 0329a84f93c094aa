"""Spark queries that are members of a Kafka consumer group: the source, the exactly-once writers, the guard."""

from importlib import import_module
from typing import Any

LAZY = {"guard": "apportion.spark.stateless", "StatefulQuery": "apportion.spark.stateless"}

__all__ = ["StatefulQuery", "guard"]


def __getattr__(name: str) -> Any:
    """The public object of that name, imported now; AttributeError when there is none."""
    if name in LAZY:
        return getattr(import_module(LAZY[name]), name)
    raise AttributeError(f"module 'apportion.spark' has no attribute {name!r}")
