"""The picture of an upgrade: a row an instance, time across, colour by what it runs as; below, the metadata version in use."""

from apportion.sim.rehearsal import Rehearsed


def upgrade_svg(rehearsed: Rehearsed) -> str:
    """An SVG document."""
    return ""
