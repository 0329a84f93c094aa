"""The options of `apportion sim`: contradictions, what they draw, the command of a seed."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from apportion.cli.setting_options import number_fault_or_none
from apportion.cli.sim_settings import PlaySettings
from apportion.sim.kernel.scenario import Scenario, ScenarioRefused
from apportion.sim.kernel.settings import WorldSettings
from apportion.sim.seed_pool import Draw


class SimOptions(NamedTuple):
    """The options of one command line.

    sizes: the given options of `WorldSettings`. faults: kinds, or `none`.
    """

    seed: int | None = None
    only_faults: str | None = None
    runs: int | None = None
    first: int | None = None
    jobs: int | None = None
    spark: str | None = None
    out: str | None = None
    shrink: int | None = None
    quiet: bool = False
    trace: Path | None = None
    whole: bool = False
    as_json: bool = False
    sizes: dict[str, Any] = {}  # noqa: RUF012  (never written)
    faults: list[str] = []  # noqa: RUF012

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given, by their names on the command line."""
        names = {"whole": "--all", "as_json": "--json"}
        given = {
            names.get(field, "--" + field.replace("_", "-")): value
            for field, value in self._asdict().items()
        }
        return {
            name: value for name, value in given.items() if value is not None and value is not False
        }

    @property
    def draw(self) -> Draw:
        """The way in which the simulator draws scenarios.

        Raises ScenarioRefused where the options contradict each other.
        """
        # Neither reading of it is safe: dropping the others hides faults, dropping `none` adds
        # them.
        if "none" in self.faults and len(self.faults) > 1:
            raise ScenarioRefused("--fault none and other faults exclude each other.")
        kinds = None if not self.faults else () if self.faults == ["none"] else tuple(self.faults)
        sizes = dict(self.sizes)
        if (seconds := sizes.pop("seconds", None)) is not None:
            sizes["duration_ms"] = seconds * 1_000
        return Draw(kinds, sizes)

    def command(self, seed: int, kept: Iterable[int] | None = None) -> str:
        """Return the command that replays a simulated seed. kept: only these of its faults."""
        words = ["apportion sim", f"--seed {seed}"]
        words += [_option(name, size) for name, size in self.sizes.items()]
        numbers = None if kept is None else ",".join(map(str, kept))
        # An empty list of faults cannot be written as numbers.
        words += ["--fault none"] if numbers == "" else [f"--fault {kind}" for kind in self.faults]
        words += [f"--only-faults {numbers}"] if numbers else []
        return " ".join(words)


NEEDS = {  # an option -> the one without which it has no effect
    "--only-faults": "--seed",
    "--quiet": "--seed",
    "--trace": "--seed",
    "--all": "--seed",
    "--first": "--runs",
    "--jobs": "--runs",
    "--spark": "--runs",
    "--out": "--spark",
}
EXCLUDE = (
    ("--seed", "--runs"),
    ("--seed", "--shrink"),
    ("--runs", "--shrink"),
    ("--jobs", "--spark"),
    ("--all", "--quiet"),
    ("--all", "--trace"),
    ("--all", "--json"),
)


def _option(name: str, size: Any) -> str:
    """Return a size of the simulated world as an option of the command line."""
    name = name.replace("_", "-")
    return (
        f"--{name} {size}"
        if not isinstance(size, bool)
        else f"--{name}"
        if size
        else f"--no-{name}"
    )


def refuse_contradictions(options: SimOptions) -> None:
    """Raise ScenarioRefused for options that make no sense.

    Such options exclude each other, need another, play nothing, or are no number in their bounds.
    """
    given = options.given
    if not given.keys() & {"--seed", "--runs", "--shrink"}:
        raise ScenarioRefused(
            "say what to play: --seed N for one history, --runs N for many, --shrink SEED "
            "for its fewest faults."
        )
    for one, other in EXCLUDE:
        if one in given and other in given:
            raise ScenarioRefused(f"{one} and {other} exclude each other.")
    for name, needed in NEEDS.items():
        if name in given and needed not in given:
            raise ScenarioRefused(f"{name} is for {needed}, which is not given.")
    for owner, values in ((PlaySettings, options._asdict()), (WorldSettings, options.sizes)):
        if (fault := number_fault_or_none(owner, values)) is not None:
            raise ScenarioRefused(f"{fault}.")


def fault_numbers(numbers_text: str, scenario: Scenario) -> tuple[int, ...]:
    """Return the numbers of the faults that `--only-faults` names, in order."""
    try:
        numbers = sorted({int(word) for word in numbers_text.split(",")})
    except ValueError:
        raise ScenarioRefused(
            f"--only-faults takes numbers with commas between, such as 3,7,9, not {numbers_text!r}."
        ) from None
    count = len(scenario.faults)
    if wrong := [number for number in numbers if not 0 <= number < count]:
        numbering = f"numbered 0 to {count - 1}" if count else "so none can be chosen"
        raise ScenarioRefused(
            f"seed {scenario.seed} draws {count} faults, {numbering}; there is no fault {wrong[0]}."
        )
    return tuple(numbers)
