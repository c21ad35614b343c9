"""Tokens, TLS and client certificates, with certificates made for the test and the real servers."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import ssl
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

from otel_loopguard.errors import ServeError
from otel_loopguard.scorer.access import TlsFiles, Tokens, grpc_credentials, ssl_context
from otel_loopguard.scorer.grpc_server import EXPORT, GrpcServer
from tests.scorer.receivers import GOOD, MemoryIntake, receiver, served

TOKEN = "a-token-of-some-length"  # noqa: S105 - of the tests' own
OTHER = "another-token-of-some-length"


# --- tokens -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "allowed"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer  {TOKEN} ", True),
        (f"Bearer {OTHER}", True),
        (None, False),
        ("", False),
        ("Bearer", False),
        ("Bearer ", False),
        (TOKEN, False),
        (f"Basic {TOKEN}", False),
        (f"Bearer {TOKEN[:-1]}", False),
        (f"Bearer {TOKEN}{TOKEN}", False),
        (f"Bearer {TOKEN.upper()}", False),
        ("Bearer \udcff", False),
        ("Bearer \u00e4", False),
    ],
)
def test_only_the_whole_token_opens(shown: str | None, *, allowed: bool) -> None:
    """One of the tokens, whole, under the scheme `Bearer` in any case."""
    assert allowed == Tokens([TOKEN, OTHER]).allow(shown)


def test_text_that_no_encoding_has_opens_nothing() -> None:
    """Half a surrogate pair is compared like any other text."""
    assert not Tokens([TOKEN]).allow("Bearer \ud800")


def test_without_tokens_all_may_come() -> None:
    """No token is asked for where there is none."""
    assert [True, True] == [Tokens().allow(shown) for shown in (None, "Bearer x")]


def test_tokens_stand_one_a_line(tmp_path: Path) -> None:
    """Each line is a token, so that an old one and its successor are good at the same time."""
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\r\n\n  {OTHER}\n", encoding="utf-8")
    tokens = Tokens.from_file(path)
    assert [True, True, False] == [tokens.allow(f"Bearer {shown}") for shown in (TOKEN, OTHER, TOKEN + OTHER)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no token"),
        (b" \n\n", "has no token"),
        (b"x" * 15, "must be 16 or more printable ASCII characters"),
        (b"a token with its spaces", "must be 16 or more printable ASCII characters"),
        ("\u00e4".encode() * 20, "must be 16 or more printable ASCII characters"),
        (b"\xff" * 20, "cannot be read: not UTF-8 text"),
        (None, "cannot be read: No such file"),
    ],
)
def test_bad_token_files_are_a_clear_error(tmp_path: Path, content: bytes | None, said: str) -> None:
    """The message names the file and what is wrong, and holds no token."""
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ServeError) as raised:
        Tokens.from_file(path)
    assert f"token file {path}: " in str(raised.value)
    assert said in str(raised.value)
    assert "xxx" not in str(raised.value)


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    """Its new tokens hold, and the old ones not; while it is no token file, those of before do, and it is said once."""
    path = tmp_path / "token"
    path.write_text(TOKEN, encoding="utf-8")
    tokens = Tokens.from_file(path)
    assert not tokens.read_again()
    path.write_text(f"{OTHER}\n", encoding="utf-8")
    assert tokens.read_again()
    assert not tokens.read_again()
    assert [False, True] == [tokens.allow(f"Bearer {shown}") for shown in (TOKEN, OTHER)]
    for broken in ("short", None):
        if broken is None:
            path.unlink()
        else:
            path.write_text(broken, encoding="utf-8")
        with pytest.raises(ServeError):
            tokens.read_again()
        assert not tokens.read_again()
        assert tokens.allow(f"Bearer {OTHER}")
    path.write_text(TOKEN, encoding="utf-8")
    assert tokens.read_again()
    assert [True, False] == [tokens.allow(f"Bearer {shown}") for shown in (TOKEN, OTHER)]
    assert not Tokens([TOKEN]).read_again()


def test_a_change_that_shows_in_neither_size_nor_age_is_seen(tmp_path: Path) -> None:
    """As when the file could not be read before its mode was put right, or was copied with its times."""
    path = tmp_path / "token"
    path.write_text("a-token-as-long-as-b", encoding="utf-8")
    tokens, before = Tokens.from_file(path), path.stat()
    path.write_text("b-token-as-long-as-a", encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert tokens.read_again()
    assert tokens.allow("Bearer b-token-as-long-as-a")


# --- TLS ----------------------------------------------------------------------------------------------


class Authority:
    """An authority, and the files that it made for a server and a client."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        self.root = folder / "root.pem"
        self.ca.cert_pem.write_to_path(str(self.root))
        self.cert, self.key = folder / "server.pem", folder / "server.key"
        server = self.ca.issue_cert("localhost", "127.0.0.1")
        server.private_key_pem.write_to_path(str(self.key))
        for pem in server.cert_chain_pems:
            pem.write_to_path(str(self.cert), append=True)
        self.client = self.ca.issue_cert("client@example.org")

    def files(self, *, clients: bool) -> TlsFiles:
        """What the server is started with."""
        return TlsFiles(cert=self.cert, key=self.key, client_ca=self.root if clients else None)

    def trusting(self, shown: trustme.LeafCert | None = None) -> ssl.SSLContext:
        """A client that trusts the authority and shows this certificate."""
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        if shown is not None:
            shown.configure_cert(context)
        return context

    def channel(self, port: int, shown: trustme.LeafCert | None = None) -> grpc.Channel:
        """The same for gRPC."""
        key = chain = None
        if shown is not None:
            key = shown.private_key_pem.bytes()
            chain = b"".join(pem.bytes() for pem in shown.cert_chain_pems)
        return grpc.secure_channel(
            f"localhost:{port}", grpc.ssl_channel_credentials(self.root.read_bytes(), key, chain)
        )


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One authority for all tests of this module."""
    return Authority(tmp_path_factory.mktemp("tls"))


def _post(port: int, context: ssl.SSLContext) -> int | None:
    """The status of one export; None where TLS does not let it come so far."""
    connection = http.client.HTTPSConnection("localhost", port, timeout=20, context=context)
    try:
        connection.request("POST", "/v1/traces", GOOD, {"Content-Type": "application/x-protobuf"})
        return connection.getresponse().status
    except (ssl.SSLError, ConnectionError):
        return None
    finally:
        connection.close()


def test_http_over_tls(authority: Authority) -> None:
    """The server shows its certificate; no client certificate is asked for; plain text is not answered."""
    with served(receiver(MemoryIntake()), tls=ssl_context(authority.files(clients=False))) as port:
        assert [200, None] == [_post(port, authority.trusting()), _post(port, ssl.create_default_context())]
        with socket.create_connection(("127.0.0.1", port), timeout=20) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert b"HTTP" not in plain.recv(100)


def test_http_with_client_certificates(authority: Authority) -> None:
    """Only a certificate of the authority opens: none and a stranger's do not."""
    stranger = trustme.CA().issue_cert("client@example.org")
    with served(receiver(MemoryIntake()), tls=ssl_context(authority.files(clients=True))) as port:
        statuses = [_post(port, authority.trusting(shown)) for shown in (None, stranger, authority.client)]
    assert [None, None, 200] == statuses


