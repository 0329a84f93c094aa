"""A topology told as plain values, such as JSON has them."""

from collections.abc import Iterable, Mapping
from typing import Any

from apportion.streams.topology import InternalTopic, Subtopology, Topology, TopologyRefused


def topology_of(parts: Iterable[Mapping[str, Any]]) -> Topology:
    """The topology that was told: for each subtopology, by number, the fields of `Subtopology`,
    each a list.

    An internal topic is its name, or a mapping with the fields of `InternalTopic`. TopologyRefused
    says what cannot be meant.
    """
    if isinstance(parts, str | bytes | Mapping) or not isinstance(parts, Iterable):
        raise TopologyRefused(
            f"a topology is told as a list of its subtopologies, not as {parts!r}"
        )
    return Topology({number: _subtopology(number, part) for number, part in enumerate(parts)})


def _subtopology(number: int, told: Mapping[str, Any]) -> Subtopology:
    where = f"subtopology {number}"
    _check_fields(where, told, Subtopology.__dataclass_fields__)
    values: dict[str, Any] = {name: _list(where, name, told) for name in told}
    if "copartition" in values:
        values["copartition"] = tuple(
            _list(where, "copartition", {"copartition": group}) for group in values["copartition"]
        )
    for name in ("repartition_sources", "changelogs"):
        values[name] = tuple(_internal_topic(where, each) for each in values.get(name, ()))
    return Subtopology(**values)


def _list(where: str, name: str, told: Mapping[str, Any]) -> tuple[Any, ...]:
    if not isinstance(told[name], list | tuple):
        raise TopologyRefused(f"{where}: {name} must be a list, not {told[name]!r}")
    return tuple(told[name])


def _internal_topic(where: str, told: Any) -> InternalTopic:
    if isinstance(told, str):
        return InternalTopic(told)
    _check_fields(f"{where}: an internal topic", told, InternalTopic._fields)
    if "name" not in told:
        raise TopologyRefused(f"{where}: an internal topic has no name in {dict(told)!r}")
    configs = told.get("configs", {})
    if not isinstance(configs, Mapping):
        raise TopologyRefused(
            f"{where}: configs of {told['name']!r} must map names to texts, not {configs!r}"
        )
    return InternalTopic(
        told["name"], told.get("partitions", 0), tuple(sorted(configs.items(), key=str))
    )


def _check_fields(where: str, told: Any, known: Iterable[str]) -> None:
    if not isinstance(told, Mapping):
        raise TopologyRefused(
            f"{where} must be told by its fields, {', '.join(known)}, not as {told!r}"
        )
    for name in told:
        if name not in known:
            raise TopologyRefused(f"{where} has no {name!r}; there are {', '.join(known)}")
