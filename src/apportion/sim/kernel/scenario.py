"""Scenarios: sizes, timeouts, network and faults, drawn from a seed or set by the caller.

A scenario is a value, and the same scenario gives the same history. Sizes come from one random
stream of the seed and faults from another, so that a scenario with fewer faults (`with_faults`) is
otherwise the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any, NamedTuple

from apportion.settings import Setting, declared, fault_or_none, takes_number
from apportion.sim.kernel.settings import (
    CLASSIC,
    CONSUMER,
    LIMITS,
    LOCAL_ASSIGNORS,
    MIXED,
    NO_LOCAL_ASSIGNOR,
    PROTOCOLS,
    SERVER_ASSIGNORS,
    WorldSettings,
)

FAULTS = {
    "broker-crash": "the broker crashes, and restarts with what was on its disk",
    "broker-pause": "the broker is paused, and continues",
    "disk-refuses": "the broker's disk refuses the next flushes",
    "crash": "an application crashes without leaving its group, and a new process replaces it",
    "restart": "an application leaves and comes back",
    "replace": (
        "a new version of an application, with a checkpoint of its own, replaces the old one"
    ),
    "roll": "every application is restarted, one after the other",
    "pause": "an application is paused, perhaps for longer than its session timeout",
    "slow": "an application takes ten times as long for its work",
    "cut": "nothing passes between an application and the broker",
    "half-open-up": "an application's requests do not reach the broker, but responses arrive",
    "half-open-down": "an application's requests reach the broker, but responses are lost",
    "lost-reply": "a response is lost with its connection",
    "lost-join": "a request to join a group is lost, and the member waits for the response in vain",
    "clock-jump": "the wall clock of a process is set to another time",
    "more-partitions": "partitions are added to a topic",
    "topic-again": "a topic is deleted and created again under its name",
    "subscribe": "an application changes its subscription",
    "switch": "an application leaves, and comes back with the other protocol",
    "switch-all": "every application does so, one after the other",
    "stray": "a query with another table begins in the workers' group",
    "stray-consumer": "a plain consumer begins in the workers' group",
    "alter-group": "a group gets another session timeout and heartbeat interval",
    "regex": "a plain consumer subscribes by a regular expression",
    "topology": "the Streams application changes its topology, one process after the other",
}
"""Every kind of fault, and what it does. docs/simulator.md has these sentences."""

ONLY_MIXED = ("switch", "switch-all")
"""Faults of scenarios in which applications use both protocols."""
ONLY_CONSUMER = ("regex",)
"""Faults of scenarios in which all applications use the consumer protocol."""
ONLY_STREAMS = ("topology",)
"""Faults of scenarios with a Streams application."""
NEVER_STREAMS = ("more-partitions", "topic-again")
"""Faults of scenarios without: it has internal topics, and ends where its source topics change."""
ONLY_ON_REQUEST = ("stray", "stray-consumer", "alter-group", "regex", "lost-join")
"""Faults that are drawn only on request: so the histories of known seeds stay what they are."""

BETWEEN_BATCHES_MS = 500  # what a query needs between batches: with less, its poll deadline passes


class ScenarioRefused(ValueError):
    """The scenario is impossible; the text is one sentence for the user."""


class Fault(NamedTuple):
    """One fault.

    target: the number of the application or topic that it affects. amount: milliseconds, or a
    count. twist: 32 random bits for whatever else the fault has to choose.
    """

    at_ms: int
    kind: str
    target: int = 0
    amount: int = 0
    twist: int = 0

    def __str__(self) -> str:
        return f"{self.at_ms / 1000:.3f} s {self.kind} of {self.target}, {self.amount}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario. Impossible values raise ScenarioRefused.

    workers: applications that read in batches, as the Spark source does, into one transactional
    sink; they are one group.
    readers: plain consumers, another group. streams: processes of a Streams application, which
    assign its tasks themselves; a third group. partitions: of each topic. duration_ms: how long
    faults and records come; then the world must settle. delay_us, flush_us: the mean time of a
    message on its way and of a flush. looks: whether a query looks at the cluster before it joins,
    as Spark's load() does. encodes: whether every message goes through its bytes.
    """

    seed: int
    workers: int = 3
    readers: int = 2
    streams: int = 0  # not drawn: the histories of known seeds stay what they are
    statics: int = 0  # how many of the applications are static members
    topics: int = 2
    partitions: int = 6
    duration_ms: int = 120_000
    heartbeat_ms: int = 3_000
    assignment_interval_ms: int = 0  # not drawn: the histories of known seeds stay what they are
    offload_size: int = LIMITS.apportion_assignor_offload_size  # not drawn, for the same reason
    heartbeat_budget: int = LIMITS.apportion_heartbeat_budget_per_second
    session_ms: int = 10_000
    rebalance_ms: int = 12_000
    assignor: str = "uniform"
    local_assignor: str = NO_LOCAL_ASSIGNOR  # not drawn, for the same reason
    # what the applications speak; which of the classic assignors each has, `protocols` draws
    protocol: str = CONSUMER
    delay_us: int = 800
    flush_us: int = 1_500
    batch_ms: int = 2_000
    produce_every_ms: int = 500
    shards: int = 2
    looks: bool = False  # not drawn, for the same reason
    encodes: bool = False
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        """Check sizes, timeouts, names and faults; raise ScenarioRefused."""
        check_numbers({name: getattr(self, name) for name in NUMBERS})
        if self.members < 1:
            raise ScenarioRefused(
                "a world needs at least one application: give it workers or readers."
            )
        if self.streams and self.protocol != CONSUMER:
            raise ScenarioRefused(
                "streams are for worlds of the consumer protocol alone: `apportion streams "
                "rehearse` plays Streams applications in classic groups."
            )
        if self.heartbeat_ms >= self.session_ms:
            raise ScenarioRefused(
                f"heartbeat_ms ({self.heartbeat_ms}) must be below session_ms ({self.session_ms})."
            )
        if self.batch_ms > self.rebalance_ms - BETWEEN_BATCHES_MS:
            raise ScenarioRefused(
                f"batch_ms ({self.batch_ms}) must be {BETWEEN_BATCHES_MS} below "
                f"rebalance_ms ({self.rebalance_ms})."
            )
        if self.assignor not in SERVER_ASSIGNORS:
            raise ScenarioRefused(
                f"there is no assignor {self.assignor!r}; there are {', '.join(SERVER_ASSIGNORS)}."
            )
        if self.protocol not in PROTOCOLS:
            raise ScenarioRefused(
                f"there is no protocol {self.protocol!r}; there are {', '.join(PROTOCOLS)}."
            )
        self._check_local_assignor()
        check_faults([fault.kind for fault in self.faults], self.protocol, self.streams)
        if any(fault.at_ms < 0 for fault in self.faults):
            raise ScenarioRefused(
                "a fault must not be before the beginning: its at_ms must be at least 0."
            )

    def _check_local_assignor(self) -> None:
        if self.local_assignor not in LOCAL_ASSIGNORS:
            raise ScenarioRefused(
                f"there is no local assignor {self.local_assignor!r}: choose one of "
                f"{', '.join(LOCAL_ASSIGNORS)}."
            )
        if self.local_assignor != NO_LOCAL_ASSIGNOR and self.protocol == CLASSIC:
            raise ScenarioRefused(
                "a local assignor is for worlds with members of the consumer protocol: the seed "
                "chooses the assignors of classic ones."
            )

    @property
    def members(self) -> int:
        """The number of applications."""
        return self.workers + self.readers + self.streams

    def with_faults(self, faults: Iterable[Fault]) -> "Scenario":
        """Return the same scenario with other faults."""
        return replace(self, faults=tuple(faults))


