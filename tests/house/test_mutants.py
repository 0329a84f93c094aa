"""tools/mutants.py: which mutants there are, that the changed module is the one that runs, and what
is said of the survivors.
"""

import json
from itertools import chain
from pathlib import Path
from textwrap import dedent

import pytest
from tools.mutant_report import REASONS, end_of, explanations, verdict
from tools.mutants import SURVIVORS, Findings, is_known
from tools.mutation import Mutant, Point, changes_code, compiled, mutant_or_none, points, sample
from tools.trial import Tree, copies

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "apportion"

SOURCE = dedent('''
    """Words - words."""
    from typing import Protocol
    Number = int | float

    class Speaks(Protocol):
        @property
        def word(self) -> str: ...

    def least(a: int | None, b: int) -> int:
        """The lesser - or b."""
        return b if a is None or b < a else a
''').lstrip()


def small_project(directory: Path) -> Path:
    """A project with one module in each room, and a test that sees some of what may change in
    them.
    """
    files = {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n',
        "src/apportion/__init__.py": "",
        "src/apportion/coord/__init__.py": "",
        "src/apportion/coord/least.py": SOURCE,
        "src/apportion/member/__init__.py": "",
        "tests/conftest.py": (
            "from hypothesis import settings\n\nsettings.register_profile('quick')\n"
        ),
        "README.md": "",
        "docs/page.md": "",
        "demo/__init__.py": "",
        "tests/coord/test_least.py": (
            "from apportion.coord.least import least\n\n"
            "def test_the_lesser_is_returned():\n    assert (least(1, 2), least(2, 1)) == (1, 1)\n"
        ),
    }
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return directory


def some_of_ours(directory: Path) -> Path:
    """A package of two of our own modules, so that looking for places does not take long."""
    for name in ("coord/config.py", "member/batch/span.py"):
        (directory / name).parent.mkdir(parents=True)
        (directory / name).write_text((ROOT / "src" / "apportion" / name).read_text())
    return directory


def mutant(operator: str, occurrence: int = 0) -> Mutant:
    """That mutant of SOURCE."""
    text = mutant_or_none(SOURCE, operator, occurrence)
    assert text is not None
    return Mutant(Point("coord/least.py", operator, occurrence, 12), SOURCE, text)


def test_a_mutant_says_what_it_changes() -> None:
    turned = mutant("ReplaceComparisonOperator_Lt_Gt")
    assert (
        turned.change
        == "- return b if a is None or b < a else a\n+ return b if a is None or b > a else a"
    )
    assert (turned.name, turned.module) == (
        "coord/least.py ReplaceComparisonOperator_Lt_Gt 0",
        "apportion.coord.least",
    )
    assert mutant_or_none(SOURCE, "ReplaceComparisonOperator_Lt_Gt", 1) is None


@pytest.mark.parametrize(
    ("operator", "occurrence", "changes"),
    [
        ("ReplaceComparisonOperator_Lt_LtE", 0, True),
        ("AddNot", 0, True),
        ("ReplaceBinaryOperator_BitOr_Add", 0, False),  # a type alias
        ("ReplaceBinaryOperator_BitOr_Add", 1, False),  # an annotation
        ("RemoveDecorator", 0, False),  # in a protocol
    ],
)
def test_only_what_changes_code_is_a_mutant(operator: str, occurrence: int, changes: bool) -> None:
    text = mutant_or_none(SOURCE, operator, occurrence)
    assert text is not None
    assert text != SOURCE
    assert changes_code(compiled(SOURCE), text) is changes


def test_a_change_that_compiles_to_the_same_or_not_at_all_is_no_mutant() -> None:
    before = compiled(SOURCE)
    assert not changes_code(before, SOURCE.replace("Words - words", "Other words"))
    assert not changes_code(
        before, SOURCE.replace("\n\n", "\n\n\n# why\n").replace("b < a", "(b  <  a)")
    )
    assert not changes_code(before, SOURCE.replace("b < a", "b <"))
    assert not changes_code(compiled("A = 1 << 1"), "A = 1 * 2")
    assert changes_code(compiled("A = 1"), "A = True")


