"""Where the key comes from: every way in, every refusal, and no key material in any message."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from otel_loopguard.digest import hkdf_extract
from otel_loopguard.errors import KeyConfigError
from otel_loopguard.keys import KEY, KEY_FILE, KEY_ID, ephemeral_key, fingerprint, load_key

SECRET = bytes(range(200, 232))
HEX = SECRET.hex()
BASE64 = base64.b64encode(SECRET).decode()
URL_SAFE = base64.urlsafe_b64encode(bytes([0xFB, 0xFF] * 4) + SECRET[:24]).decode()


@pytest.mark.parametrize(
    "text",
    [HEX, HEX.upper(), BASE64, BASE64.rstrip("="), f"  {HEX}\n", base64.urlsafe_b64encode(SECRET).decode()],
)
def test_key_from_the_environment(text: str) -> None:
    """64 hex characters or base64 of 32 bytes, blanks around it or not."""
    key = load_key({KEY: text})
    assert (SECRET, False) == (key.secret, key.ephemeral)


def test_both_alphabets_of_base64() -> None:
    """`-_` and `+/` are one."""
    assert load_key({KEY: URL_SAFE}).secret == load_key({KEY: URL_SAFE.replace("-", "+").replace("_", "/")}).secret


@pytest.mark.parametrize("content", [HEX.encode(), HEX.encode() + b"\n", BASE64.encode() + b"\r\n", SECRET])
def test_key_from_a_file(tmp_path: Path, content: bytes) -> None:
    """A file holds the key as text, or as 32 raw bytes."""
    path = tmp_path / "key"
    path.write_bytes(content)
    assert SECRET == load_key({KEY_FILE: str(path)}).secret


@pytest.mark.parametrize("given", [SECRET, HEX, BASE64, bytearray(SECRET)])
def test_key_from_code(given: Any) -> None:
    """A callable gives bytes or text, and goes before the environment."""
    assert SECRET == load_key({KEY: "00" * 32}, source=lambda: given).secret


def test_error_of_the_callable_is_the_owner_s() -> None:
    """What the callable raises at start is not swallowed."""

    def source() -> bytes:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        load_key({}, source=source)


# --- ids -------------------------------------------------------------------------------------------------


def test_key_id_as_configured() -> None:
    """The configured id is taken."""
    assert "prod/2026:1" == load_key({KEY: HEX, KEY_ID: " prod/2026:1 "}).key_id


def test_key_id_by_default_is_a_fingerprint() -> None:
    """Without one it is 8 hex characters: the same for one key, however it is written, and another for another key."""
    ids = {load_key({KEY: text}).key_id for text in (HEX, BASE64)}
    assert {fingerprint(SECRET)} == ids
    assert 8 == len(fingerprint(SECRET))
    assert fingerprint(SECRET) != fingerprint(SECRET[::-1])


def test_fingerprint_does_not_help_to_find_the_key() -> None:
    """It is no part of the key, of a hash of it, or of the root that digests are derived from."""
    for material in (SECRET, hkdf_extract(SECRET)):
        assert fingerprint(SECRET) not in material.hex()


@pytest.mark.parametrize("key_id", ["a b", "ä", "x" * 65, "eph-00000000", "a\nb"])
def test_bad_key_id_is_refused(key_id: str) -> None:
    """An id is a short name, and not one that stands for an ephemeral key."""
    with pytest.raises(KeyConfigError, match=KEY_ID):
        load_key({KEY: HEX, KEY_ID: key_id})


def test_key_id_without_a_key_is_refused() -> None:
    """An id promises a shared key; a random one in its place would match nowhere."""
    with pytest.raises(KeyConfigError, match=KEY_ID):
        load_key({KEY_ID: "prod"})


# --- ephemeral -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("environ", [{}, {KEY: ""}, {KEY: "  ", KEY_FILE: ""}])
def test_ephemeral_key_where_none_is_configured(environ: dict[str, str]) -> None:
    """With nothing set, or set to nothing, the key is random, flagged, and named as such."""
    key, another = load_key(environ), load_key(environ)
    assert [True, True] == [key.ephemeral, key.key_id.startswith("eph-")]
    assert 12 == len(key.key_id)
    assert key.secret != another.secret
    assert key.key_id != another.key_id


def test_id_of_an_ephemeral_key_is_not_derived_from_it() -> None:
    """The id tells nothing about the secret."""
    key = ephemeral_key()
    assert fingerprint(key.secret) != key.key_id.removeprefix("eph-")
    assert key.key_id.removeprefix("eph-") not in key.secret.hex()


def test_ephemeral_key_is_refused_where_digests_must_match() -> None:
    """The refusal says what is missing, why, and what to do."""
    with pytest.raises(KeyConfigError) as caught:
        load_key({}, require_shared=True)
    for word in (KEY, KEY_FILE, "processes", "openssl rand"):
        assert word in str(caught.value)


def test_shared_key_is_enough_where_digests_must_match() -> None:
    """A configured key is a shared one, whichever way it came."""
    assert SECRET == load_key({KEY: HEX}, require_shared=True).secret
    assert SECRET == load_key({}, source=lambda: SECRET, require_shared=True).secret


# --- refused ---------------------------------------------------------------------------------------------

WEAK = {
    "zeros": bytes(32),
    "one byte": b"\xa5" * 32,
    "two bytes": b"\xa5\x5a" * 16,
    "seven distinct bytes": bytes([1, 2, 3, 4, 5, 6, 7, 1] * 4),
    "passphrase": b"correct horse battery staple 123",
    "short": bytes(range(31)),
    "long": bytes(range(33)),
}


@pytest.mark.parametrize("secret", WEAK.values(), ids=WEAK)
def test_weak_key_is_refused_from_anywhere(tmp_path: Path, secret: bytes) -> None:
    """Patterns, passphrases and other lengths are refused from environment, file and code, and never shown."""
    path = tmp_path / "key"
    path.write_bytes(secret)
    ways: list[Callable[[], Any]] = [
        lambda: load_key({KEY: secret.hex()}),
        lambda: load_key({KEY: base64.b64encode(secret).decode()}),
        lambda: load_key({KEY_FILE: str(path)}),
        lambda: load_key({}, source=lambda: secret),
        lambda: load_key({}, source=secret.hex),
    ]
    for way in ways:
        with pytest.raises(KeyConfigError) as caught:
            way()
        shown = str(caught.value)
        assert secret.hex()[:16] not in shown
        assert base64.b64encode(secret).decode()[:16] not in shown
        assert "correct horse" not in shown


def test_key_of_eight_distinct_bytes_passes() -> None:
    """The bound on patterns is eight distinct bytes."""
    secret = bytes([1, 2, 3, 4, 5, 6, 7, 8] * 4)
    assert secret == load_key({KEY: secret.hex()}).secret


@pytest.mark.parametrize(
    "text", ["SECRET", "g" * 64, HEX[:-1], HEX + "0", BASE64[:-2], "=" * 44, "SECRET" * 1_000, "٣" * 64]
)
def test_malformed_key_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    """What is neither hex nor base64 of 32 bytes is refused, with how to make a key and without the text."""
    path = tmp_path / "key"
    path.write_text(text, encoding="utf-8")
    for environ in ({KEY: text}, {KEY_FILE: str(path)}):
        with pytest.raises(KeyConfigError, match="openssl rand") as caught:
            load_key(environ)
        assert text[:6] not in str(caught.value)


def test_two_keys_are_refused(tmp_path: Path) -> None:
    """A key in both places is ambiguous even if equal."""
    path = tmp_path / "key"
    path.write_text(HEX)
    with pytest.raises(KeyConfigError, match="both set"):
        load_key({KEY: HEX, KEY_FILE: str(path)})


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    """Missing, empty, too large, a folder, a pipe, a name with a NUL: each a refusal, none a wait."""
    empty, large, pipe = tmp_path / "empty", tmp_path / "large", tmp_path / "pipe"
    empty.write_bytes(b"")
    large.write_bytes(HEX.encode() + b"\n" * 10_000)
    os.mkfifo(pipe)
    for path in (tmp_path / "missing", empty, large, tmp_path, pipe, "a\0b"):
        with pytest.raises(KeyConfigError):
            load_key({KEY_FILE: str(path)})


def test_file_that_all_can_write_is_refused(tmp_path: Path) -> None:
    """Whoever can write the file can choose the key; that others can read it is how secrets are mounted."""
    path = tmp_path / "key"
    path.write_text(HEX)
    path.chmod(0o644)
    assert SECRET == load_key({KEY_FILE: str(path)}).secret
    path.chmod(0o646)
    with pytest.raises(KeyConfigError, match="chmod"):
        load_key({KEY_FILE: str(path)})


def test_key_id_never_holds_key_material() -> None:
    """Nothing that is shown of a loaded key is part of it."""
    key = load_key({KEY: HEX})
    assert HEX[:8] not in repr(key)
    assert repr(SECRET)[2:10] not in repr(key)
