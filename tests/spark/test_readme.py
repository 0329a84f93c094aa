"""README's Spark application runs as it is pasted, also while its table is compacted.

tests/spark/test_connect.py runs it through Spark Connect, and tests/compat/test_spark_versions.py
on older releases.
"""

from pathlib import Path

import pytest

from tests.spark import readme


def test_the_application_writes_the_topic_into_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME")  # as users have it
    readme.play(tmp_path, {}, readme.compact)
