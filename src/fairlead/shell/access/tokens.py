"""New tokens: the random bytes that the pure part may not take."""

from __future__ import annotations

import secrets

from fairlead.model import tokens


def new_bearer_token() -> tokens.BearerToken:
    """A token that nobody else has."""
    return tokens.bearer_token(secrets.token_bytes(tokens.ID_BYTES), secrets.token_bytes(tokens.SECRET_BYTES))


def new_join_token(ca_der: bytes) -> tokens.JoinToken:
    """A token that nobody else has, for the site with this certificate."""
    return tokens.join_token(
        secrets.token_bytes(tokens.ID_BYTES), secrets.token_bytes(tokens.SECRET_BYTES), ca_der
    )
