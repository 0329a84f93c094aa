"""docs/settings.md, and the tables of options and metrics in other pages, as the code has them.

A page has a table between `<!-- printed: NAME -->` and `<!-- end of table -->`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from tools.permissions_table import permissions_table

from apportion.client.options import ONE_PROTOCOL_ONLY, ConsumerOptions
from apportion.client.security_options import SecurityOptions
from apportion.client.streams_options import StreamsOptions
from apportion.coord.config import GroupSettings, dotted
from apportion.coord.group_settings import FIELDS, OWN_SETTINGS
from apportion.node.config_entries import FROM_BROKER
from apportion.node.security_settings import MechanismSettings, SecuritySettings
from apportion.node.settings import BrokerSettings
from apportion.node.topic_settings import SUPPORTED, UNSUPPORTED
from apportion.server.metric_families import series_name
from apportion.server.prometheus import FAMILIES
from apportion.settings import MAX_INT64, Setting, declared
from apportion.spark.delta_sink.table_features import FEATURES
from apportion.spark.monitoring import query_metrics
from apportion.spark.options.batch_read import BatchQueryOptions
from apportion.spark.options.foreign import (
    REFUSED_EVERYWHERE,
    REFUSED_IN_BATCH_READS,
    REFUSED_IN_STREAMS,
)
from apportion.spark.options.security import KafkaSecurityOptions
from apportion.spark.options.stream import QueryOptions, SparkOptions
from apportion.spark.options.topic_write import ProducerOptions
from apportion.wire.absent_apis import ABSENT_BY_REASON

HEAD = """# Settings and options

The tables are printed from the code by `make docs`. An unknown name is refused with the nearest
known one, and a value that is out of bounds with a sentence that says what it must be.
"""
BROKER = """
## The broker