def test_the_sample_is_the_same_twice_and_a_smaller_one_is_part_of_it(tmp_path: Path) -> None:
    package = some_of_ours(tmp_path)
    large, again, small, other = (
        [each.name for each in sample(package, count, seed)]
        for count, seed in ((30, 1), (30, 1), (10, 1), (30, 2))
    )
    assert large == again
    assert len(set(large)) == 30
    assert [name for name in large if name in small] == small
    assert other != large


def test_the_sample_hardly_moves_when_a_line_is_written(tmp_path: Path) -> None:
    package = small_project(tmp_path) / "src" / "apportion"
    before = sample(package, 5, 1)
    file = package / "coord" / "least.py"
    file.write_text(SOURCE.replace("def least", "MOST = 7\n\n\ndef least"))
    names = [each.name for each in sample(package, 7, 1)]  # a number can be changed in two ways
    assert [each.name for each in before if each.name not in names] == []


def test_every_point_has_its_line(tmp_path: Path) -> None:
    package = some_of_ours(tmp_path)
    comparisons = [
        point for point in points(package) if point.operator == "ReplaceComparisonOperator_Lt_LtE"
    ]
    lines = {
        file.relative_to(package).as_posix(): file.read_text().splitlines()
        for file in package.rglob("*.py")
    }
    assert len(comparisons) == 2
    assert [point for point in comparisons if "<" not in lines[point.file][point.line - 1]] == []


def test_the_mark_between_parameters_is_no_operator_and_is_for_equals_is_no_mutant(
    tmp_path: Path,
) -> None:
    package = small_project(tmp_path) / "src" / "apportion"
    (package / "coord" / "least.py").write_text("def equal(a, *, b):\n    return a * 2 == b\n")
    mutated = [mutant.plus for mutant in sample(package, 99, 1)]
    assert [line for line in mutated if "def" in line] == []
    assert ("return a / 2 == b" in mutated, "return a * 2 != b" in mutated) == (True, True)
    assert "return a * 2 is b" not in mutated


def test_the_tests_run_against_the_mutant_and_against_nothing_else(tmp_path: Path) -> None:
    root = small_project(tmp_path / "root")
    tree = Tree(root, tmp_path / "tree")
    seen, missed = (
        mutant("ReplaceComparisonOperator_Lt_Gt"),
        mutant("ReplaceComparisonOperator_Lt_LtE"),
    )
    findings = []
    for each in (missed, seen, None, missed):
        if each is None:
            findings.append(tree.sound_tests(["coord"], limit_s=60))
        else:
            with tree.holding(each):
                findings.append(tree.tests(each, limit_s=60))
    test = "tests/coord/test_least.py::test_the_lesser_is_returned"
    assert [(each["killed"], each.get("what")) for each in findings] == [
        (False, None),
        (True, test),
        (False, None),
        (False, None),
    ]
    assert (tree.directory / "src/apportion/coord/least.py").read_text() == SOURCE
    assert (root / "src/apportion/coord/least.py").read_text() == SOURCE


def test_copies_are_made_where_another_user_may_enter(tmp_path: Path) -> None:
    with copies(small_project(tmp_path / "root"), 2) as made:
        for tree in made:
            assert (tree.directory / "src/apportion/coord/least.py").read_text() == SOURCE
            assert tree.directory.parent.stat().st_mode & 0o777 == 0o755
    assert len({tree.directory for tree in made}) == 2
    assert not made[0].directory.parent.exists()


def test_the_test_that_killed_a_mutant_before_is_run_first_while_it_exists(tmp_path: Path) -> None:
    root = small_project(tmp_path / "root")
    (root / "tests/coord/test_other.py").write_text(
        "from apportion.coord.least import least\n\n"
        "def test_other():\n    assert least(2, 1) == 1\n"
    )
    tree = Tree(root, tmp_path / "tree")
    seen = mutant("ReplaceComparisonOperator_Lt_Gt")
    suspected = "tests/coord/test_other.py::test_other"
    least = "tests/coord/test_least.py::test_the_lesser_is_returned"
    with tree.holding(seen):
        found = [
            tree.tests(seen, 60, suspect)["what"]
            for suspect in (
                f"{suspected}[3]",
                "tests/coord/test_other.py::test_gone",
                "",
                "its end",
            )
        ]
    assert found == [suspected, least, least, least]


