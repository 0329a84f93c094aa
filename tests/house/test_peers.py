"""bench/peers: rows, ratios and the table; what a missing peer leaves of a row."""

from datetime import UTC, datetime
from pathlib import Path
from zipfile import ZipFile

import pytest
from bench.peers import __main__ as program
from bench.peers import brokers, downloads, spark_home, spark_job
from bench.peers.report import markdown
from bench.peers.rounds import interleaved
from bench.peers.rows import (
    OURS,
    ROWS,
    SPARK_4_2,
    PeerMissing,
    PeerRow,
    pinned,
    ratio,
    result,
)
from bench.peers.secured import TlsListener
from bench.peers.steady import STEADY_ROWS

from apportion.testing.kafka import kraft_properties

ROW = PeerRow("work", "1/s", "higher", ("kafka", "kfake"), "what it is", "What is not alike.")


def ignored(_line: str) -> None:
    """Nobody listens to the progress."""


def test_a_usual_run_has_these_rows_in_this_order() -> None:
    more = {name for each in program.MORE_MEASUREMENTS for name in each.rows}
    assert [row.name for row in ROWS if row.name not in more] == [
        "produce_100b",
        "fetch_100b",
        "commits",
        "heartbeats_100",
        "heartbeats_2000",
        "join_10x900",
        "leave_10x900",
        "spark_noop_plain",
        "spark_noop_lz4",
        "spark_delta",
        "spark_first_batch",
        "spark_one_row",
        "spark_available_now_3m",
    ]


def test_each_kind_of_small_request_is_measured_over_tls_too() -> None:
    kinds = {"commits", "heartbeats_100", "classic_heartbeats_100", "empty_fetches_100"}
    over_tls = {row.name for row in ROWS if row.name.endswith("_tls")}
    assert over_tls == {f"{kind}_tls" for kind in kinds}


def test_a_row_of_small_requests_says_its_own_warm_up() -> None:
    assert {row.name: row.warm_up() for row in STEADY_ROWS} == {
        "commits": "25,000 requests of the same load before the first round of 2 s",
        "heartbeats_100": "250,000 requests of the same load before the first round of 2 s",
        "heartbeats_2000": "250,000 requests of the same load before the first round of 2 s",
    }


def test_every_row_is_measured_once() -> None:
    measurements = program.MEASUREMENTS + program.MORE_MEASUREMENTS
    measured = [name for each in measurements for name in each.rows]
    assert sorted(measured) == sorted(row.name for row in ROWS)


@pytest.mark.parametrize(("better", "expected"), [("higher", 2.0), ("lower", 0.5)])
def test_a_ratio_above_one_is_better_for_apportion(better: str, expected: float) -> None:
    assert ratio(better, 10, 5) == expected


def test_a_result_has_medians_ratios_and_spread() -> None:
    samples = {OURS: [10.0, 30.0, 20.0], "kafka": [5.0, 4.0, 3.0], "kfake": [40.0, 40.0, 40.0]}
    assert result(ROW, samples, {}, 12.4) == {
        "name": "work",
        "unit": "1/s",
        "better": "higher",
        "ours": 20.0,
        "peers": {"kafka": 4.0, "kfake": 40.0},
        "ratios": {"kafka": 5.0, "kfake": 0.5},
        "spread": {OURS: [10.0, 30.0], "kafka": [3.0, 5.0], "kfake": [40.0, 40.0]},
        "missing": {},
        "rounds": 3,
        "seconds": 12,
    }


def test_a_missing_peer_leaves_its_reason_instead_of_a_figure() -> None:
    found = result(ROW, {OURS: [10.0], "kafka": [5.0]}, {"kfake": "Go is not on the PATH."})
    assert found["peers"] == {"kafka": 5.0}
    assert found["ratios"] == {"kafka": 2.0}
    assert found["missing"] == {"kfake": "Go is not on the PATH."}


