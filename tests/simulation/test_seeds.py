"""The cores hold every promise in seeded worlds of faults; a run is repeated by its seed, or by its text."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fairlead.sim.run import Result, simulate
from fairlead.sim.scenario import Item, Scenario, draw, read_scenario
from fairlead.sim.shrink import Shrinker

SRC = os.path.join(os.path.dirname(__file__), "..", "..", "src")


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_every_promise_is_kept_in_twenty_worlds(first: int) -> None:
    for seed in range(first, first + 5):
        assert simulate(draw(seed)).broken == "", f"seed {seed}"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(20, 220, 50))
def test_every_promise_is_kept_in_two_hundred_worlds_more(first: int) -> None:
    for seed in range(first, first + 50):
        assert simulate(draw(seed)).broken == "", f"seed {seed}"


def _digests(hash_seed: str) -> str:
    code = (
        "from fairlead.sim.run import simulate; from fairlead.sim.scenario import draw;"
        "print([simulate(draw(seed)).digest for seed in (3, 4, 9)])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": SRC}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_two_runs_under_different_hash_seeds_are_equal_to_the_last_effect() -> None:
    assert _digests("1") == _digests("2")


def test_a_scenario_is_its_text() -> None:
    scenario = draw(7)
    assert read_scenario(scenario.text()) == scenario
    assert simulate(read_scenario(scenario.text())).digest == simulate(scenario).digest


def test_a_failing_scenario_is_shortened_to_what_makes_it_fail() -> None:
    def run(scenario: Scenario) -> Result:
        kinds = [item.kind for item in scenario.items]
        fails = "reboot" in kinds and "submit" in kinds and scenario.world["drop"] > 0
        return Result(scenario.seed, "I9 once: twice" if fails else "", 0, 0, 0, 0, "")

    drawn = draw(11)
    items = [*drawn.items, Item(500, "reboot", {"agent": 1, "ms": 5}), Item(900, "submit", {"n": 99})]
    scenario = Scenario(11, drawn.world | {"drop": 8}, items)
    shortest = Shrinker(scenario, run(scenario).broken, 2_000, run).shrink()
    assert sorted(item.kind for item in shortest.items) == ["reboot", "submit"]
    assert shortest.world["drop"] > 0
    assert shortest.world["repeat"] == 0