@pytest.mark.parametrize(
    ("what", "end"),
    [
        ("tests/coord/test_least.py::test_a", "quick"),
        ("tests/spark/test_rows.py::test_a", "test"),
        ("the time limit", "test"),
        ("its import (a/b)", "test"),
    ],
)
def test_a_killed_mutant_counts_where_the_test_that_killed_it_runs(what: str, end: str) -> None:
    assert end_of({"tests": {"killed": True, "what": what}}) == end


def test_a_mutant_whose_file_has_changed_keeps_the_test_that_killed_it_as_a_hint(
    tmp_path: Path,
) -> None:
    findings = Findings(tmp_path / "results.json")
    before, after = (
        Mutant(Point("coord/least.py", "AddNot", 0, 1), SOURCE, SOURCE + text) for text in "ab"
    )
    findings.row(before)["tests"] = {"killed": True, "what": "tests/coord/test_least.py::test_a"}
    row = findings.row(after)
    assert (row["suspect"], "tests" in row) == ("tests/coord/test_least.py::test_a", False)


def test_files_naming_the_module_run_first_and_other_spark_sessions_not_at_all(
    tmp_path: Path,
) -> None:
    root = small_project(tmp_path / "root")
    for name, text in {
        "coord/test_a_script.py": "",
        "coord/test_from.py": "from apportion.coord import heap, least\n",
        "coord/test_guards.py": "from apportion.coord.least import least\n",
        "coord/test_laws.py": "from apportion.coord.least_of import least\n",
        "node/test_node.py": "from apportion.coord.least import least\n",
        "spark/test_files.py": "",
        "spark/test_query.py": "from apportion.spark.files import read\nSparkSession.builder\n",
    }.items():
        (root / "tests" / name).parent.mkdir(exist_ok=True)
        (root / "tests" / name).write_text(text)
    tree = Tree(root, tmp_path / "tree")
    on_coord = [
        ["tests/coord/test_from.py", "tests/coord/test_least.py"],
        ["tests/coord/test_a_script.py", "tests/coord/test_laws.py"],
    ]
    elsewhere = ["tests/node/test_node.py"]
    assert tree.parts(mutant("AddNot")) == [*on_coord, elsewhere]
    files, others = (
        Mutant(Point(f"spark/{name}.py", "AddNot", 0, 1), "", "") for name in ("files", "others")
    )
    of_files = ["tests/spark/test_files.py"]
    on_files = [["tests/spark/test_query.py"], of_files]
    for each, given in ((files, on_files), (others, [of_files])):
        *own, last = tree.parts(each)
        assert own == given
        assert sorted(last) == sorted([*chain(*on_coord), *elsewhere])
    for rooms, given in ((["coord"], on_coord), (["coord", "spark"], [*on_coord, *on_files])):
        assert sorted(chain(*tree.sound_parts(rooms))) == sorted(chain(*given))


def test_a_mutant_without_end_is_killed_by_the_time_limit(tmp_path: Path) -> None:
    root = small_project(tmp_path / "root")
    endless = Mutant(
        Point("coord/least.py", "AddNot", 0, 1), SOURCE, SOURCE + "\nwhile True:\n    pass\n"
    )
    tree = Tree(root, tmp_path / "tree")
    with tree.holding(endless):
        finding = tree.tests(endless, limit_s=3)
    assert (finding["killed"], finding["what"]) == (True, "the time limit")


def test_a_test_that_looks_elsewhere_is_no_trial(tmp_path: Path) -> None:
    root = small_project(tmp_path / "root")
    test = root / "tests/coord/test_least.py"
    elsewhere = "import sys\nsys.path.insert(0, {!r})\n".format(str(root / "src"))
    test.write_text(elsewhere + test.read_text())
    tree = Tree(root, tmp_path / "tree")
    shown = mutant("AddNot")
    with (
        tree.holding(shown),
        pytest.raises(RuntimeError, match=r"apportion\.coord\.least was imported from elsewhere"),
    ):
        tree.tests(shown, limit_s=60)


