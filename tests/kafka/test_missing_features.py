"""The settings that a real Kafka has and this broker has not: docs/differences.md names exactly
these.
"""

import re
from pathlib import Path

from tests.kafka.differential.side import Side
from tests.messages import request

DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences.md"
TOPIC, BROKER, GROUP = 2, 4, 32
UNKNOWN = {"group.consumer.assignor.offload.enable"}
"""What RealKafka writes into the file of every release, and this one does not know; it tells all
that its file says.
"""
INTERNAL = {
    "allow.everyone.if.no.acl.found",
    "group.consumer.regex.refresh.interval.ms",
    "super.users",
}
"""Settings that Kafka obeys and does not tell of; of those of an authorizer, where they are set."""
OURS_ALONE = "apportion."


def section(heading: str) -> str:
    """The text of the page below that heading, up to the next one of the same rank."""
    rank = heading.partition(" ")[0]
    [_, below] = re.split(
        f"^{re.escape(heading)}$", DIFFERENCES.read_text(), maxsplit=1, flags=re.MULTILINE
    )
    return re.split(f"^#{{2,{len(rank)}}} ", below, maxsplit=1, flags=re.MULTILINE)[0]


def named(heading: str) -> set[str]:
    """The settings in the list below that heading; none stands there twice."""
    items = re.findall(r"^- .*\n(?:  .*\n)*", section(heading), re.MULTILINE)
    names = [name for item in items for name in re.findall("`(.+?)`", item)]
    assert len(names) == len(set(names))
    return set(names)


def settings(side: Side, kind: int, name: str) -> set[str]:
    """The names of all settings of a resource, but for those that Kafka does not know."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    [result] = side.call(request("DescribeConfigs", resources=[resource]), 4).results
    return {each.name for each in result.configs if not each.name.startswith(OURS_ALONE)}


def test_every_setting_of_the_broker_that_is_not_there_is_named(sides: tuple[Side, Side]) -> None:
    ours, theirs = (settings(side, BROKER, "1") for side in sides)
    theirs -= UNKNOWN
    assert named("### Of the broker") == theirs - ours
    assert ours - theirs == INTERNAL


def test_every_setting_of_a_topic_is_there(sides: tuple[Side, Side]) -> None:
    ours, theirs = (settings(side, TOPIC, "one") for side in sides)
    assert (ours, named("### Of a topic")) == (theirs, set())


def test_every_setting_of_a_group_that_is_not_there_is_named(sides: tuple[Side, Side]) -> None:
    ours, theirs = (settings(side, GROUP, "any") for side in sides)
    assert named("### Of a group") == theirs - ours
    assert ours <= theirs
