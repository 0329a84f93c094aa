"""docs/settings.md: every setting and option, as the code declares it."""

from collections.abc import Iterable
from dataclasses import replace

from apportion.client.options import ConsumerOptions
from apportion.client.streams_options import StreamsOptions
from apportion.coord.config import GroupSettings
from apportion.node.settings import BrokerSettings
from apportion.settings import Setting, declared
from apportion.spark.options import SparkOptions

HEAD = """# Settings and options

The tables are printed from the code by `make docs`. An unknown name is refused with the nearest
known one, and a value that is out of bounds with a sentence that says what it must be.
"""
BROKER = """
## The broker

For `apportion serve --set NAME=VALUE`, and with underscores for dots as arguments of
`EmbeddedBroker`. The names are Kafka's; those that begin with `apportion.` are our own.

"""
GROUPS = """
## Groups of the broker

Given in the same way.

"""
CONSUMER = """
## `apportion.Consumer`

Keyword arguments. [The consumer](consumer.md) says what they mean together.

"""
STREAMS = """
## `apportion.StreamsConsumer`

Keyword arguments, beside those of a `Consumer` that a Streams group leaves open: {shared}.
[Kafka Streams](streams.md) says what they mean together.

"""
SPARK = """
## The Spark source

Options of `spark.readStream.format("apportion")`. [Spark queries](spark.md) says what they mean
together.

"""
TABLE = "| name | default | values | meaning |\n|---|---|---|---|\n"


def settings_page() -> str:
    """Return the text of docs/settings.md."""
    consumer, streams = declared(ConsumerOptions), declared(StreamsOptions)
    shared = ", ".join(f"`{name}`" for name in streams if streams[name] == consumer.get(name))
    own = [setting for name, setting in streams.items() if setting != consumer.get(name)]
    return "".join(
        (
            HEAD,
            BROKER + _table(_as_texts(declared(BrokerSettings).values())),
            GROUPS + _table(_as_texts(declared(GroupSettings).values())),
            CONSUMER + _table(consumer.values()),
            STREAMS.format(shared=shared) + _table(own),
            SPARK + _table(_as_texts(declared(SparkOptions).values())),
        )
    )


def _as_texts(settings: Iterable[Setting]) -> list[Setting]:
    """Return the settings as a command line takes them.

    Names have dots; true and false are in lower case.
    """
    texts = []
    for setting in settings:
        default = (
            str(setting.default).lower() if isinstance(setting.default, bool) else setting.default
        )
        texts.append(replace(setting, name=setting.name.replace("_", "."), default=default))
    return texts


def _table(settings: Iterable[Setting]) -> str:
    return TABLE + "".join(
        f"| `{each.name}` | {_default(each)} | {_values(each)} | {each.sentence} |\n"
        for each in settings
    )


def _default(setting: Setting) -> str:
    if setting.default_words:
        is_name = " " not in setting.default_words and not setting.default_words.isalpha()
        return f"`{setting.default_words}`" if is_name else setting.default_words
    if isinstance(setting.default, tuple):
        return ", ".join(f"`{value}`" for value in setting.default) or "none"
    return "none" if setting.default in (None, "", {}) else f"`{setting.default}`"


def _values(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    if setting.at_least is not None and setting.at_most is not None:
        return f"{setting.at_least} to {setting.at_most}"
    if setting.at_least is not None:
        return f"at least {setting.at_least}"
    return "" if setting.at_most is None else f"at most {setting.at_most}"
