"""The errors this package raises on purpose; each says what is wrong, where, and what to do.

Invariant: no message holds content of a span or a call record.
"""

from __future__ import annotations


class LoopGuardError(Exception):
    """Base of every error that this package raises on purpose."""


class KeyConfigError(LoopGuardError):
    """A digest key is missing, malformed, or may not be used here."""


class PolicyError(LoopGuardError):
    """A policy file cannot be used. `problems` holds one line a problem, each with its place."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ExporterConfigError(LoopGuardError):
    """An exporter of ours is declared in a way that cannot be used."""


class InputError(LoopGuardError):
    """An input file or stream cannot be read at all."""


class SpillError(LoopGuardError):
    """Temporary data cannot be kept on disk, most often because it is full."""


class MissingExtraError(LoopGuardError):
    """An optional part is not installed; the message names the extra to install."""


class InstallError(LoopGuardError):
    """The processor cannot be added where it was asked to be."""


class ServeError(LoopGuardError):
    """The scorer cannot begin to serve: an address, a certificate or a token cannot be used."""


class SdkError(LoopGuardError):
    """The installed SDK does not let content be removed: exporters would get it."""


class StoreError(LoopGuardError):
    """The scorer's data folder cannot be used, read or written; says which, why, and how to go on."""


class StaleError(StoreError):
    """What was judged or asked for was settled, merged or evicted meanwhile; nothing was changed."""