def test_no_figure_stands_without_a_peer() -> None:
    found = result(ROW, {OURS: [10.0]}, {"kafka": "no Java", "kfake": "no Go"})
    assert (found["ours"], found["peers"], found["ratios"], found["spread"]) == (None, {}, {}, {})


def test_no_ratio_stands_without_a_figure_of_apportion() -> None:
    found = result(ROW, {"kafka": [5.0]}, {OURS: "it failed"})
    assert (found["ours"], found["ratios"]) == (None, {})


def test_rounds_alternate_and_a_side_that_fails_is_left_out() -> None:
    played: list[str] = []

    def ours() -> dict[str, float]:
        played.append(OURS)
        return {"work": float(len(played))}

    def kafka() -> dict[str, float]:
        played.append("kafka")
        if played.count("kafka") == 2:
            raise PeerMissing("it has ended")
        return {"work": 9.0}

    samples = interleaved({OURS: ours, "kafka": kafka}, 3, ignored)
    assert played == [OURS, "kafka", OURS, "kafka", OURS]
    assert samples.values == {"work": {OURS: [1.0, 3.0, 5.0]}}
    assert samples.missing == {"kafka": "it has ended"}


def test_a_broker_that_dies_in_a_round_ends_no_other_side() -> None:
    def kafka() -> dict[str, float]:
        raise ConnectionResetError("the broker has died")

    samples = interleaved({"kafka": kafka, OURS: lambda: {"work": 1.0}}, 2, ignored)
    assert samples.values == {"work": {OURS: [1.0, 1.0]}}
    assert samples.missing == {"kafka": "the broker has died"}


def test_the_markdown_table_says_figures_and_what_is_missing() -> None:
    commits = next(row for row in ROWS if row.name == "commits")
    samples = {OURS: [20_000.0, 21_234.0, 30_000.0], "kafka": [10_617.0]}
    row = result(commits, samples, {"kfake": "Go is not on the PATH."})
    text = markdown([{**row, "python": "CPython 3.11.2 built by GCC 12.2.0"}])
    assert text.splitlines() == [
        "| name | unit | apportion | peers | ratio, above 1: apportion is better |",
        "|---|---|---|---|---|",
        "| `commits` | 1/CPU s | 21,200 (20,000 to 30,000) | "
        "kafka 10,600 (10,600 to 10,600); kfake missing | kafka 2.00 |",
        "",
        "Apportion ran on CPython 3.11.2 built by GCC 12.2.0.",
        "",
        f"- `commits`: {commits.what}. {commits.unlike}",
        "  kfake is missing: Go is not on the PATH.",
    ]


def test_the_table_leaves_out_a_row_of_an_earlier_run_that_is_no_more() -> None:
    found = result(ROWS[0], {OURS: [2.0], "kafka": [1.0]}, {})
    assert markdown([found, {**found, "name": "no_more"}]) == markdown([found])


def test_the_end_of_a_batch_is_read_from_its_progress() -> None:
    progress = {
        "timestamp": "2026-01-02T03:04:05.678Z",
        "durationMs": {"addBatch": 200, "triggerExecution": 345},
    }
    began = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC).timestamp()
    assert spark_job.end_of_batch(progress) == pytest.approx(began + 0.345, abs=1e-6)


def test_the_row_of_delta_says_the_locked_version_of_spark() -> None:
    version = pinned(SPARK_4_2, "pyspark")
    assert f"pyspark=={version} " in SPARK_4_2.read_text()
    assert version.startswith("4.2.")
    [delta] = [row for row in ROWS if row.name == "spark_delta"]
    assert f"Both run on Spark {version}, " in delta.unlike


