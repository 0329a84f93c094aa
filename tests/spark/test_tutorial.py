"""The tutorial with two Spark applications, walked as its reader walks it: a minute, most of it
Spark's start.
"""

from pathlib import Path

from tools.pages import ROOT

from tests.house.tutorials import play


def test_two_applications_share_a_topic_as_the_tutorial_says(tmp_path: Path) -> None:
    play(ROOT / "docs" / "tutorials" / "share-a-topic.md", tmp_path)
