from __future__ import annotations

import json
import signal
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import run, s6, s13
from bench.how import How
from bench.peers import environments
from bench.site import NotMeasured, until
from bench.table import row

from fairlead.programs import bench

ROW = row("S6", "p50", [7.0, 5.0, 9.0], "ms", "value <= 8", ("a pipe", 2.0))


def no_peer(_: How) -> list[object]:
    raise NotMeasured("nothing to compare with")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """S6 has a row at once, S13 none; results go to a folder of the test."""
    known = {"bench.s6": lambda how: [ROW], "bench.s13": no_peer}
    monkeypatch.setattr(run, "import_module", lambda name: types.SimpleNamespace(rows=known[name]))
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, before)


def test_rows_are_shown_and_kept_and_a_missing_one_is_named(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.run(["S6", "s13"], How(), "table") == 1
    out = capsys.readouterr().out
    assert "2 a pipe" in out
    assert "S13 was not measured: nothing to compare with" in out
    (kept,) = json.loads((measured / "S6.json").read_text())
    assert (kept["value"], kept["met"]) == (7.0, True)


def test_programs_read_one_document(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.run(["S6"], How(), "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in told["rows"]] == ["S6"]
    assert told["left"] == {}


def test_a_ratio_below_its_floor_fails_a_check_and_nothing_else(
    measured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "FLOORS", {("S6", "a pipe"): 4.0})
    assert run.run(["S6"], How(), "table") == 0
    assert run.run(["S6"], How(), "table", check=True) == 1
    assert "S6: 3.5 of the a pipe, at least 4 is demanded" in capsys.readouterr().err
    monkeypatch.setattr(run, "FLOORS", {("S6", "a pipe"): 3.0})
    assert run.run(["S6"], How(), "table", check=True) == 0


def test_an_unknown_id_is_refused_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.run(["S99"], How(), "table") == 2
    assert "there is no S99" in capsys.readouterr().err


def test_without_a_checkout_the_command_says_where_the_measurements_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = types.SimpleNamespace(__file__=str(tmp_path / "lib" / "python" / "fairlead" / "__init__.py"))
    monkeypatch.setattr(bench, "fairlead", elsewhere)
    assert bench.main({"ids": ["S3"], "output": "table"}) == 2
    assert "make bench" in capsys.readouterr().err


def test_the_command_passes_on_what_it_was_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[object] = []
    monkeypatch.setattr(run, "run", lambda *given: told.append(given) or 0)
    assert (
        bench.main({"ids": ("S3",), "full": True, "peers": True, "cache": str(tmp_path), "output": "json"})
        == 0
    )
    assert told == [(("S3",), How(True, tmp_path), "json")]


def test_each_measurement_has_a_module() -> None:
    for id in run.ALL:
        assert (run.ROOT / "bench" / f"{id.lower()}.py").exists()
    assert set(run.SHORT) <= set(run.ALL)
    assert s13.rows
    for peer in environments.PINS:
        assert (run.ROOT / "bench" / "peers" / f"with_{peer}.py").exists()


def test_the_command_of_a_row_repeats_how_it_was_measured(tmp_path: Path) -> None:
    assert How().command("S3") == "fairlead bench S3"
    assert How(True, tmp_path).command("S3") == "fairlead bench S3 --full --peers"


def test_a_quantile_of_few_is_one_of_them() -> None:
    assert s6.at([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert s6.at([1.0, 2.0], 0.99) == 2.0


def test_what_does_not_come_to_be_is_not_measured() -> None:
    with pytest.raises(NotMeasured):
        until(lambda: False, seconds=0.02)
