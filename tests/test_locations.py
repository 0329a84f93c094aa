"""Paths of locations that a person gives."""

from pathlib import Path

import pytest

from apportion.locations import local_path_or_none, local_table_or_none


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/lake/a:b", Path("/lake/a:b")),
        ("lake", Path("lake")),
        ("file:/lake", Path("/lake")),
        ("FILE:///lake", Path("/lake")),
        ("file:///my%20lake", Path("/my%20lake")),
        ("s3://lake", None),
        ("dbfs:/lake", None),
    ],
)
def test_a_location_is_on_this_machine_or_of_another_file_system(
    location: str, path: Path | None
) -> None:
    assert local_path_or_none(location) == path


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/my%20lake", Path("/my%20lake")),
        ("file:/lake", Path("/lake")),
        ("file:///my%20lake", Path("/my lake")),
        ("FILE://LocalHost/a%2Fb%25", Path("/a/b%")),
        ("file:///lake?version=1#a", Path("/lake")),
        ("file://elsewhere/lake", None),
        ("s3://my%20lake", None),
    ],
)
def test_a_table_is_where_delta_rs_finds_it(location: str, path: Path | None) -> None:
    assert local_table_or_none(location) == path