SETTABLE = tuple(each.name for each in fields(Scenario) if each.name not in ("seed", "faults"))
"""What `draw_scenario` takes as keywords instead of drawing it."""


def _numbers() -> dict[str, Setting]:
    """Return the declaration of each number of a scenario; the option `seconds` is duration_ms."""
    settings = {
        name: setting for name, setting in declared(WorldSettings).items() if takes_number(setting)
    }
    seconds = settings.pop("seconds")
    assert seconds.at_least is not None
    assert seconds.at_most is not None
    settings["duration_ms"] = replace(
        seconds, at_least=seconds.at_least * 1_000, at_most=seconds.at_most * 1_000
    )
    return {name: replace(setting, type=int) for name, setting in settings.items()}


NUMBERS = _numbers()


def check_numbers(sizes: Mapping[str, Any]) -> None:
    """Raise ScenarioRefused for a size that is no whole number or is out of its bounds."""
    for name, value in sizes.items():
        if name in NUMBERS and (fault := fault_or_none(NUMBERS[name], value)) is not None:
            raise ScenarioRefused(f"{name} must {fault}, not {value!r}.")


def faults_drawn_with(protocol: str, streams: int = 0) -> tuple[str, ...]:
    """Return the kinds of faults that are drawn for scenarios of that group protocol.

    streams: how many processes its Streams application has.
    """
    return tuple(
        kind
        for kind in FAULTS
        if kind not in ONLY_ON_REQUEST
        and (protocol == MIXED or kind not in ONLY_MIXED)
        and kind not in (NEVER_STREAMS if streams else ONLY_STREAMS)
    )


