"""What each fault does to a world: one function a kind, in a table."""

from collections.abc import Callable
from random import Random

from apportion.sim.actors.admin import name_of
from apportion.sim.actors.cluster import Stage
from apportion.sim.actors.member import Application
from apportion.sim.actors.worker import Worker
from apportion.sim.kernel.network import DOWN, UP
from apportion.sim.kernel.scenario import Fault

SPAN_US = 1_000


def befall(stage: Stage, fault: Fault) -> None:
    """The fault happens now."""
    stage.world.say("world", str(fault))
    BEFALL[fault.kind](stage, fault, Random(fault.twist))


def _broker_crash(stage: Stage, fault: Fault, dice: Random) -> None:
    """At once, or in the middle of the next flush, while the disk is already stuck and others still ask."""
    tear_bytes, resets = dice.choice((None, 0, 1, 17, 300, 100_000)), dice.random() < 0.7

    def crash() -> None:
        if stage.broker.is_up:
            stage.crash_broker(tear_bytes, resets)
            stage.world.after(fault.amount * SPAN_US, stage.start_broker)

    if dice.random() < 0.5:
        crash()
    else:
        stage.broker.doom = crash


def _broker_pause(stage: Stage, fault: Fault, dice: Random) -> None:
    stage.broker.pause(fault.amount * SPAN_US)


def _disk_refuses(stage: Stage, fault: Fault, dice: Random) -> None:
    stage.broker.refusals = fault.amount


def _crash(stage: Stage, fault: Fault, dice: Random) -> None:
    victim = stage.application(fault.who)
    victim.die(says_goodbye=dice.random() < 0.5)
    stage.begins_again(victim, fault.amount)


def _restart(stage: Stage, fault: Fault, dice: Random) -> None:
    stage.restart(stage.application(fault.who), fault.amount)


def _replace(stage: Stage, fault: Fault, dice: Random) -> None:
    victim = stage.application(fault.who)
    if isinstance(victim, Worker):
        victim.is_replaced = True
    stage.restart(victim, fault.amount)


def _roll(stage: Stage, fault: Fault, dice: Random) -> None:
    for number, each in enumerate(stage.applications):
        stage.world.after(number * (fault.amount + 500) * SPAN_US, stage.restart, each, fault.amount)


def _switch(stage: Stage, fault: Fault, dice: Random) -> None:
    stage.switch(stage.application(fault.who), fault.amount)


def _switch_all(stage: Stage, fault: Fault, dice: Random) -> None:
    for number, each in enumerate(stage.applications):
        stage.world.after(number * (fault.amount + 500) * SPAN_US, stage.switch, each, fault.amount)


def _pause(stage: Stage, fault: Fault, dice: Random) -> None:
    stage.application(fault.who).pause(fault.amount * SPAN_US)


def _slow(stage: Stage, fault: Fault, dice: Random) -> None:
    stage.application(fault.who).slow_until_us = stage.world.now_us + fault.amount * SPAN_US


def _cut(*ways: int) -> Callable[[Stage, Fault, Random], None]:
    def cut(stage: Stage, fault: Fault, dice: Random) -> None:
        link = stage.application(fault.who).link
        for way in ways:
            link.set_cut(way, True)
            stage.world.after(fault.amount * SPAN_US, link.set_cut, way, False)

    return cut


def _lost_reply(stage: Stage, fault: Fault, dice: Random) -> None:
    stage.application(fault.who).link.answers_to_lose += fault.amount


def _clock_jump(stage: Stage, fault: Fault, dice: Random) -> None:
    whom = stage.broker if dice.random() < 0.5 else stage.application(fault.who)
    whom.set_wall_clock(fault.amount)


def _more_partitions(stage: Stage, fault: Fault, dice: Random) -> None:
    stage.clerk.grow(name_of(fault.who % stage.world.scenario.topics), fault.amount)


def _topic_again(stage: Stage, fault: Fault, dice: Random) -> None:
    name = name_of(fault.who % stage.world.scenario.topics)
    stage.clerk.delete(name)
    stage.clerk.create(name, dice.randint(1, stage.world.scenario.partitions + 1))


def _subscribe(stage: Stage, fault: Fault, dice: Random) -> None:
    names = stage.names
    wanted = tuple(sorted(dice.sample(names, dice.randint(1, len(names)))))
    who = stage.application(fault.who)
    who.hear(who.life, Application.subscribe, who, wanted)


def _stray(stage: Stage, fault: Fault, dice: Random) -> None:
    """Not where topics are made again: a group whose topics are all new has no offset, and any sink may claim it."""
    if all(each.kind != "topic-again" for each in stage.world.scenario.faults):
        stage.goes_astray()


BEFALL: dict[str, Callable[[Stage, Fault, Random], None]] = {
    "broker-crash": _broker_crash,
    "broker-pause": _broker_pause,
    "disk-refuses": _disk_refuses,
    "crash": _crash,
    "restart": _restart,
    "replace": _replace,
    "roll": _roll,
    "pause": _pause,
    "slow": _slow,
    "cut": _cut(UP, DOWN),
    "half-open-up": _cut(UP),
    "half-open-down": _cut(DOWN),
    "lost-reply": _lost_reply,
    "clock-jump": _clock_jump,
    "more-partitions": _more_partitions,
    "topic-again": _topic_again,
    "subscribe": _subscribe,
    "switch": _switch,
    "switch-all": _switch_all,
    "stray": _stray,
}
"""Every fault of `scenario.FAULTS`."""