def test_a_trial_without_a_test_shows_nothing(tmp_path: Path) -> None:
    root = small_project(tmp_path / "root")
    (root / "tests/coord/test_least.py").write_text("")
    tree = Tree(root, tmp_path / "tree")
    with pytest.raises(RuntimeError, match=r"no test was found: .*tests/coord/test_least\.py"):
        tree.sound_tests(["coord"], limit_s=60)


PLAY = """
from collections import namedtuple
from apportion.coord.least import least
Broken, Outcome = namedtuple("Broken", "law why"), namedtuple("Outcome", "broken")
def play(scenario):
    if scenario == 2:
        raise ValueError("two")
    return Outcome(None if scenario < 4 or least(1, 2) == 1 else Broken("lesser", "it is not"))
"""


def test_the_first_seed_that_breaks_is_told_with_its_law(tmp_path: Path) -> None:
    root = small_project(tmp_path / "root")
    (root / "src/apportion/sim").mkdir()
    (root / "src/apportion/sim/play.py").write_text(PLAY)
    (root / "src/apportion/sim/kernel").mkdir()
    (root / "src/apportion/sim/kernel/scenario.py").write_text(
        "def draw_scenario(seed):\n    return seed\n"
    )
    tree = Tree(root, tmp_path / "tree")
    sound, raised = (
        tree.seeds(None, 8, [2], seed_limit_s=30),
        tree.seeds(None, 8, [], seed_limit_s=30),
    )
    seen = mutant("ReplaceComparisonOperator_Lt_Gt")
    with tree.holding(seen):
        broken = tree.seeds(seen, 8, [2], seed_limit_s=30)
    for each in (sound, raised, broken):
        assert each.pop("seconds") >= 0
    assert sound == {"killed": False}
    assert raised == {"killed": True, "seed": 2, "what": "no-defect", "why": "ValueError('two')"}
    assert broken == {"killed": True, "seed": 4, "what": "lesser", "why": "it is not"}


def test_findings_are_kept_while_they_are_valid(tmp_path: Path) -> None:
    path = tmp_path / "out" / "results.json"
    findings, shown = Findings(path), mutant("AddNot")
    assert verdict(findings.row(shown)) == "open"
    findings.row(shown)["tests"] = {"killed": False, "state": "s1"}
    assert verdict(findings.row(shown)) == "open"
    assert verdict({**findings.row(shown), "name": "spark/files.py AddNot 0"}) == "lives"
    findings.keep()
    row = Findings(path).row(shown)
    assert (is_known(row, "tests", "s1"), is_known(row, "tests", "s2")) == (True, False)
    row["tests"] = {"killed": True, "state": "s1"}
    assert (is_known(row, "tests", "s2"), verdict(row)) == (True, "tests")
    row["digest"] = "of an earlier file"
    path.write_text(json.dumps({"mutants": [row]}))
    assert "tests" not in Findings(path).row(shown)


def test_survivors_are_explained_by_their_change() -> None:
    text = (
        "# said\n\ncoord/least.py\n- b < a\n+ b <= a\nequivalent: equal numbers are\none number\n"
    )
    assert explanations(text) == {
        ("coord/least.py", "b < a", "b <= a"): ("equivalent", "equal numbers are one number")
    }
    with pytest.raises(
        ValueError, match=r"after the change of coord/least\.py stands one of equivalent"
    ):
        explanations(text.replace("equivalent", "whatever"))


def test_the_explanations_are_in_order() -> None:
    known = explanations(SURVIVORS.read_text())
    assert {reason for reason, _ in known.values()} <= set(REASONS)


def test_every_explained_line_is_in_its_file() -> None:
    """An explanation whose line has changed explains nothing: the mutant has another name now."""
    stale = [
        (file, line)
        for file, before, _ in explanations(SURVIVORS.read_text())
        for line in before.splitlines()
        if line not in {each.strip() for each in (PACKAGE / file).read_text().splitlines()}
    ]
    assert stale == []
