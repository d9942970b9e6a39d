"""One authority for all tests of the wire."""

from __future__ import annotations

import grpc
import pytest
from tests.system.wire.ends import (
    Authority,
    Papers,
)


@pytest.fixture(scope="module")
def papers() -> Papers:
    ours, other = Authority(), Authority()

    def client(pair: tuple[bytes, bytes] | None) -> grpc.ChannelCredentials:
        key, certificate = pair or (None, None)
        return grpc.ssl_channel_credentials(ours.pem, key, certificate)

    return Papers(
        grpc.ssl_server_credentials([ours.issue("server")], ours.pem, require_client_auth=True),
        client(ours.issue("agent-7")),
        client(ours.issue("server")),
        client(None),
        client(other.issue("agent-7")),
    )
