"""apportion: Kafka's consumer-group system in Python.

The public names stand here and in `apportion.broker`, `apportion.assignors`, `apportion.errors`,
`apportion.spark`, `apportion.streams`, `apportion.testing` and `apportion.adapters`. Everything
else is private and may move.
"""

from typing import TYPE_CHECKING

from apportion.exports import lazily

__version__ = "0.1.0"

if TYPE_CHECKING:
    from apportion.client.consumer import Consumer
    from apportion.client.options import ConsumerOptions
    from apportion.client.streams import StreamsConsumer, TaskRecord
    from apportion.client.streams_options import StreamsOptions
    from apportion.member.group_claims import AnotherSink
    from apportion.member.records.fetch_buffer import ConsumerRecord
    from apportion.topics import TopicPartition
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "AnotherSink": "apportion.member.group_claims",
            "Consumer": "apportion.client.consumer",
            "ConsumerOptions": "apportion.client.options",
            "ConsumerRecord": "apportion.member.records.fetch_buffer",
            "StreamsConsumer": "apportion.client.streams",
            "StreamsOptions": "apportion.client.streams_options",
            "TaskRecord": "apportion.client.streams",
            "TopicPartition": "apportion.topics",
            "adapters": "apportion.adapters",
            "assignors": "apportion.assignors",
            "broker": "apportion.broker",
            "errors": "apportion.errors",
            "spark": "apportion.spark",
            "streams": "apportion.streams",
            "testing": "apportion.testing",
        },
    )

__all__ = [
    "AnotherSink",
    "Consumer",
    "ConsumerOptions",
    "ConsumerRecord",
    "StreamsConsumer",
    "StreamsOptions",
    "TaskRecord",
    "TopicPartition",
    "__version__",
]
