"""apportion: Kafka's consumer-group system in Python. Public names load on first use."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

LAZY = {  # public name -> the module that holds it
    "AnotherSink": "apportion.member.batch.sinks",
    "Consumer": "apportion.client.consumer",
    "StreamsConsumer": "apportion.client.streams",
}

__all__ = ["AnotherSink", "Consumer", "StreamsConsumer", "__version__"]


def __getattr__(name: str) -> Any:
    """The public object of that name, imported now; AttributeError when there is none."""
    if name not in LAZY:
        raise AttributeError(f"module 'apportion' has no attribute {name!r}")
    return getattr(import_module(LAZY[name]), name)