For `apportion serve --set NAME=VALUE`, and with underscores for dots as arguments of
`EmbeddedBroker`. The names are Kafka's; those that begin with `apportion.` are our own.
A setting that says "alterable" can also be [altered while the broker
runs](broker.md#settings-that-change-while-the-broker-runs).

"""
GROUPS = """
## Groups of the broker

Given in the same way.

"""
LISTENERS = """
## TLS and SASL of the broker's listeners

Given in the same way, and hold for every listener that has TLS or SASL. `listener.name.NAME.` in
front, with the listener's name in lower case, makes a setting that listener's own, which goes
before the one without. Such names are written with dots; `EmbeddedBroker` takes them as
`**{"listener.name.inside.ssl.client.auth": "required"}`.

"""
MECHANISMS = """
A SASL mechanism of a listener has settings of its own, after `listener.name.NAME.MECHANISM.`, as in
`listener.name.inside.plain.sasl.jaas.config`:

"""
OF_GROUPS = """
## Settings of a group

A group may have these settings [of its own](broker.md#settings-of-a-group). Where it has none, the
setting of the broker holds that is the default here.

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
BATCH = """
## A batch read in Spark

Options of `spark.read.format("apportion")`, beside those about security, which are the same.
[Batch reads](batch-read.md) says what they mean together.

"""
WRITES = """
## Rows written to topics

Options of `df.write.format("apportion")` and `df.writeStream.format("apportion")`, beside those of
the source about TLS and SASL: [writing rows to topics](spark-writing.md).

"""
TABLE = "| name | default | values | meaning |\n|---|---|---|---|\n"


def settings_page() -> str:
    """Return the text of docs/settings.md."""
    consumer, streams = declared(ConsumerOptions), declared(StreamsOptions)
    shared = ", ".join(f"`{name}`" for name in streams if streams[name] == consumer.get(name))
    return "".join(
        (
            HEAD,
            BROKER + _table(_as_texts(declared(BrokerSettings).values())),
            GROUPS + _table(_as_texts(declared(GroupSettings).values())),
            LISTENERS + _table(_as_texts(declared(SecuritySettings).values())),
            MECHANISMS + _table(_as_texts(declared(MechanismSettings).values())),
            OF_GROUPS + _group_table(),
            CONSUMER + _table(consumer.values()),
            STREAMS.format(shared=shared) + _streams_table(),
            SPARK + _spark_table(),
            BATCH + _batch_table(),
            WRITES + TABLES["options of a write"](),
        )
    )


def with_tables(page: str, *names: str) -> str:
    """Return the text of a page with these tables printed anew. names: keys of TABLES."""
    for name in names:
        before, start, rest = page.partition(f"<!-- printed: {name} -->")
        _, end, after = rest.partition("<!-- end of table -->")
        assert end, f"the page has no place for the table {name!r}"
        page = f"{before}{start}\n\n{TABLES[name]()}\n{end}{after}"
    return page


def _group_table() -> str:
    return _table(
        replace(setting, name=name, default_words=dotted(FIELDS[name]))
        for name, setting in OWN_SETTINGS.items()
    )


def _consumer_table(*, is_classic: bool) -> str:
    """Return the options of a Consumer that only a classic group has, or all others.

    Those about security have a page of their own.
    """
    return _table(
        setting
        for name, setting in declared(ConsumerOptions).items()
        if (name in ONE_PROTOCOL_ONLY["classic"]) == is_classic
        and name not in declared(SecurityOptions)
    )


def _streams_table() -> str:
    """Return the options of a StreamsConsumer that a Consumer lacks or has with another default."""
    consumer = declared(ConsumerOptions)
    return _table(
        setting
        for name, setting in declared(StreamsOptions).items()
        if setting != consumer.get(name)
    )


def _spark_table() -> str:
    return _table(_as_texts(declared(SparkOptions).values()))


def _batch_table() -> str:
    return _table(_as_texts(declared(BatchQueryOptions).values()))


def _refused_table(refused: Mapping[str, str], but: Mapping[str, str]) -> str:
    """Return options that are refused, without those of `but`; one row for each reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in refused.items():
        if name not in but:
            by_reason.setdefault(reason, []).append(f"`{name}`")
    rows = [f"| {', '.join(names)} | {reason} |" for reason, names in by_reason.items()]
    return "\n".join(["| option | reason |", "|---|---|", *rows]) + "\n"


def _topic_table() -> str:
    """Return the settings of a topic, those of which only the default is taken last."""
    supported = (
        replace(
            each,
            name=name,
            default_words="the broker's" if name in FROM_BROKER else "",
            # A bound that the type has anyway tells nothing.
            at_least=None if each.at_least == -MAX_INT64 - 1 else each.at_least,
            at_most=None if each.at_most == MAX_INT64 else each.at_most,
        )
        for name, each in SUPPORTED.items()
    )
    unsupported = (
        replace(
            each,
            name=name,
            at_most=None,
            sentence=f"Refused unless it is the default; missing here: {each.sentence}.",
        )
        for name, each in UNSUPPORTED.items()
    )
    return _table((*supported, *unsupported))


def _metrics_table() -> str:
    """Return the metrics of a broker as Prometheus reads them."""
    rows = ["| metric | labels | meaning | Kafka's name |", "|---|---|---|---|"]
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        kafka = ", ".join(f"`{name}`" for name in family.kafka.split(", ") if name)
        rows.append(f"| `{series_name(family)}` | {labels} | {family.meaning} | {kafka} |")
    return "\n".join(rows) + "\n"


def _spark_metrics_table() -> str:
    """Return the metrics of Spark queries as Prometheus reads them."""
    rows = ["| metric | labels | meaning |", "|---|---|---|"]
    for family in query_metrics.FAMILIES:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        rows.append(f"| `{series_name(family)}` | {labels} | {family.meaning} |")
    return "\n".join(rows) + "\n"


def _delta_features_table() -> str:
    """Return what the Delta writer says of each table feature."""
    head = "| table feature | written? | |\n|---|---|---|\n"
    return head + "".join(
        f"| `{name}` | {'yes' if feature.is_met else 'no'} | {feature.reason} |\n"
        for name, feature in FEATURES.items()
    )


def _absent_table() -> str:
    """Return the APIs of Kafka that this broker does not have; one row for each reason."""
    rows = ["| why | APIs |", "|---|---|"]
    for reason, apis in ABSENT_BY_REASON.items():
        names = ", ".join(f"`{name}` ({key})" for key, name in apis.items())
        rows.append(f"| {reason} | {names} |")
    return "\n".join(rows) + "\n"


TABLES: dict[str, Callable[[], str]] = {  # name in a page -> the function that prints the table
    "options of a consumer": lambda: _consumer_table(is_classic=False),
    "options of a classic consumer": lambda: _consumer_table(is_classic=True),
    "options of a StreamsConsumer": _streams_table,
    "options of the Spark source": lambda: _table(_as_texts(declared(QueryOptions).values())),
    "options of a batch read": _batch_table,
    "options of a write": lambda: _table(_as_texts(declared(ProducerOptions).values())),
    "refused options of any read": lambda: _refused_table(REFUSED_EVERYWHERE, {}),
    "refused options of a stream": lambda: _refused_table(REFUSED_IN_STREAMS, REFUSED_EVERYWHERE),
    "refused options of a batch read": lambda: _refused_table(
        REFUSED_IN_BATCH_READS, REFUSED_EVERYWHERE
    ),
    "security options of a consumer": lambda: _table(declared(SecurityOptions).values()),
    "security options of the Spark source": lambda: _table(
        _as_texts(declared(KafkaSecurityOptions).values())
    ),
    "metrics of a broker": _metrics_table,
    "metrics of Spark queries": _spark_metrics_table,
    "settings of a topic": _topic_table,
    "APIs that are not there": _absent_table,
    "permissions of APIs": permissions_table,
    "table features of Delta": _delta_features_table,
}


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
        f"| `{each.name}` | {_default(each)} | {_values(each)} | {_meaning(each)} |\n"
        for each in settings
    )


def _meaning(setting: Setting) -> str:
    return f"{setting.sentence} Alterable." if setting.is_dynamic else setting.sentence


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
