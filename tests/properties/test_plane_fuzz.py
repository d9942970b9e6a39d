"""Whatever agents, fronts and strangers say, in whatever order: the plane goes on, and its records are whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.properties.plane_deeds import Play, stories

LOOSE = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@given(stories)
@settings(max_examples=60, derandomize=True, **LOOSE)  # type: ignore[arg-type]
def test_no_story_breaks_the_plane_its_records_or_its_promises(story: list[Any]) -> None:
    Play().tell(story)


@pytest.mark.slow
@pytest.mark.timeout(900)
@given(stories)
@settings(max_examples=4_000, **LOOSE)  # type: ignore[arg-type]
def test_no_story_of_very_many_breaks_it(story: list[Any]) -> None:
    Play().tell(story)
