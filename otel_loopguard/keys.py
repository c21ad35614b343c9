"""Where the digest key comes from: environment, file, callable, or made up on the spot.

Invariants: a weak, malformed or ambiguous key is refused at start and never repaired; no message shows key
material or the text it was read from. This is the one module that reads key files or draws random bytes.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import re
import secrets
import stat
import string
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from otel_loopguard.digest import KEY_BYTES, NAME_HEX, Key, hkdf_extract
from otel_loopguard.errors import KeyConfigError

KEY: Final = "OTEL_LOOPGUARD_KEY"
KEY_FILE: Final = "OTEL_LOOPGUARD_KEY_FILE"
KEY_ID: Final = "OTEL_LOOPGUARD_KEY_ID"
EPHEMERAL_PREFIX: Final = "eph-"

_MAX_FILE_BYTES: Final = 4096
"""A key is at most 65 bytes of text; a larger file is some other file."""
_MIN_DISTINCT_BYTES: Final = 8
"""32 random bytes have fewer distinct ones once in 10^37; a filled or repeated pattern has."""
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
_HEX: Final = re.compile(r"[0-9A-Fa-f]{64}")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{43}=?")
_PRINTABLE: Final = frozenset(string.printable.encode())
_HOW: Final = "make one with: openssl rand -hex 32"


def load_key(
    environ: Mapping[str, str],
    *,
    source: Callable[[], bytes | str] | None = None,
    require_shared: bool = False,
) -> Key:
    """Find the digest key: `source` if given, else `OTEL_LOOPGUARD_KEY`, else the file in `OTEL_LOOPGUARD_KEY_FILE`.

    Args:
        environ: environment variables; empty ones count as not set, as everywhere in OpenTelemetry.
        source: gives 32 bytes, or text as a variable would hold it: 64 hex characters, or base64 of 32 bytes.
            What it raises is not caught.
        require_shared: refuse a key that no other process can have.

    Returns:
        The key. Its id is `OTEL_LOOPGUARD_KEY_ID`, or else a fingerprint of it. With nothing configured it is
        random, lives in memory only, and has an id that begins with `eph-`.

    Raises:
        KeyConfigError: the key is weak, malformed, unreadable or given twice; or missing with `require_shared`.
    """
    text, path, key_id = (environ.get(name, "").strip() for name in (KEY, KEY_FILE, KEY_ID))
    if source is not None:
        given = source()
        if not isinstance(given, (str, bytes, bytearray)):
            msg = f"the key source must give 32 bytes, or text; it gave {type(given).__name__}"
            raise KeyConfigError(msg)
        secret = _decode_text(given, "the key source") if isinstance(given, str) else bytes(given)
        return _checked(secret, key_id, "the key source")
    if text and path:
        msg = f"{KEY} and {KEY_FILE} are both set: unset one of them"
        raise KeyConfigError(msg)
    if text:
        return _checked(_decode_text(text, KEY), key_id, KEY)
    if path:
        return _checked(_read_file(path), key_id, f"the file named by {KEY_FILE}")
    if require_shared:
        msg = (
            "no digest key is configured, and digests must match across processes here: "
            f"set {KEY} or {KEY_FILE} to the same key everywhere; {_HOW}"
        )
        raise KeyConfigError(msg)
    if key_id:
        msg = f"{KEY_ID} is set but no key is: set {KEY} or {KEY_FILE}, or unset {KEY_ID}"
        raise KeyConfigError(msg)
    return ephemeral_key()


def ephemeral_key() -> Key:
    """Make up a random key that lives in memory only; its id is random too and tells nothing about it."""
    return Key(
        key_id=EPHEMERAL_PREFIX + secrets.token_hex(NAME_HEX // 2),
        secret=secrets.token_bytes(KEY_BYTES),
        ephemeral=True,
    )


def fingerprint(secret: bytes) -> str:
    """Give 8 hex characters that tell keys apart: derived under a label of its own, of no help to find the key."""
    return hmac.digest(hkdf_extract(secret), b'["key id"]\x01', "sha256").hex()[:NAME_HEX]


def _decode_text(text: str, where: str) -> bytes:
    text = text.strip()
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    if _BASE64.fullmatch(text):
        standard = text.rstrip("=").translate(str.maketrans("-_", "+/"))
        try:
            return base64.b64decode(standard + "=", validate=True)
        except binascii.Error:
            pass
    msg = f"{where}: neither 64 hex characters nor base64 of {KEY_BYTES} bytes; {_HOW}"
    raise KeyConfigError(msg)


def _read_file(path: str) -> bytes:
    where = f"the file named by {KEY_FILE}"
    try:
        # Looked at before it is opened: opening a pipe could wait for ever.
        mode = os.stat(path).st_mode  # noqa: PTH116 - the path is text of the owner's
        if not stat.S_ISREG(mode):
            msg = f"{where} is not a regular file: name a file that holds the key"
            raise KeyConfigError(msg)
        if os.name == "posix" and mode & stat.S_IWOTH:
            # Readable by others is how orchestrators mount secrets; writable by all is never meant.
            msg = f"{where} can be written by every user, who could then choose the key: chmod o-w it"
            raise KeyConfigError(msg)
        with Path(path).open("rb") as file:
            raw = file.read(_MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        msg = f"{where} cannot be read ({type(error).__name__}): check that it exists and its permissions"
        raise KeyConfigError(msg) from None
    if len(raw) == KEY_BYTES:
        return raw
    raw = raw.removeprefix(b"\xef\xbb\xbf")  # the byte order mark that some editors put before text
    if len(raw) > _MAX_FILE_BYTES or not raw.isascii():
        msg = f"{where} holds neither {KEY_BYTES} raw bytes nor a key as text; {_HOW}"
        raise KeyConfigError(msg)
    return _decode_text(raw.decode("ascii"), where)


def _checked(secret: bytes, key_id: str, where: str) -> Key:
    if len(secret) != KEY_BYTES:
        msg = f"{where}: the key has {len(secret)} bytes, it must have {KEY_BYTES}; {_HOW}"
        raise KeyConfigError(msg)
    if len(set(secret)) < _MIN_DISTINCT_BYTES:
        msg = f"{where}: the key is a filled or repeated pattern, which can be guessed; {_HOW}"
        raise KeyConfigError(msg)
    if _PRINTABLE.issuperset(secret):
        msg = f"{where}: the key is {KEY_BYTES} characters of text, not random bytes, and can be guessed; {_HOW}"
        raise KeyConfigError(msg)
    if key_id and (not _KEY_ID.fullmatch(key_id) or key_id.startswith(EPHEMERAL_PREFIX)):
        msg = f"{KEY_ID}: 1 to 64 of A-Z a-z 0-9 _ . : / - , and not beginning with {EPHEMERAL_PREFIX!r}"
        raise KeyConfigError(msg)
    return Key(key_id=key_id or fingerprint(secret), secret=secret)
