"""Credentials for gRPC and HTTPS from an identity.

On gRPC both ends show a certificate of the site. On HTTPS only the server does: people and programs show
tokens. Certificates are renewed while connections live: a server asks for its identity at each handshake.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import grpc

from fairlead.shell.access.identity import CERTIFICATE, KEY, Identity
from fairlead.shell.access.peers import peer_identity


class Context(Protocol):
    """What gRPC tells of one call."""

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """The handshake, as gRPC verified it."""
        ...


def server_credentials(current: Callable[[], Identity]) -> grpc.ServerCredentials:
    """For a port that refuses whoever shows no certificate of the site. `current` is asked from any thread."""
    shown = current()

    def renewed() -> Any:  # None means as before, which the types of gRPC do not know
        nonlocal shown
        identity = current()
        if identity is shown:
            return None
        shown = identity
        return _configuration(identity)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(shown), renewed, require_client_authentication=True
    )


def channel_credentials(identity: Identity) -> grpc.ChannelCredentials:
    """For a connection to a server of the same site."""
    return grpc.ssl_channel_credentials(identity.authority_pem, identity.key_pem, identity.certificate_pem)


def agent_of(context: Context) -> int | None:
    """The number of the agent at the other end; None when it is no agent."""
    peer = peer_identity(context.auth_context())
    return peer.number if peer is not None and peer.role == "agent" else None


def is_server(context: Context) -> bool:
    """Whether a server or a front of the site is at the other end."""
    peer = peer_identity(context.auth_context())
    return peer is not None and peer.role in ("server", "front")


def https_server(identity: Identity) -> ssl.SSLContext:
    """For a port that people and programs call with tokens."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    show(context, identity)
    return context


def show(context: ssl.SSLContext, identity: Identity) -> None:
    """From now on new connections see this certificate."""
    context.load_cert_chain(identity.folder / CERTIFICATE, identity.folder / KEY)


def https_client(authority_pem: str) -> ssl.SSLContext:
    """For calls to a site whose authority is known, and to nobody else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=authority_pem)
    return context


def https_stranger() -> ssl.SSLContext:
    """For the one call that asks a site for its authority, before the hash in a join token is compared.

    Nothing secret may be said on it: whoever answers may be anybody.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _configuration(identity: Identity) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(identity.key_pem, identity.certificate_pem)], identity.authority_pem
    )
