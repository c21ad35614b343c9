"""Output that cannot be written is one line on standard error and a code of the table, never a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from otel_loopguard.cli.exit_codes import ExitCode

ROOT = Path(__file__).parents[2]
FULL = Path("/dev/full")
COMMANDS = ("replay --examples", "replay --examples --json", "audit --examples", "demo")


def run(shell: str) -> subprocess.CompletedProcess[str]:
    """Run a command line whose `$P` is our program."""
    program = f"{sys.executable} -m otel_loopguard"
    line = ["/bin/sh", "-c", shell.replace("$P", program)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own program


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_under_the_output_is_said(command: str) -> None:
    """A report on a full disk is lost, and the exit code says so."""
    if not FULL.exists():
        pytest.skip("needs /dev/full, which this system does not have")
    done = run(f"$P {command} >{FULL}")
    assert ExitCode.NO_OUTPUT == done.returncode
    assert ["otel-loopguard: error: the output cannot be written: No space left on device"] == done.stderr.splitlines()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_output_is_said(command: str) -> None:
    """Nothing is judged for nobody."""
    done = run(f"$P {command} >&-")
    assert (ExitCode.NO_OUTPUT, "otel-loopguard: error: standard output is closed\n") == (done.returncode, done.stderr)


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full"])
def test_a_closed_standard_error_hides_no_result(closed: str) -> None:
    """Where complaints cannot be written, the exit code still tells."""
    done = run(f"$P replay no-such-file {closed}")
    assert done.returncode in (ExitCode.NOTHING_READ, ExitCode.NO_OUTPUT)
    done = run(f"$P replay --examples --json {closed}")
    assert ExitCode.DONE == done.returncode
    assert len(done.stdout.splitlines()) >= 8


def test_a_reader_that_goes_away_is_no_fault() -> None:
    """`replay | head` ends quietly."""
    done = run("{ $P replay --examples; echo code $? >&2; } | head -1")
    assert "code 0\n" == done.stderr
