"""Settings are declared once: the declaration is complete, and it is what the checks and the
suggestions read.
"""

from typing import Annotated, Any, TypedDict

import pytest

from apportion.client.options import ConsumerOptions, MemberOptions
from apportion.client.streams_options import StreamsOptions
from apportion.coord.config import GroupSettings
from apportion.node.security_settings import MechanismSettings, SecuritySettings
from apportion.node.settings import BrokerSettings
from apportion.settings import (
    Setting,
    ValueCheck,
    bounds_fault_or_none,
    declared,
    fault_or_none,
    nearest_or_none,
)
from apportion.spark.options.batch_read import BatchReadOptions
from apportion.spark.options.stream import SparkOptions


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
    ("owner", "name"),
    [
        pytest.param(owner, name, id=name)
        for owner in (BrokerSettings, GroupSettings, SecuritySettings)
        for name, setting in declared(owner).items()
        if setting.at_least is not None
    ],
)
def test_a_value_below_its_declared_bound_is_refused(owner: Any, name: str) -> None:
    least = declared(owner)[name].at_least
    assert least is not None
    dotted = name.replace("_", ".")
    value: dict[str, Any] = {name: least - 1}
    with pytest.raises(ValueError) as refused:
        if owner is GroupSettings:
            GroupSettings(**value)
        else:
            BrokerSettings.of({dotted: least - 1})
    assert str(refused.value) == f"{dotted} must be at least {least}, not {least - 1}."


@pytest.mark.parametrize(
    "owner",
    [
        MemberOptions,
        ConsumerOptions,
        StreamsOptions,
        BrokerSettings,
        GroupSettings,
        SecuritySettings,
        MechanismSettings,
        SparkOptions,
        BatchReadOptions,
    ],
)
def test_every_field_is_declared_with_a_sentence(owner: Any) -> None:
    # Values that settings name, or that follow from them.
    no_settings = ("group", "security", "mechanisms", "custom_assignors", "heartbeat_interval_ms")
    fields = [name for name in owner.__annotations__ if name not in no_settings]
    assert [name for name in fields if not declared(owner)[name].sentence.endswith(".")] == []


@pytest.mark.parametrize(
    ("setting", "value", "fault"),
    [
        (Setting("", at_least=1, at_most=9, type=int), 9, None),
        (Setting("", at_least=1, at_most=9, type=int), 0, "be a whole number from 1 to 9"),
        (Setting("", at_least=1, type=int), True, "be a whole number of at least 1"),
        (Setting("", at_most=9, type=int), 10, "be a whole number of at most 9"),
        (Setting("", type=int), "7", "be a whole number"),
        (Setting("", type=int), None, "be a whole number"),
        (Setting("", at_least=1, type=int | None), None, None),
        (Setting("", type=bool), True, None),
        (Setting("", type=bool), 1, "be True or False"),
        (Setting("", choices=("a", "b"), type=str), "b", None),
        (Setting("", choices=("a", "b"), type=str), ["a"], "be one of a, b"),
        (Setting("", type=tuple[int, ...]), (), None),
        (Setting("", check=ValueCheck(str.isupper, "shout"), type=str), "A", None),
        (Setting("", check=ValueCheck(str.isupper, "shout"), type=str), "a", "shout"),
        (Setting("", check=ValueCheck(str.isupper, "shout"), type=str | None), None, None),
    ],
)
def test_a_value_of_the_wrong_kind_is_answered_with_what_it_must_be(
    setting: Setting, value: object, fault: str | None
) -> None:
    assert fault_or_none(setting, value) == fault


def test_a_note_on_another_setting_stands_in_the_sentence() -> None:
    assert Setting("The time.").only_with("auto_commit").sentence == (
        "The time; only with auto_commit."
    )
