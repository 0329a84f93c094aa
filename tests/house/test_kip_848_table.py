"""docs/kips/kip-848-table.md: every row is true of the code, and nothing of the code lacks a row.

The table says of each message and record which fields it has, of each setting its default, of each
API its versions and of each error its number: here they are compared with the code, whole. Every
module and every test that a row names is there. Run, it prints the first cells of the fields.
"""

import re
from functools import cache
from typing import Any, NamedTuple

import pytest
from tools.pages import ROOT

from apportion.coord.config import GroupSettings
from apportion.coord.group_settings import FIELDS
from apportion.errors import Code
from apportion.settings import declared
from apportion.streams.metadata import kip848
from apportion.wire import table as wire
from apportion.wire.messages import consumer_group_describe as describe
from apportion.wire.messages import consumer_group_heartbeat as heartbeat
from apportion.wire.messages import consumer_group_install_assignment as install
from apportion.wire.messages import consumer_group_prepare_assignment as prepare
from apportion.wire.records import groups

PAGE = ROOT / "docs" / "kips" / "kip-848-table.md"
NOWHERE = "-"
"""Stands in place of modules or tests where there are none; then the last cell says why."""

MESSAGES: dict[str, tuple[Any, ...]] = {  # heading -> the key of a record if it is one, the message
    "ConsumerGroupHeartbeat request": (heartbeat.ConsumerGroupHeartbeatRequest,),
    "ConsumerGroupHeartbeat response": (heartbeat.ConsumerGroupHeartbeatResponse,),
    "ConsumerGroupDescribe request": (describe.ConsumerGroupDescribeRequest,),
    "ConsumerGroupDescribe response": (describe.ConsumerGroupDescribeResponse,),
    "ConsumerGroupPrepareAssignment request": (prepare.ConsumerGroupPrepareAssignmentRequest,),
    "ConsumerGroupPrepareAssignment response": (prepare.ConsumerGroupPrepareAssignmentResponse,),
    "ConsumerGroupInstallAssignment request": (install.ConsumerGroupInstallAssignmentRequest,),
    "ConsumerGroupInstallAssignment response": (install.ConsumerGroupInstallAssignmentResponse,),
    "Record 3": (groups.ConsumerGroupMetadataKey, groups.ConsumerGroupMetadataValue),
    "Record 5": (groups.ConsumerGroupMemberMetadataKey, groups.ConsumerGroupMemberMetadataValue),
    "Record 6": (
        groups.ConsumerGroupTargetAssignmentMetadataKey,
        groups.ConsumerGroupTargetAssignmentMetadataValue,
    ),
    "Record 7": (
        groups.ConsumerGroupTargetAssignmentMemberKey,
        groups.ConsumerGroupTargetAssignmentMemberValue,
    ),
    "Record 8": (
        groups.ConsumerGroupCurrentMemberAssignmentKey,
        groups.ConsumerGroupCurrentMemberAssignmentValue,
    ),
    "Record 16": (
        groups.ConsumerGroupRegularExpressionKey,
        groups.ConsumerGroupRegularExpressionValue,
    ),
    "Streams member metadata": (kip848.Kip848MemberMetadata,),
    "Streams assignment metadata": (kip848.Kip848AssignmentMetadata,),
}


class Row(NamedTuple):
    """One row: what it is about, its value, where it is built and tested, what differs and why."""

    section: str
    what: str
    value: str
    built: str
    tested: str
    differs: str

    @property
    def is_built(self) -> bool:
        """Return whether the row says that a module of ours has it."""
        return self.built != NOWHERE


@cache
def rows() -> tuple[Row, ...]:
    """Return every row of the page's tables, with the heading above it."""
    found, section = [], ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("#"):
            section = line.lstrip("# ")
        elif line.startswith("| ") and not line.startswith("| what |"):
            found.append(Row(section, *(cell.strip() for cell in line.strip("|").split("|"))))
    return tuple(found)


def rows_of(heading: str) -> list[Row]:
    """Return the rows of all sections with that heading, or with one that goes on with a comma."""
    return [row for row in rows() if row.section.partition(",")[0] == heading]


