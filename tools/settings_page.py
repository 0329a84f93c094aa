"""Write docs/settings.md: every setting of broker, Consumer, StreamsConsumer and Spark, as the code declares it."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from apportion.client.options import ConsumerOptions, MemberOptions
from apportion.client.streams_options import StreamsOptions
from apportion.coord.config import GroupSettings, dotted
from apportion.node.settings import BrokerSettings
from apportion.settings import Setting, declared
from apportion.spark.options import OPTIONS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"
HEAD = """# Settings

`python tools/settings_page.py` writes this page from the declarations in the code; a test compares the two.

## The broker

Kafka's names and meanings; `apportion serve --set NAME=VALUE`, or `EmbeddedBroker(name_with_underscores=value)`.
Where a default differs from Kafka's, and why: [the broker](broker.md#settings).
"""
CONSUMER = """
## `apportion.Consumer`

Keyword arguments beside `bootstrap_servers`, `group_id` and `topics`. More: [the consumer](consumer.md).
"""
STREAMS = """
## `apportion.StreamsConsumer`

Those of a Consumer but `group_protocol`, `server_assignor` and `partition_assignment_strategy`, and these. More:
[Kafka Streams](streams.md).
"""
SPARK = """
## The Spark source

Options of `spark.readStream.format("apportion")`. More: [Spark](spark.md).
"""


def value(setting: Setting) -> str:
    """Return the default as the page shows it."""
    if setting.default_words:
        return setting.default_words
    return f"`{shown(setting.default)}`"


def shown(default: Any) -> str:
    """Return a value as a user would write it."""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple | list):
        return ",".join(map(str, default))
    return str(default)


def bounds(setting: Setting) -> str:
    """Return the values that a setting takes, as far as they are few or bounded."""
    if setting.choices:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    far = setting.at_most is not None and setting.at_most < 2**31 - 1
    return "" if setting.at_least is None else f"{setting.at_least} to {setting.at_most}" if far else f"{setting.at_least} or more"


def table(settings: Iterable[Setting]) -> str:
    """Return a table of settings: name, default, values, sentence."""
    rows = (f"| `{each.name}` | {value(each)} | {bounds(each)} | {each.sentence} |" for each in settings)
    return "\n".join(["", "| setting | default | values | meaning |", "|---|---|---|---|", *rows, ""])


def page() -> str:
    """Return the whole page."""
    broker = {**declared(BrokerSettings), **declared(GroupSettings)}
    kafka_names = (
        Setting(each.sentence, each.default, each.default_words, each.at_least, each.at_most, each.choices, dotted(name))
        for name, each in broker.items()
    )
    streams = (each for name, each in declared(StreamsOptions).items() if name not in declared(MemberOptions))
    return "".join(
        (
            HEAD,
            table(kafka_names),
            CONSUMER,
            table(declared(ConsumerOptions).values()),
            STREAMS,
            table(streams),
            SPARK,
            table(OPTIONS),
        )
    )


def main() -> int:
    """Write the page. Return the exit code."""
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
