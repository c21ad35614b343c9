"""What `opentelemetry-instrument` calls in every process that it instruments.

Invariants: nothing is raised, whatever is wrong: the command would give up all instrumentation. A process that has no
variable of ours pays a look at the names of its environment; nothing else of the package is loaded. The command calls
this after its configurator has set the providers, and before any instrumentation; each thing happens in `placing`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from otel_loopguard.processor.boundary import Boundary

PREFIX: Final = "OTEL_LOOPGUARD_"
"""As `settings.PREFIX`, which is not imported for the reason above."""


def pre_instrument() -> None:
    """Entry point of the group `opentelemetry_pre_instrument`; it does not raise."""
    if any(name.upper().startswith(PREFIX) for name in os.environ):
        # Not at the top: every process under the command would pay for it.
        import logging  # noqa: PLC0415

        from otel_loopguard.processor.boundary import Boundary  # noqa: PLC0415

        boundary = Boundary(logging.getLogger("otel_loopguard"))
        boundary.run("setting up without code", _begin, boundary, otherwise=None)


def _begin(boundary: Boundary) -> None:
    from otel_loopguard.processor.placing import begin  # noqa: PLC0415

    begin(os.environ, boundary)