def test_old_tls_is_refused(authority: Authority) -> None:
    """TLS 1.2 is the oldest."""
    assert ssl.TLSVersion.TLSv1_2 == ssl_context(authority.files(clients=False)).minimum_version


@pytest.mark.parametrize("clients", [False, True])
def test_grpc_over_tls(authority: Authority, *, clients: bool) -> None:
    """The same over gRPC, with and without client certificates."""
    stranger = trustme.CA().issue_cert("client@example.org")
    server = GrpcServer(receiver(MemoryIntake()), tls=grpc_credentials(authority.files(clients=clients)))
    port = server.start("127.0.0.1:0")
    codes = []
    for shown in (None, stranger, authority.client):
        with authority.channel(port, shown) as channel:
            method: Any = channel.unary_unary(EXPORT)
            try:
                method(GOOD, timeout=5)
                codes.append(grpc.StatusCode.OK)
            except grpc.RpcError as error:
                codes.append(error.code())
    server.stop()
    assert [clients, clients, False] == [code is not grpc.StatusCode.OK for code in codes]


@pytest.mark.parametrize("make", [ssl_context, grpc_credentials])
def test_bad_certificates_are_a_clear_error(authority: Authority, tmp_path: Path, make: Any) -> None:
    """What is missing, is no PEM, does not fit its key or has a passphrase is said before anything is served."""
    empty, other = tmp_path / "empty.pem", tmp_path / "other.key"
    empty.write_text("not PEM", encoding="ascii")
    trustme.CA().issue_cert("localhost").private_key_pem.write_to_path(str(other))
    good = authority.files(clients=True)
    cases = [
        TlsFiles(cert=tmp_path / "none", key=good.key),
        TlsFiles(cert=empty, key=good.key),
        TlsFiles(cert=good.cert, key=empty),
        TlsFiles(cert=good.cert, key=other),
        TlsFiles(cert=good.cert, key=_locked(good.key, tmp_path)),
        TlsFiles(cert=good.cert, key=good.key, client_ca=empty),
        TlsFiles(cert=good.cert, key=good.key, client_ca=tmp_path / "none"),
    ]
    messages = []
    for files in cases:
        with pytest.raises(ServeError) as raised:
            make(files)
        messages.append(str(raised.value))
    assert all(str(case.client_ca or case.cert) in message for case, message in zip(cases, messages, strict=True))
    assert "No such file" in messages[0]
    assert "key values mismatch" in messages[3]
    assert "has a passphrase" in messages[4]


def _locked(key: Path, folder: Path) -> Path:
    """The same key under a passphrase."""
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - comes with trustme
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    path = folder / "locked.key"
    private = load_pem_private_key(key.read_bytes(), None)
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"pass")))
    return path