@pytest.fixture
def pyspark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A package like PySpark, with a directory of the peers for its Spark."""
    package = tmp_path / "pyspark"
    archive = package / "python" / "lib" / "pyspark.zip"
    archive.parent.mkdir(parents=True)
    with ZipFile(archive, "w") as new:
        new.writestr("pyspark/worker.py", "")
    (package / "jars").mkdir()
    monkeypatch.setattr(spark_home, "TARGET", tmp_path / "target")
    return package


def test_the_peers_spark_has_bytecode_and_the_installed_one_stays(pyspark: Path) -> None:
    archive = pyspark / "python" / "lib" / "pyspark.zip"
    before = archive.read_bytes()

    home = spark_home.spark_home(pyspark)

    with ZipFile(home / "python" / "lib" / "pyspark.zip") as copied:
        assert copied.namelist() == ["pyspark/worker.py", "pyspark/worker.pyc"]
    assert (home / "jars").resolve() == pyspark / "jars"
    assert archive.read_bytes() == before
    assert spark_home.spark_home(pyspark) == home


def test_the_peers_spark_is_made_anew_for_another_compiler(
    pyspark: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = spark_home.spark_home(pyspark)
    changed = tmp_path / "bytecode.py"
    changed.write_text("# Another one.\n")
    monkeypatch.setattr(spark_home, "COMPILER", changed)

    assert spark_home.spark_home(pyspark) != home


def test_a_spark_that_cannot_be_prepared_is_a_missing_peer(pyspark: Path) -> None:
    archive = pyspark / "python" / "lib" / "pyspark.zip"
    archive.write_bytes(b"no archive")
    with pytest.raises(PeerMissing, match=r"pyspark\.zip is damaged \(File is not a zip file\)"):
        spark_home.spark_home(pyspark)

    archive.unlink()
    with pytest.raises(PeerMissing, match=r"pyspark has no pyspark\.zip: install PySpark"):
        spark_home.spark_home(pyspark)


def test_own_modules_that_cannot_be_compiled_are_named(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def\n")
    with pytest.raises(PeerMissing, match=r"broken\.py"):
        spark_home.compile_own(tmp_path)


def test_without_a_run_the_table_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "OUT", tmp_path / "peers.json")
    monkeypatch.setattr("sys.argv", ["peers", "--table"])
    assert program.main() == 2
    assert capsys.readouterr().err == (
        "there is no bench-out/peers.json yet: run make bench-peers first\n"
    )


@pytest.fixture
def no_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Go, Maven and Java, on which nothing was fetched."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(downloads, "TARGET", tmp_path)
    monkeypatch.setattr(downloads, "HERE", tmp_path)
    (tmp_path / "pom-kafka.xml").write_text("<project/>")


@pytest.mark.usefixtures("no_programs")
@pytest.mark.parametrize(
    ("name", "reason"), [("kafka", "There is no Java"), ("kfake", "Go is not on the PATH")]
)
def test_a_broker_that_cannot_be_had_says_what_is_needed(name: str, reason: str) -> None:
    with brokers.Brokers() as running:
        for _ in range(2):  # it is not tried again
            with pytest.raises(PeerMissing, match=reason):
                running.get(name)


@pytest.mark.usefixtures("no_programs")
def test_a_go_program_that_cannot_be_built_says_what_is_needed() -> None:
    with pytest.raises(PeerMissing, match="Go is not on the PATH"):
        downloads.go_program("groups")


@pytest.mark.usefixtures("no_programs")
def test_jars_that_cannot_be_had_say_what_is_needed() -> None:
    with pytest.raises(PeerMissing, match=r"Maven \(mvn\) is not on the PATH"):
        downloads.jars("pom-kafka.xml")


def test_a_tls_listener_stands_beside_those_that_kafka_has(tmp_path: Path) -> None:
    listener = TlsListener("127.0.0.1:9", tmp_path / "broker.pem", "-----BEGIN CERTIFICATE-----")
    before = kraft_properties(1, 2, tmp_path)
    assert listener.beside(before) == before | {
        "listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2,SSL://127.0.0.1:9",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "broker.pem"),
    }
