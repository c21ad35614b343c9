"""Every exit code of the command line, as one closed table; docs/cli.md is made from it."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0
    ADVICE = 1
    USAGE = 2
    PARTLY_READ = 3
    NOTHING_READ = 4
    NO_ROOM = 5
    NO_OUTPUT = 6
    UNWELL = 7
    LEAK = 8
    INTERRUPTED = 130


MEANING: Final = {
    ExitCode.DONE: "all input was read, whatever was found in it; also when the reader of the output went away",
    ExitCode.ADVICE: "of `lint --strict`: all input was read, and there is something to say of the policy",
    ExitCode.USAGE: "the command line, the policy file or the digest key cannot be used, or a part is not installed",
    ExitCode.PARTLY_READ: (
        "some input could not be read and the rest was judged; of `audit` also: a call lacks what judging needs"
    ),
    ExitCode.NOTHING_READ: "no input could be read",
    ExitCode.NO_ROOM: "the disk has no room left for temporary data; what was printed before stands",
    ExitCode.NO_OUTPUT: "the output could not be written: it is closed, or its disk is full",
    ExitCode.UNWELL: "of `doctor`: something keeps loops from being found, or content from being removed",
    ExitCode.LEAK: "of `doctor`: content would leave the process, and was seen to",
    ExitCode.INTERRUPTED: "interrupted from the keyboard",
}
