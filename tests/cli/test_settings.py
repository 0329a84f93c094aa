"""Options of commands say what the declared settings say, and what the code obeys."""

from dataclasses import fields
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.cli.rehearsal_settings import MatrixSettings
from apportion.cli.setting_options import help_text
from apportion.cli.sim_settings import PlaySettings
from apportion.node.settings import BrokerSettings
from apportion.settings import Setting, declared
from apportion.sim.kernel.scenario import NUMBERS, Scenario
from apportion.sim.kernel.settings import WorldSettings
from apportion.sim.streams.rehearsal import Rehearsal, RehearsalRefused
from apportion.sim.streams.settings import BounceSettings, UpgradeSettings

REHEARSAL = {**declared(UpgradeSettings), **declared(BounceSettings)}
BOUNDED = [name for name, setting in REHEARSAL.items() if setting.at_most is not None]


def options(*path: str) -> dict[Any, Any]:
    """The options of a command by their names in Python."""
    command: Any = typer.main.get_command(app)
    for name in path:
        command = command.get_command(typer.Context(command), name)
    return {each.name: each for each in command.params}


def helps(settings: Any) -> dict[Any, Any]:
    return {name: (setting.default, help_text(setting)) for name, setting in settings.items()}


def shown(settings: Any, *path: str) -> Any:
    return {
        name: (each.default, each.help) for name, each in options(*path).items() if name in settings
    }


def test_the_default_and_the_help_of_listen_are_those_of_listeners() -> None:
    listen, listeners = options("serve")["listen"], declared(BrokerSettings)["listeners"]
    assert listeners.default == f"PLAINTEXT://{listen.show_default}"
    assert listen.help.startswith(listeners.sentence)


def test_the_options_of_a_rehearsal_are_the_declared_settings() -> None:
    settings = REHEARSAL | dict(declared(MatrixSettings))
    assert shown(settings, "streams", "rehearse") == helps(settings)


def test_the_options_of_the_simulated_world_are_the_declared_settings() -> None:
    settings = {**declared(PlaySettings), **declared(WorldSettings)}
    assert shown(settings, "sim") == helps(settings)


@pytest.mark.parametrize("name", BOUNDED)
def test_a_rehearsal_keeps_the_declared_bounds(name: str) -> None:
    setting = REHEARSAL[name]
    least, most = setting.at_least, setting.at_most
    assert least is not None
    assert most is not None
    for value in (least - 1, most + 1, "x"):
        arguments: dict[str, Any] = {"from_": "2.3", "to": "4.0", "leader": "first", name: value}
        with pytest.raises(RehearsalRefused) as refusal:
            Rehearsal(**arguments)
        assert str(refusal.value) == (
            f"{name} must be a whole number from {least} to {most}, not {value!r}"
        )


def test_a_scenario_has_the_declared_sizes() -> None:
    settings_drawn = {*declared(WorldSettings)} - {"seconds", "fault"} | {"duration_ms"}
    assert settings_drawn <= {each.name for each in fields(Scenario)}
    assert NUMBERS.keys() <= settings_drawn


def test_seconds_are_the_duration_of_a_scenario() -> None:
    seconds = declared(WorldSettings)["seconds"]
    assert (seconds.at_least, seconds.at_most) == (1, 86_400)
    assert (NUMBERS["duration_ms"].at_least, NUMBERS["duration_ms"].at_most) == (1_000, 86_400_000)


@pytest.mark.parametrize("timeout", ["x", "0"])
def test_a_wrong_timeout_is_answered_with_what_it_takes(timeout: str) -> None:
    result = CliRunner().invoke(
        app, ["groups", "list", "--timeout-ms", timeout], env={"COLUMNS": "120"}
    )
    assert result.exit_code == 2
    assert result.stderr == (
        "apportion groups: invalid value for '--timeout-ms': it must be a whole number of at least "
        f"1, not '{timeout}'; `apportion groups list --help` shows what there is\n"
    )


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (Setting("Topics.", at_least=1, at_most=1_000), "Topics (1 to 1,000)."),
        (Setting("Members.", at_least=0), "Members (at least 0)."),
        (Setting("The address to bind."), "The address to bind."),
    ],
)
def test_bounds_stand_in_the_help(setting: Any, text: str) -> None:
    assert help_text(setting) == text
