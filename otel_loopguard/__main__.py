"""`python -m otel_loopguard` is `otel-loopguard`."""

from __future__ import annotations

import sys

from otel_loopguard.cli import main

if __name__ == "__main__":
    sys.exit(main())
