"""Options of commands say what the declared settings say, and what the code obeys."""

from dataclasses import MISSING, fields

import pytest
import typer

from apportion.cli.main import app
from apportion.cli.rehearsal_settings import BounceSettings, UpgradeSettings
from apportion.cli.setting_options import help_text
from apportion.cli.sim_settings import WorldSettings
from apportion.node.settings import BrokerSettings
from apportion.settings import Setting, declared
from apportion.sim.kernel.scenario import MAXIMUM, MINIMUM, PROTOCOLS, Scenario
from apportion.sim.streams.rehearsal import LEADERS, VICTIMS, Rehearsal, RehearsalRefused

REHEARSAL = {**declared(UpgradeSettings), **declared(BounceSettings)}
BOUNDED = [name for name, setting in REHEARSAL.items() if setting.at_least is not None]


def options(*path):
    """The options of a command by their names in Python."""
    command = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]
    return {each.name: each for each in command.params}


def helps(settings):
    return {name: (setting.default, help_text(setting)) for name, setting in settings.items()}


def shown(settings, *path):
    return {
        name: (each.default, each.help) for name, each in options(*path).items() if name in settings
    }


def test_the_default_and_the_help_of_listen_are_those_of_listeners():
    listen, listeners = options("serve")["listen"], declared(BrokerSettings)["listeners"]
    assert listeners.default == f"PLAINTEXT://{listen.default}"
    assert listen.help.startswith(listeners.sentence)


def test_the_options_of_a_rehearsal_are_the_declared_settings():
    assert shown(REHEARSAL, "streams", "rehearse") == helps(REHEARSAL)


def test_the_options_of_the_simulated_world_are_the_declared_settings():
    assert shown(declared(WorldSettings), "sim") == helps(declared(WorldSettings))


def test_declared_defaults_are_those_of_a_rehearsal():
    own = {
        each.name: None if each.default is MISSING else each.default for each in fields(Rehearsal)
    }
    assert {name: setting.default for name, setting in REHEARSAL.items()} == {
        name: own[name] for name in REHEARSAL
    }
    assert (REHEARSAL["leader"].choices, REHEARSAL["victim"].choices) == (LEADERS, VICTIMS)


@pytest.mark.parametrize("name", BOUNDED)
def test_declared_bounds_are_those_of_a_rehearsal(name):
    least, most = REHEARSAL[name].at_least, REHEARSAL[name].at_most
    for value in (least - 1, most + 1):
        with pytest.raises(RehearsalRefused) as refusal:
            Rehearsal(**{"from_": "2.3", "to": "4.0", "leader": "first", name: value})
        assert str(refusal.value) == f"{name} must be a number from {least} to {most}, not {value}"


def test_declared_bounds_are_those_of_a_scenario():
    world = dict(declared(WorldSettings))
    seconds = world.pop("seconds")
    assert (seconds.at_least * 1_000, seconds.at_most * 1_000) == (
        MINIMUM["duration_ms"],
        MAXIMUM["duration_ms"],
    )
    bounds = {name: (setting.at_least, setting.at_most) for name, setting in world.items()}
    assert bounds == {name: (MINIMUM.get(name), MAXIMUM.get(name)) for name in world}
    assert world.keys() - {"fault"} < {each.name for each in fields(Scenario)}
    assert world["protocol"].choices == PROTOCOLS


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (Setting("Topics.", at_least=1, at_most=1_000), "Topics (1 to 1,000)."),
        (Setting("Members.", at_least=0), "Members (at least 0)."),
        (Setting("The address to bind."), "The address to bind."),
    ],
)
def test_bounds_stand_in_the_help(setting, text):
    assert help_text(setting) == text
