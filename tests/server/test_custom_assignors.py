"""A broker loads custom assignors at its start, and does not start with a wrong one."""

from pathlib import Path
from typing import Any

import pytest

from apportion.broker import EmbeddedBroker, SettingRefused
from apportion.server.assignors import broker_settings

MODULE = """
from apportion.assignors import Given, by_topic


class Weighted:
    name = "weighted"

    def assign(self, cluster, members):
        return {}


class Unnamed:
    def assign(self, cluster, members):
        return {}


class Uniform(Weighted):
    name = "uniform"


class Listed(Weighted):
    name = "a,b"


class Demanding(Weighted):
    def __init__(self, weights):
        self.weights = weights


class Shop:
    weighted = Weighted()


def number():
    return 5
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that a broker can import, and a distribution with an entry point."""
    (tmp_path / "toy_plugins.py").write_text(MODULE)
    (tmp_path / "toy_broken.py").write_text("import no_such_module_at_all\n")
    (tmp_path / "toy_exits.py").write_text("raise SystemExit(3)\n")
    dist = tmp_path / "toy_plugins-1.0.dist-info"
    dist.mkdir()
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-plugins\nVersion: 1.0\n")
    (dist / "entry_points.txt").write_text(
        "[apportion.assignors]\nby-weight = toy_plugins:Weighted\nlost = toy_plugins:Lost\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize(
    "configured",
    ["toy_plugins:Weighted", "toy_plugins:Shop.weighted", "by-weight"],
    ids=["class", "object", "entry point"],
)
def test_a_text_names_an_assignor_by_module_or_entry_point(configured: str) -> None:
    settings = broker_settings({"group.consumer.assignors": f"range, {configured}"})
    assert settings.group.group_consumer_assignors == ("range", "weighted")
    assert list(settings.group.custom_assignors) == ["weighted"]
    # As DescribeConfigs shows it.
    assert settings.named()["group.consumer.assignors"] == "range,weighted"


SETTING = "group.consumer.assignors: "


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize(
    ("configured", "sentence"),
    [
        (
            "weigthed",
            f"{SETTING}there is no assignor 'weigthed'; there are uniform, range, by-weight, lost, "
            "and your own as module:Class.",
        ),
        (
            "toy_none:Weighted",
            f"{SETTING}toy_none:Weighted cannot be loaded: "
            "ModuleNotFoundError: No module named 'toy_none'.",
        ),
        (
            "toy_plugins:Weigthed",
            f"{SETTING}toy_plugins:Weigthed cannot be loaded: "
            "AttributeError: module 'toy_plugins' has no attribute 'Weigthed'.",
        ),
        (
            "lost",
            f"{SETTING}lost cannot be loaded: "
            "AttributeError: module 'toy_plugins' has no attribute 'Lost'.",
        ),
        (
            "toy_broken:Weighted",
            f"{SETTING}toy_broken:Weighted cannot be loaded: "
            "ModuleNotFoundError: No module named 'no_such_module_at_all'.",
        ),
        ("toy_exits:Weighted", f"{SETTING}toy_exits:Weighted cannot be loaded: SystemExit: 3."),
        (
            "toy_plugins:Demanding",
            f"{SETTING}toy_plugins:Demanding cannot be loaded: TypeError: Demanding.__init__() "
            "missing 1 required positional argument: 'weights'.",
        ),
        (
            "toy_plugins:number",
            f"{SETTING}toy_plugins:number is no assignor: it has no method assign.",
        ),
        (
            "toy_plugins:Unnamed",
            f"{SETTING}toy_plugins:Unnamed needs a name without commas, for which members vote, "
            "not None.",
        ),
        (
            "toy_plugins:Listed",
            f"{SETTING}toy_plugins:Listed needs a name without commas, for which members vote, "
            "not 'a,b'.",
        ),
        (
            "toy_plugins:Uniform",
            f"{SETTING}toy_plugins:Uniform has the name of a built-in assignor, 'uniform'.",
        ),
        (
            "toy_plugins:Weighted,by-weight",
            "group.consumer.assignors must name each assignor once.",
        ),
    ],
)
def test_a_wrong_assignor_is_refused_at_the_start(configured: str, sentence: str) -> None:
    with pytest.raises(SettingRefused) as refusal:
        broker_settings({"group_consumer_assignors": configured})
    assert str(refusal.value) == sentence


def test_a_broker_does_not_start_with_an_object_that_is_no_assignor() -> None:
    wrong: Any = [object]
    with pytest.raises(SettingRefused, match="is no assignor: it has no method assign"):
        EmbeddedBroker(group_consumer_assignors=wrong)
