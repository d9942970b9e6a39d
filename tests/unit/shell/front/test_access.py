from __future__ import annotations

import hashlib

from fairlead.model.tokens import BearerToken, JoinToken
from fairlead.shell.front.access import JOINING, TOKEN_ROLES, new_token

AUTHORITY = b"a certificate"


def test_new_tokens_differ_and_those_for_joining_know_their_site() -> None:
    for role in TOKEN_ROLES:
        made = [new_token(role, AUTHORITY) for _ in range(100)]
        assert len({token.secret for token in made}) == len({token.id for token in made}) == 100
        for token in made:
            assert isinstance(token, JoinToken if role in JOINING else BearerToken)
            assert not isinstance(token, JoinToken) or token.trusts(AUTHORITY)
            assert not isinstance(token, JoinToken) or not token.trusts(hashlib.sha256(AUTHORITY).digest())