def in_quotes(cell: str) -> list[str]:
    """Return what stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def camel(name: str) -> str:
    """Return the name of a field as Kafka writes it."""
    return "".join(word.capitalize() for word in name.split("_"))


def own_name(name: str) -> str:
    """Return the name of a part of a message without what tells it from that of another one."""
    return name.removeprefix("Record").removeprefix("Kip848")


def type_of(field: Any) -> str:
    """Return the type of a field in words, with its tag, its versions and its default."""
    element = field.element
    kind = field.kind
    if element is not None:
        kind = getattr(element, "__name__", None) or element.kind
        kind = own_name(kind)
    text = f"[]{kind}" if field.kind == "array" else kind
    if field.nullable <= 1:
        text = f"nullable {text}"
    if isinstance(field.default, int) and field.default:
        text += f" = {field.default}"
    if field.since:
        text += f", since version {field.since}"
    return text if field.tag is None else f"{text}, tag {field.tag}"


def fields_of(messages: tuple[Any, ...]) -> dict[str, str]:
    """Return the type of each field of a message and its parts; with a key, that comes first."""
    found: dict[str, str] = {}
    todo = [("key " if message.__type__ == "key" else "", message) for message in messages]
    for prefix, message in todo:
        for field in message.__fields__:
            found[prefix + camel(field.name)] = type_of(field)
            part = field.element
            name = own_name(getattr(part, "__name__", ""))
            if name and (f"{name}.", part) not in todo:
                todo.append((f"{name}.", part))
    return found


def key_and_versions(api: wire.Api) -> str:
    """Return the key and the versions of an API in words."""
    first, last = api.versions[0], api.versions[-1]
    return f"{api.key}, " + (f"version {last}" if first == last else f"versions {first} to {last}")


@pytest.mark.parametrize("heading", MESSAGES)
def test_a_table_of_fields_has_each_field_with_its_type(heading: str) -> None:
    listed = [row for row in rows_of(heading) if row.is_built]
    # Fields of client-side assignors have sections of their own, so the order may be another.
    assert sorted((in_quotes(row.what)[0], row.value) for row in listed) == sorted(
        fields_of(MESSAGES[heading]).items()
    )


def test_each_setting_of_consumer_groups_has_a_row_with_its_default() -> None:
    settings = declared(GroupSettings)
    ours = {
        name.replace("_", "."): ", ".join(default) if isinstance(default, tuple) else str(default)
        for name, setting in settings.items()
        if name.startswith(("group_consumer_", "apportion_"))
        for default in [setting.default_words or setting.default]
    }
    of_groups = {name: f"`{field.replace('_', '.')}`" for name, field in FIELDS.items()}
    listed = {name: row for row in rows_of("Settings") for name in in_quotes(row.what)[:1]}
    assert {
        name: value
        for name, value in (ours | of_groups).items()
        if name not in listed or listed[name].value != value or not listed[name].is_built
    } == {}
    assert {
        name
        for name, row in listed.items()
        if not row.is_built and name.replace(".", "_") in settings
    } == set()


def test_each_row_of_an_api_has_its_key_and_its_versions() -> None:
    apis = {api.name: api for api in wire.APIS.values()}
    listed = {in_quotes(row.what)[0]: row for row in rows_of("APIs")}
    assert {name: row.value for name, row in listed.items() if row.is_built} == {
        name: key_and_versions(api)
        for name, api in apis.items()
        if name in listed or "Group" in name or "Config" in name
    }


def test_each_row_of_an_error_has_its_number() -> None:
    listed = {in_quotes(row.what)[0]: row.value for row in rows_of("Errors")}
    assert listed == {name: str(int(Code[name])) for name in listed}
    assert len(listed) > 10


def test_every_module_that_a_row_names_is_there() -> None:
    home = ROOT / "src" / "apportion"
    named = [(row.what, name) for row in rows() if row.is_built for name in in_quotes(row.built)]
    assert [each for each in named if not (home / each[1]).is_file()] == []
    assert [row.what for row in rows() if row.is_built and not in_quotes(row.built)] == []


def test_every_test_that_a_row_names_is_in_the_file_that_it_names() -> None:
    for row in rows():
        names = in_quotes(row.tested)
        assert bool(names) == (row.tested != NOWHERE), row
        text = ""
        for name in names:
            if name.startswith("test_"):
                assert f"def {name}(" in text, row
            elif " " in name:  # a case of a script
                assert f"= {name}\n" in text, row
            else:
                text = (ROOT / "tests" / name).read_text()


def test_a_row_that_is_not_built_says_why() -> None:
    assert [row.what for row in rows() if not row.is_built and not row.differs] == []
    assert [row.what for row in rows() if row.is_built and row.tested == NOWHERE] == []


def test_no_row_stands_twice() -> None:
    names = [(row.section, row.what) for row in rows()]
    assert len(names) > 200
    assert [name for name in names if names.count(name) > 1] == []


def test_types_are_told_in_words() -> None:
    known = fields_of((describe.DescribedGroup,))
    assert known["ErrorMessage"] == "nullable string"
    assert known["Members"] == "[]Member"
    assert known["Member.MemberType"] == "int8 = -1, since version 1"
    assert known["TopicPartitions.Partitions"] == "[]int32"
    assert fields_of(MESSAGES["Record 6"])["AssignmentTimestamp"] == "int64, tag 0"


if __name__ == "__main__":
    for title, messages in MESSAGES.items():
        print(title)
        for name, words in fields_of(messages).items():
            print(f"| `{name}` | {words} |")
