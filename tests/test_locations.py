"""Paths of locations that a person gives."""

from pathlib import Path

import pytest

from apportion.locations import local_path_or_none


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/lake/a:b", Path("/lake/a:b")),
        ("lake", Path("lake")),
        ("file:/lake", Path("/lake")),
        ("FILE:///lake", Path("/lake")),
        ("s3://lake", None),
        ("dbfs:/lake", None),
    ],
)
def test_a_location_is_on_this_machine_or_of_another_file_system(
    location: str, path: Path | None
) -> None:
    assert local_path_or_none(location) == path
