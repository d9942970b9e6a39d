"""Alarms against a plain dict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.base.alarms import Alarms

DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 9), st.integers(0, 50)),
        st.tuples(st.just("drop"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("due"), st.just(0), st.integers(0, 50)),
    )
)


@given(DEEDS)
def test_what_is_due_is_what_a_dict_would_say(deeds: list[tuple[str, int, int]]) -> None:
    alarms: Alarms[int] = Alarms()
    plain: dict[int, int] = {}
    for deed, key, at in deeds:
        if deed == "set":
            alarms.set(key, at)
            plain[key] = at
        elif deed == "drop":
            alarms.drop(key)
            plain.pop(key, None)
        else:
            due = [one for one, when in plain.items() if when <= at]
            assert sorted(alarms.due(at)) == sorted(due)
            for one in due:
                del plain[one]
        assert alarms.next_at() == min(plain.values(), default=None)
        assert len(alarms) == len(plain)


def test_stale_entries_do_not_pile_up() -> None:
    alarms: Alarms[int] = Alarms()
    for at in range(10_000):
        alarms.set(1, at)
    assert len(alarms._heap) < 200
