"""The page that says what is read of which spans is what the captures say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "make_dialect_table.py"


def test_the_table_is_up_to_date() -> None:
    """The generated page equals what its tool makes of the captures now."""
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False
    )
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
