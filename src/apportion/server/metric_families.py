"""Metrics in the text format of Prometheus, by the library prometheus_client.

A table of families says which metrics there are, and how each is read from the values of one
moment. That of the broker is in `prometheus.py`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

M = TypeVar("M")

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

Samples = Iterable[tuple[tuple[str, ...], float]]
"""Values by the texts of their labels."""


class Family(NamedTuple, Generic[M]):
    """One metric: its name, its labels, what it means, and how to read it.

    kafka: the name of the same metric in Kafka's group `group-coordinator-metrics`, if it is there.
    """

    name: str
    is_counter: bool
    labels: tuple[str, ...]
    meaning: str
    samples: Callable[[M], Samples]
    kafka: str = ""


class _Collector(Generic[M]):
    """The metrics of one moment, as `generate_latest` reads them."""

    def __init__(self, families: Iterable[Family[M]], metrics: M) -> None:
        self._families, self._metrics = families, metrics

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            kind = CounterMetricFamily if family.is_counter else GaugeMetricFamily
            metric = kind(family.name, family.meaning, labels=family.labels)
            for labels, value in family.samples(self._metrics):
                metric.add_metric(labels, value)
            yield metric


def prometheus_text(families: Iterable[Family[M]], metrics: M) -> bytes:
    """Return the metrics in the text format of Prometheus."""
    return generate_latest(_Collector(families, metrics))


def series_name(family: Family[M]) -> str:
    """Return the name of the metric as Prometheus shows it: that of a counter ends in _total."""
    return f"{family.name}_total" if family.is_counter else family.name
