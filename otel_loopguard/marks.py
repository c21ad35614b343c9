"""The mark of a digest within one run: a letter, so that equal calls are seen at a glance.

Invariants: equal digests have equal marks, different ones different letters; letters go by order of first appearance.
"""

from __future__ import annotations

from typing import Final

_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Marks:
    """Gives each digest of one run its letter."""

    def __init__(self, *, lower: bool = False, hex_chars: int = 2) -> None:
        """`lower`: small letters, to tell results from calls; `hex_chars`: how much of the digest follows."""
        self._letters: dict[str, str] = {}
        self._lower = lower
        self._hex_chars = hex_chars

    def of(self, digest: str) -> str:
        """Letter and first characters of the digest, such as `A 3f`."""
        letter = self._letters.get(digest)
        if letter is None:
            letter = self._letters[digest] = _letters(len(self._letters))
        return f"{letter.lower() if self._lower else letter} {digest[: self._hex_chars]}"


def _letters(number: int) -> str:
    """0 is A, 25 is Z, 26 is AA."""
    text = ""
    number += 1
    while number:
        number, place = divmod(number - 1, len(_ALPHABET))
        text = _ALPHABET[place] + text
    return text