def check_faults(kinds: Iterable[str], protocol: str, streams: int = 0) -> tuple[str, ...]:
    """Return the kinds of faults of a scenario.

    Raises ScenarioRefused for one that does not exist, or not for that protocol or its Streams
    application, which has that many processes.
    """
    kinds = tuple(kinds)
    for kind in kinds:
        if kind not in FAULTS:
            raise ScenarioRefused(f"there is no fault {kind!r}; there are {', '.join(FAULTS)}.")
    for kind in kinds:
        if kind in ONLY_MIXED and protocol != MIXED:
            raise ScenarioRefused(
                f"the fault {kind!r} is for worlds of both protocols: give it the "
                f"protocol {MIXED!r}."
            )
        if kind in ONLY_CONSUMER and protocol != CONSUMER:
            raise ScenarioRefused(
                f"the fault {kind!r} is for worlds of the consumer protocol alone: the classic "
                "one has no regular expressions."
            )
        if kind in ONLY_STREAMS and not streams:
            raise ScenarioRefused(
                f"the fault {kind!r} is for worlds with a Streams application: give it streams."
            )
        if kind in NEVER_STREAMS and streams:
            raise ScenarioRefused(
                f"the fault {kind!r} is not for worlds with a Streams application, which ends "
                "where its source topics change."
            )
    return kinds


def draw_scenario(seed: int, *, kinds: Iterable[str] | None = None, **fixed: Any) -> Scenario:
    """Draw the simulated scenario of that seed.

    fixed: sizes that are not drawn. kinds: the faults to choose from; None: all; (): none.

    The protocol is never drawn: it is the consumer protocol unless `fixed` names another.
    """
    for name in fixed:
        if name not in SETTABLE:
            raise ScenarioRefused(f"a world has no size {name!r}; there are {', '.join(SETTABLE)}.")
    check_numbers(fixed)
    protocol = fixed.get("protocol", CONSUMER)
    streams = fixed.get("streams", 0)
    chosen = (
        faults_drawn_with(protocol, streams)
        if kinds is None
        else check_faults(kinds, protocol, streams)
    )
    # Every size is drawn, the fixed ones too: leaving one out would shift all draws after it.
    rng = Random(f"{seed} sizes")
    heartbeat_ms = rng.choice((500, 1_000, 3_000))
    session_ms = rng.choice((4_000, 6_000, 10_000))
    sizes: dict[str, Any] = {
        "workers": rng.randint(1, 4),
        "readers": rng.randint(0, 3),
        "topics": rng.randint(1, 3),
        "partitions": rng.randint(1, 8),
        "duration_ms": rng.randint(40, 120) * 1_000,
        "heartbeat_ms": heartbeat_ms,
        # off, short of what these groups would like, and more than they need
        "heartbeat_budget": rng.choice((0, 5, LIMITS.apportion_heartbeat_budget_per_second)),
        "session_ms": session_ms,
        "rebalance_ms": rng.choice((5_000, 10_000, 20_000)),
        "assignor": rng.choice(("uniform", "uniform", "range")),
        "delay_us": rng.choice((200, 800, 20_000)),
        "flush_us": rng.choice((100, 1_500, 30_000)),
        "batch_ms": rng.choice((300, 1_500, 4_000)),
        "produce_every_ms": rng.choice((200, 500, 2_000)),
        "shards": rng.choice((1, 2, 5)),
        "encodes": rng.random() < 0.1,
    }
    # Drawn last: a draw in between would change every size after it.
    sizes["statics"] = rng.choice((0, 0, 1, 2, 9))
    scenario = Scenario(seed=seed, **(_reconciled_sizes(sizes, fixed) | fixed))
    return scenario.with_faults(draw_faults(scenario, chosen))


