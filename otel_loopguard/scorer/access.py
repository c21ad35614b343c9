"""Who may send: bearer tokens, TLS and client certificates.

Invariants: tokens are compared in a time that tells nothing of them; TLS is 1.2 or newer; what cannot be used is
said before anything is served, and no message holds a token or a key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeAlias

import grpc
import msgspec

from otel_loopguard.errors import ServeError

MIN_TOKEN_CHARS: Final = 16
_Stamp: TypeAlias = tuple[int, ...]
_SCHEME: Final = "bearer"
_PASSWORD_SCHEME: Final = "basic"  # noqa: S105 - the name of a scheme


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Where certificates stand, all in PEM."""

    cert: Path
    """The server's certificate, and those between it and its authority."""
    key: Path
    """Its private key, without a passphrase."""
    client_ca: Path | None = None
    """Authorities; then senders must show a certificate of one of them."""


class Tokens:
    """Bearer tokens, any of which opens the door; without any there is none.

    Args:
        tokens: each of 16 printable ASCII characters or more.
        file: where they are from, and of which state of it; see `from_file`.

    Thread safety: `allow` from any thread, `read_again` from one at a time.
    """

    def __init__(self, tokens: Sequence[str] = (), *, file: tuple[Path, _Stamp | None] | None = None) -> None:
        self._digests = tuple(_digest(token) for token in tokens)
        self._file = file

    @classmethod
    def from_file(cls, path: Path) -> Tokens:
        """Reads tokens, one a line, so that an old one and its successor are good at the same time.

        Raises:
            ServeError: the file cannot be read, has no token, or one that is too short or not printable ASCII.
        """
        stamp = _stamp(path)  # first: what changes while it is read is read again
        return cls(_tokens_in(path), file=(path, stamp))

    def read_again(self) -> bool:
        """Reads the file again where it has changed; while it cannot be used, the tokens of before hold.

        Returns:
            Whether others hold now.

        Raises:
            ServeError: as `from_file`, once for each state of the file.
        """
        if self._file is None:
            return False
        path, before = self._file
        stamp = _stamp(path)
        if stamp == before:
            return False
        self._file = path, stamp
        was, self._digests = self._digests, tuple(_digest(token) for token in _tokens_in(path))
        return was != self._digests

    def allow(self, authorization: str | None, *, browser: bool = False) -> bool:
        """Tells whether a request with this `Authorization` may come in.

        Args:
            authorization: the header's value; None where there is none.
            browser: take the token as a password, too, whatever the user's name: all that a browser can ask for.
        """
        if not self._digests:
            return True
        scheme, _, token = (authorization or "").partition(" ")
        if browser and scheme.lower() == _PASSWORD_SCHEME:
            token = _password(token)
        elif scheme.lower() != _SCHEME:
            return False
        shown = _digest(token.strip())
        # All of them are compared, whichever is right.
        return sum([hmac.compare_digest(shown, digest) for digest in self._digests]) > 0


def _tokens_in(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        message = f"token file {path}: cannot be read: {_why(error)}"
        raise ServeError(message) from None
    tokens = [line.strip() for line in lines if line.strip()]
    if not tokens:
        message = f"token file {path}: has no token; write one of {MIN_TOKEN_CHARS} characters or more into it"
        raise ServeError(message)
    for token in tokens:
        if len(token) < MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
            message = f"token file {path}: a token must be {MIN_TOKEN_CHARS} or more printable ASCII characters"
            raise ServeError(message)
    return tokens


def _stamp(path: Path) -> _Stamp | None:
    """What tells one state of a file from another; None where it is not there.

    Also where a link to it was moved, it was made readable, or others were put into it that are as long and as old.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _password(credentials: str) -> str:
    """Reads the password; empty where it cannot be read, which no token is."""
    try:
        return base64.b64decode(credentials.strip(), validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def _digest(token: str) -> bytes:
    """Of one length for all tokens, so that the time of a comparison does not tell theirs."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def is_local(host: str) -> bool:
    """Tells whether HOST or HOST:PORT is an address, or this machine's own name for itself."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and not host.endswith("]") else host
    name = name.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def ssl_context(files: TlsFiles) -> ssl.SSLContext:
    """The TLS context of the HTTP server.

    Raises:
        ServeError: a file cannot be read, or does not hold what it should.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(files.cert, files.key, password=_no_passphrase)
    except (OSError, ServeError) as error:  # SSLError is an OSError
        message = f"TLS certificate {files.cert} with key {files.key}: cannot be used: {_why(error)}"
        raise ServeError(message) from None
    if files.client_ca is not None:
        try:
            context.load_verify_locations(files.client_ca)
        except OSError as error:
            message = f"TLS client authorities {files.client_ca}: cannot be used: {_why(error)}"
            raise ServeError(message) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def grpc_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """The same for the gRPC server.

    Raises:
        ServeError: as `ssl_context`; gRPC itself would only say so to senders.
    """
    ssl_context(files)
    authorities = None if files.client_ca is None else files.client_ca.read_bytes()
    return grpc.ssl_server_credentials(
        [(files.key.read_bytes(), files.cert.read_bytes())],
        root_certificates=authorities,
        require_client_auth=authorities is not None,
    )


def _no_passphrase() -> str:
    """Asked for a passphrase; OpenSSL would wait at the terminal for one."""
    message = "the key has a passphrase; store it without one, readable by this user only"
    raise ServeError(message)


def _why(error: Exception) -> str:
    if isinstance(error, ServeError):
        return str(error)
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not PEM").lower().replace("_", " ")
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "not UTF-8 text"
