"""Parses the topology of a `StreamsConsumer` from plain values, such as JSON has them."""

from collections.abc import Iterable, Mapping
from typing import Any

from apportion.streams.topology import InternalTopic, Subtopology, Topology, TopologyRefused


def topology_of(subtopologies: Iterable[Mapping[str, Any]]) -> Topology:
    """Return the Streams topology of these subtopologies, numbered from 0.

    For the `topology` of a `StreamsConsumer`. Each is a mapping with the fields of `Subtopology`,
    each of them a list. An internal topic is its name, or a mapping with the fields of
    `InternalTopic`. Raises TopologyRefused with the reason.
    """
    if isinstance(subtopologies, str | bytes | Mapping) or not isinstance(subtopologies, Iterable):
        raise TopologyRefused(
            f"a topology must be a list of its subtopologies, not {subtopologies!r}"
        )
    return Topology(
        {number: _subtopology(number, fields) for number, fields in enumerate(subtopologies)}
    )


def _subtopology(number: int, fields: Mapping[str, Any]) -> Subtopology:
    """Return the Streams subtopology of a mapping that `topology_of` was given."""
    where = f"subtopology {number}"
    _check_fields(where, fields, Subtopology.__dataclass_fields__)
    values: dict[str, Any] = {name: _list(where, name, fields) for name in fields}
    if "copartition" in values:
        values["copartition"] = tuple(
            _list(where, "copartition", {"copartition": group}) for group in values["copartition"]
        )
    for name in ("repartition_sources", "changelogs"):
        values[name] = tuple(_internal_topic(where, each) for each in values.get(name, ()))
    return Subtopology(**values)


def _list(where: str, name: str, fields: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a Streams subtopology's field as a tuple. Raises TopologyRefused if it is no list."""
    if not isinstance(fields[name], list | tuple):
        raise TopologyRefused(f"{where}: {name} must be a list, not {fields[name]!r}")
    return tuple(fields[name])


def _internal_topic(where: str, value: Any) -> InternalTopic:
    """Return the internal Streams topic of a name or a mapping. Raises TopologyRefused."""
    if isinstance(value, str):
        return InternalTopic(value)
    _check_fields(f"{where}: an internal topic", value, InternalTopic._fields)
    if "name" not in value:
        raise TopologyRefused(f"{where}: an internal topic has no name in {dict(value)!r}")
    configs = value.get("configs", {})
    if not isinstance(configs, Mapping):
        raise TopologyRefused(
            f"{where}: configs of {value['name']!r} must map names to texts, not {configs!r}"
        )
    return InternalTopic(
        value["name"], value.get("partitions", 0), tuple(sorted(configs.items(), key=str))
    )


def _check_fields(where: str, value: Any, known: Iterable[str]) -> None:
    """Raise TopologyRefused unless this part of a Streams topology has known fields only."""
    if not isinstance(value, Mapping):
        raise TopologyRefused(
            f"{where} must be a mapping of its fields, {', '.join(known)}, not {value!r}"
        )
    for name in value:
        if name not in known:
            raise TopologyRefused(f"{where} has no {name!r}; there are {', '.join(known)}")
