"""A process that makes calls, becomes another program, and makes calls there. Arguments: file, how often."""

from __future__ import annotations

import os
import sys

from tests.processor.programs.recording import call, provider, run

HERE = provider()
TRACER = HERE.get_tracer("executing")
LEFT = int(sys.argv[2])

run(TRACER, 3)
call(TRACER)
if LEFT:
    if LEFT % 2 and os.fork():
        os.wait()
        sys.exit(0)
    os.execv(sys.executable, [sys.executable, __file__, sys.argv[1], str(LEFT - 1)])  # noqa: S606 - itself
HERE.shutdown()
