"""Settings are declared once: the declaration is complete, and it is what the checks and the
suggestions read.
"""

from typing import Annotated, Any, TypedDict

import pytest

from apportion.client.options import ConsumerOptions, MemberOptions
from apportion.client.streams_options import StreamsOptions
from apportion.coord.config import GroupSettings
from apportion.node.settings import BrokerSettings
from apportion.settings import Setting, bounds_fault_or_none, declared, nearest_or_none


class Parent(TypedDict, total=False):
    first: Annotated[int, Setting("The first.", 3, at_least=1, at_most=9)]


class Child(Parent, total=False):
    second: Annotated[str | None, Setting("The second.")]
    bare: int


def test_a_declaration_is_read_with_name_type_and_default() -> None:
    assert dict(declared(Child)) == {
        "first": Setting("The first.", 3, at_least=1, at_most=9, name="first", type=int),
        "second": Setting("The second.", name="second", type=str | None),
    }


def test_a_dataclass_says_its_defaults_in_its_fields() -> None:
    assert declared(BrokerSettings)["num_partitions"].default == BrokerSettings().num_partitions


@pytest.mark.parametrize(
    ("value", "fault"), [(0, "be at least 1"), (1, None), (9, None), (10, "be at most 9")]
)
def test_bounds_are_inclusive(value: int, fault: str | None) -> None:
    assert bounds_fault_or_none(declared(Parent)["first"], value) == fault


def test_the_nearest_name_is_suggested_or_none() -> None:
    assert nearest_or_none("num_partions", ["num_partitions", "node_id"]) == "num_partitions"
    assert nearest_or_none("x", ["num_partitions", "node_id"]) is None


@pytest.mark.parametrize(
    "owner", [MemberOptions, ConsumerOptions, StreamsOptions, BrokerSettings, GroupSettings]
)
def test_every_field_is_declared_with_a_sentence(owner: Any) -> None:
    fields = [name for name in owner.__annotations__ if name != "group"]
    assert [name for name in fields if not declared(owner)[name].sentence.endswith(".")] == []
