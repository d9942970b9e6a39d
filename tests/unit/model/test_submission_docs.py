"""The page about job files and the examples say what the code does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from fairlead.model.fields import FIELDS, LIMITS, RETRIES
from fairlead.model.jobs import JobSpec
from fairlead.model.reading import Field
from fairlead.model.rules import parse_rule
from fairlead.model.submission import FILE, Submission, read_submission
from fairlead.shell.front.yaml12 import Loaded, load

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "job-file.md"
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
TABLES: dict[str, Mapping[str, Field]] = {
    "FILE": FILE,
    "FIELDS": FIELDS,
    "LIMITS": LIMITS,
    "RETRIES": RETRIES,
}


def read(text: str, name: str = "x.yaml") -> Submission:
    """A job file that is right."""
    loaded = load(text, name)
    assert isinstance(loaded, Loaded), loaded
    found = read_submission(loaded.document, loaded.places)
    assert isinstance(found, Submission), found
    return found


def drawn(rows: Mapping[str, Field]) -> str:
    """A table as it stands on the page."""
    lines = ["| field | default | like | what it says |", "| --- | --- | --- | --- |"]
    for row in rows.values():
        default = f"`{row.default}`" if row.default else ""
        lines.append(f"| `{row.name}` | {default} | `{row.name}: {row.example}` | {row.says} |")
    return "\n".join(lines)


def test_the_tables_on_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text()
    wanted = page
    for name, rows in TABLES.items():
        block = rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)"
        table = drawn(rows)
        wanted, found = re.subn(block, lambda m, t=table: f"{m[1]}{t}\n{m[2]}", wanted, flags=re.S)  # type: ignore[misc]
        assert found == 1, name
    if os.environ.get("REWRITE") == "1":
        PAGE.write_text(wanted)
    assert page == wanted, "REWRITE=1 writes the tables anew"


def test_the_examples_on_the_page_are_right() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), flags=re.S)
    assert blocks
    for block in blocks:
        assert read(block).specs


def test_the_rules_on_the_page_are_rules() -> None:
    table = PAGE.read_text().split("| rule |")[1].split("\n\n")[0]
    shown = [each for each in re.findall(r"^\| `([a-z].*?)` \|", table, flags=re.M) if "RULE" not in each]
    assert len(shown) == 6
    for rule in shown:
        assert not hasattr(parse_rule(rule), "message"), rule


@pytest.mark.parametrize("row", FIELDS.values(), ids=lambda row: row.name)
def test_the_example_of_a_field_is_right_and_its_default_changes_nothing(row: Field) -> None:
    base = "" if row.name in ("run", "command") else "run: make\n"
    name = "" if row.name == "name" else "name: x\n"
    read(f"{name}{base}{row.name}: {row.example}\n")
    if row.default:
        assert read(f"{name}{base}{row.name}: {row.default}\n") == read(f"{name}{base}")


@pytest.mark.parametrize(("group", "rows"), [("limits", LIMITS), ("retries", RETRIES)])
def test_so_is_that_of_every_limit_and_budget(group: str, rows: Mapping[str, Field]) -> None:
    plain = read("{name: x, run: make}").specs[0]
    for row in rows.values():
        changed = read(f"{{name: x, run: make, {group}: {{{row.name}: {row.example}}}}}").specs[0]
        assert getattr(changed, row.into) != getattr(plain, row.into)
        assert read(f"{{name: x, run: make, {group}: {{{row.name}: {row.default}}}}}").specs[0] == plain


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_a_job_file(path: Path) -> None:
    assert read(path.read_text(), path.name).specs


def ends(spec: JobSpec, folder: Path, index: int) -> tuple[int, str]:
    """How a job's command ends when it is simply run, and what it prints."""
    folder.mkdir()
    python = str(Path(sys.executable).resolve().parent)
    own = {"FAIRLEAD_INDEX": str(index), "FAIRLEAD_COUNT": str(spec.count), "PATH": f"{python}:{os.defpath}"}
    done = subprocess.run(spec.command, cwd=folder, env={**own, **spec.env}, capture_output=True, check=False)
    return done.returncode, done.stdout.decode()


def test_the_pipeline_does_what_its_comments_say(tmp_path: Path) -> None:
    specs = read((ROOT / "examples" / "ci.yaml").read_text()).specs
    last = {spec.name: ends(spec, tmp_path / spec.name, spec.count - 1) for spec in specs}
    assert {name: code for name, (code, _) in last.items() if code} == {"style": 1}
    assert "modules are sound" in last["unit"][1]
    assert last["package"][1] == '{"packaged": true}\n'
    assert last["report"][1] == "nightly is through\n"
    assert [spec.name for spec in specs if spec.count > 1] == ["unit"]


def test_the_sweep_prints_its_points(tmp_path: Path) -> None:
    (spec,) = read((ROOT / "examples" / "sweep.yaml").read_text()).specs
    assert spec.count == 41 and msgspec.structs.asdict(spec)["env"] == {"FIRST": "2.0", "STEP": "0.05"}
    shown = [ends(spec, tmp_path / str(index), index)[1] for index in (10, 24, 40)]
    assert shown[0] == "2.50 settles on 1 points\n"
    assert shown[1] == "3.20 settles on 2 points\n"
