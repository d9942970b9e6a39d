from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model import tokens
from fairlead.model.errors import Problem, render
from fairlead.model.tokens import BearerToken, JoinToken

CA = b"a certificate"
secrets_ = st.binary(min_size=20, max_size=20)
ids = st.binary(min_size=5, max_size=5)


@given(ids, secrets_)
def test_a_token_is_read_back_from_its_text(id_bytes: bytes, secret: bytes) -> None:
    join, bearer = tokens.join_token(id_bytes, secret, CA), tokens.bearer_token(id_bytes, secret)
    assert tokens.read_join(f"  {join.text}\n") == join
    assert tokens.read_bearer(bearer.text) == bearer
    assert tokens.opens(join.secret, tokens.digest_of(bearer.secret))


@given(st.text(max_size=100))
def test_any_other_text_is_refused_and_not_repeated(text: str) -> None:
    for read in (tokens.read_join, tokens.read_bearer):
        refusal = read(text)
        assert isinstance(refusal, Problem)
        assert len(text) < 12 or text not in render(refusal)


def test_a_token_of_the_other_kind_is_named_as_such() -> None:
    join, bearer = tokens.join_token(bytes(5), bytes(20), CA), tokens.bearer_token(bytes(5), bytes(20))
    as_bearer, as_join = tokens.read_bearer(join.text), tokens.read_join(bearer.text)
    assert isinstance(as_bearer, Problem)
    assert isinstance(as_join, Problem)
    assert (as_bearer.message, as_bearer.fix[-6:]) == ("this token is for joining", "submit")
    assert (as_join.message, as_join.fix[-5:]) == ("this token is not for joining", "agent")


def test_a_join_token_trusts_its_own_site_alone() -> None:
    token = tokens.join_token(bytes(5), bytes(20), CA)
    assert token.trusts(CA)
    assert not token.trusts(CA + b"\0")


def test_another_secret_does_not_open() -> None:
    one, other = tokens.bearer_token(bytes(5), bytes(20)), tokens.bearer_token(bytes(5), b"\1" * 20)
    assert tokens.digest_of(one.secret) == hashlib.sha256(one.secret.encode()).hexdigest()
    assert not tokens.opens(other.secret, tokens.digest_of(one.secret))


@pytest.mark.parametrize(
    "token", [BearerToken("abcd2345", "s" * 32), JoinToken("abcd2345", "s" * 32, "h" * 32)]
)
def test_a_secret_is_not_shown_by_accident(token: BearerToken | JoinToken) -> None:
    assert "sss" not in repr(token)
    assert "sss" not in f"{token}"
