"""`make bench-peers`: its options, the rows that it chooses, and the file of its results."""

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.peers import __main__ as program
from bench.peers import command_line
from bench.peers.brokers import Brokers
from bench.peers.report import markdown
from bench.peers.results_file import UnreadableResults, merged, read_results, write_results
from bench.peers.rounds import Samples, Say
from bench.peers.rows import OURS, ROWS, result
from tools.pythons import build_of


def results_in(path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the results, for a program that is started with these words."""
    monkeypatch.setattr(program, "OUT", path)
    monkeypatch.setattr("sys.argv", ["peers", *words])
    return path


def measured(*rows: str) -> program.Measurement:
    """A measurement of these rows, each of which has a figure at once."""

    def measure(_brokers: Brokers, count: int, _say: Say) -> Samples:
        samples = Samples({}, {})
        for row in rows:
            samples.values[row] = {OURS: [2.0] * count, "kafka": [1.0] * count}
        return samples

    return program.Measurement(rows, 3, "none", measure)


def test_rows_measured_again_replace_those_of_an_earlier_run() -> None:
    before = [{"name": "commits", "ours": 1}, {"name": "produce_100b", "ours": 2}]
    assert merged(before, [{"name": "commits", "ours": 3}]) == [
        {"name": "produce_100b", "ours": 2},
        {"name": "commits", "ours": 3},
    ]


def test_a_row_without_a_figure_replaces_none_that_has_one() -> None:
    with_figure: dict[str, Any] = {"name": "commits", "ours": 1}
    without: dict[str, Any] = {"name": "commits", "ours": None}
    assert merged([with_figure], [without]) == [with_figure]
    assert merged([without], [without]) == [without]
    assert merged([], [without]) == [without]


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "peers.json"
    assert read_results(path) == []
    for rows in ([{"name": "commits", "ours": 1}], [{"name": "commits", "ours": 2}]):
        write_results(path, rows)
        assert read_results(path) == rows
    assert os.listdir(path.parent) == ["peers.json"]


@pytest.mark.parametrize("text", ["[{", "7", "[7]", '[{"ours": 1}]', ""])
def test_a_broken_file_of_results_is_one_sentence(
    text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = results_in(tmp_path / "peers.json", ["--table"], monkeypatch)
    path.write_text(text)
    with pytest.raises(UnreadableResults, match=r"peers\.json is not what bench-peers has written"):
        read_results(path)
    assert program.main() == 2
    assert capsys.readouterr().err.endswith("): remove it\n")


def test_rows_that_are_measured_together_are_kept_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = results_in(tmp_path / "peers.json", ["--only", "fetch", "--rounds", "1"], monkeypatch)
    both = measured("produce_100b", "fetch_100b")
    monkeypatch.setattr(program, "MEASUREMENTS", (measured("commits"), both))
    assert program.main() == 0
    assert [each["name"] for each in read_results(path)] == ["produce_100b", "fetch_100b"]
    assert "2 (one round)" in markdown(read_results(path))
    assert {each["python"] for each in read_results(path)} == {str(build_of(sys.executable))}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_interrupted_keeps_what_was_done_and_what_was_there(
    number: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*_words: object) -> Samples:
        program.interrupt(number, None)
        raise AssertionError("it goes on")

    path = results_in(tmp_path / "peers.json", [], monkeypatch)
    write_results(path, [result(ROWS[1], {OURS: [4.0], "kafka": [1.0]}, {})])
    ends = program.Measurement(("fetch_100b",), 1, "none", interrupted)
    monkeypatch.setattr(program, "MEASUREMENTS", (measured("produce_100b"), ends))
    assert program.main() == 130
    assert [(each["name"], each["ours"]) for each in read_results(path)] == [
        ("produce_100b", 2.0),
        ("fetch_100b", 4.0),
    ]
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "interrupted: bench-out/peers.json has the rows that were done"


@pytest.mark.parametrize(
    "words", [["--only", "x"], ["--more"], ["--rounds", "1"], ["--json"]], ids=" ".join
)
def test_the_table_of_earlier_runs_takes_no_other_option(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["peers", "--table", *words])
    with pytest.raises(SystemExit, match="2"):
        program.main()
    assert "it takes no other option" in capsys.readouterr().err


def test_only_chooses_rows_by_a_part_of_their_names() -> None:
    assert [each.rows for each in program.chosen("heartbeats")] == [
        ("heartbeats_100",),
        ("heartbeats_2000",),
    ]


def test_more_chooses_among_the_rows_that_a_usual_run_leaves_out() -> None:
    assert [each.rows for each in program.chosen("heartbeats", more=True)] == [
        ("classic_heartbeats_100",),
        ("classic_heartbeats_100_tls",),
        ("heartbeats_100_tls",),
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--only", "storm"], "rows whose name holds 'storm' are measured with --more\n"),
        (
            ["--more", "--only", "delta"],
            "rows whose name holds 'delta' are measured without --more\n",
        ),
        (["--only", "nope"], "no row's name holds 'nope'; there are: produce_100b, fetch_100b,"),
    ],
)
def test_a_name_that_no_chosen_row_has_says_where_it_is(
    words: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    results_in(tmp_path / "peers.json", words, monkeypatch)
    assert program.main() == 2
    assert capsys.readouterr().err.startswith(sentence)


def test_the_help_names_the_rows_of_both_kinds_of_runs() -> None:
    usual, more = command_line.epilog(["storm_join_2000_s"]).split("rows with --more")
    assert "heartbeats_2000 [1/CPU s" in usual
    assert "storm_join_2000_s [s, lower is better]" in more


@pytest.mark.parametrize("text", ["0", "-1", "many"])
def test_a_number_of_rounds_is_one_or_more(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="give 1 or more"):
        command_line.rounds(text)


def test_the_table_is_printed_without_measuring(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [result(ROWS[0], {OURS: [2.0], "kafka": [1.0]}, {})]
    results_in(tmp_path / "peers.json", ["--table"], monkeypatch).write_text(json.dumps(rows))
    assert program.main() == 0
    assert capsys.readouterr().out == markdown(rows) + "\n"