def _least(name: str) -> int:
    """Return the least value of a size of a scenario."""
    least = NUMBERS[name].at_least
    assert least is not None
    return least


def _reconciled_sizes(sizes: dict[str, Any], fixed: dict[str, Any]) -> dict[str, Any]:
    """Return the drawn sizes of a scenario, changed where they contradict the fixed ones.

    So every seed has a possible scenario.
    """
    if fixed.get("heartbeat_ms", 0) >= sizes["session_ms"]:
        sizes["session_ms"] = fixed["heartbeat_ms"] * 3
    if fixed.get("session_ms", sizes["session_ms"]) <= sizes["heartbeat_ms"]:
        sizes["heartbeat_ms"] = max(_least("heartbeat_ms"), fixed["session_ms"] // 3)
    if fixed.get("batch_ms", 0) > sizes["rebalance_ms"] - BETWEEN_BATCHES_MS:
        sizes["rebalance_ms"] = max(_least("rebalance_ms"), fixed["batch_ms"] * 3)
    if fixed.get("rebalance_ms", sizes["rebalance_ms"]) - BETWEEN_BATCHES_MS < sizes["batch_ms"]:
        sizes["batch_ms"] = max(_least("batch_ms"), fixed["rebalance_ms"] // 3)
    if fixed.get("workers") == 0 and not fixed.get("streams"):
        sizes["readers"] = max(1, sizes["readers"])
    return sizes


def draw_faults(scenario: Scenario, kinds: tuple[str, ...]) -> tuple[Fault, ...]:
    """Draw faults of these kinds for that scenario, in order of time.

    A scenario favours a few kinds, so that faults of these kinds meet, and adds another now and
    then.
    """
    # A stream of its own, so that another set of kinds leaves the sizes as they are.
    rng = Random(f"{scenario.seed} faults")
    if not kinds:
        return ()
    often_ms = rng.choice((4_000, 10_000, 30_000))
    favoured = rng.sample(kinds, min(len(kinds), rng.randint(1, 6)))
    faults = []
    at_ms = rng.randint(2_000, 10_000)
    while at_ms < scenario.duration_ms:
        kind = rng.choice(favoured if rng.random() < 0.8 else kinds)
        faults.append(
            Fault(
                at_ms,
                kind,
                rng.randrange(scenario.members),
                _draw_magnitude(rng, scenario, kind),
                rng.getrandbits(32),
            )
        )
        at_ms += 1 + int(rng.expovariate(1 / often_ms))
    return tuple(faults)


def _draw_magnitude(rng: Random, scenario: Scenario, kind: str) -> int:
    """Draw how long a fault of that kind lasts, in milliseconds, or how many things it takes."""
    if kind in ("more-partitions", "disk-refuses", "lost-reply"):
        return rng.randint(1, 3)
    if kind == "clock-jump":
        return rng.choice((-1, 1)) * rng.randint(1, 7_200_000)
    if kind in ("broker-crash", "restart", "roll", "replace", "switch", "switch-all", "topology"):
        return rng.randint(10, 4_000)
    return int(scenario.session_ms * rng.choice((0.1, 0.5, 1.2, 2.0)) * rng.uniform(0.7, 1.3))
