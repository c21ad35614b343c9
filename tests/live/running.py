"""Makes a pair's environment and runs its agent twice, once raw and once with our processor.

Invariants: an environment is made once for the same requirements and kept; our package is installed into it as the
wheel that users get, anew in each session. Agents run with a small environment of their own, so that no variable of
the caller changes what they emit.

Environment: `LOOPGUARD_LIVE_VENVS` names the folder that keeps the environments (default: one in the temporary
folder).
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.live.receiver import Receiver, receiving

ROOT: Final = Path(__file__).resolve().parents[2]
LIVE: Final = ROOT / "tests/live"
SNIPPETS: Final = ROOT / "docs/snippets"
KEY: Final = bytes(range(32)).hex()
SPANS: Final = "/v1/traces"
ALL_SPANS: Final = ("/early/v1/traces", SPANS, "/late/v1/traces")
"""Where the exporters send that stand before ours, in the snippet itself, and after ours."""

_TIMEOUT_S: Final = 180
"""An agent that takes longer hangs: the slowest needs 20 seconds, most of them for imports."""

_SETTINGS: Final = {
    "CREWAI_DISABLE_TELEMETRY": "true",  # else it sends spans of its own to its makers
    "CREWAI_TRACING_ENABLED": "false",
    "LANGSMITH_API_KEY": "none",
    "LITELLM_LOCAL_MODEL_COST_MAP": "true",  # else it asks the network at import
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    "OTEL_LOOPGUARD_KEY": KEY,
    "OTEL_SERVICE_NAME": "live",
    "PYTHONPATH": str(LIVE),
}


class LiveError(RuntimeError):
    """A pair's environment could not be made, or its agent failed."""


@dataclass(frozen=True, slots=True)
class Side:
    """What one run of an agent left behind."""

    received: dict[str, bytes]
    """What came in, by path; the bodies of each in one piece."""
    counts: dict[str, Any]
    """What our processor counted; empty on the raw side."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Both runs of one pair of a framework and an instrumentation."""

    name: str
    raw: Side
    digests: Side


def names() -> list[str]:
    """The pairs, sorted: each has a snippet in the documents."""
    return sorted(path.stem for path in SNIPPETS.glob("*.py"))


def requirements(pair: str) -> Path:
    """The file with the pinned versions of a pair."""
    return LIVE / f"requirements/{pair}.txt"


def agent(pair: str) -> Path:
    """The script of a pair: that of its framework."""
    scripts = [path for path in LIVE.glob("agents/*_agent.py") if pair.startswith(path.stem.removesuffix("agent"))]
    if len(scripts) != 1:
        message = f"tests/live/agents: {len(scripts)} scripts fit {pair}; exactly one <framework>_agent.py has to"
        raise LiveError(message)
    return scripts[0]


def has_uv() -> bool:
    """Tells whether environments can be made."""
    return importlib.util.find_spec("uv") is not None


def build_wheel(folder: Path) -> Path:
    """The package as users install it.

    Args:
        folder: an empty one.
    """
    _command(sys.executable, "-m", "uv", "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT))
    return next(folder.glob("*.whl"))


def python_of(pair: str, wheel: Path) -> Path:
    """The interpreter of a pair's environment, with this wheel of ours in it."""
    kept = os.environ.get("LOOPGUARD_LIVE_VENVS")
    folder = Path(kept) if kept else Path(tempfile.gettempdir()) / "loopguard-live-venvs"
    pins = requirements(pair)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    place = folder / f"{pair}-{version}-{hashlib.sha256(pins.read_bytes()).hexdigest()[:16]}"
    python = place / "bin/python"
    uv = (sys.executable, "-m", "uv")
    if not (place / "complete").exists():
        _command(*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(place))
        _command(*uv, "pip", "install", "--quiet", "--python", str(python), "--requirement", str(pins))
        (place / "complete").touch()
    _command(*uv, "pip", "install", "--quiet", "--python", str(python), "--no-deps", "--reinstall", str(wheel))
    return python


def run(pair: str, python: Path, home: Path, **settings: str) -> Pair:
    """Run a pair's agent raw and with our processor, both at once.

    Args:
        pair: its name.
        python: the interpreter of its environment.
        home: an empty folder that the agents take for the user's own.
        settings: more environment variables for the agents.

    Raises:
        LiveError: an agent failed; the message ends with what it wrote.
    """
    with receiving() as for_raw, receiving() as for_digests:
        started = [
            (
                receiver,
                _start(pair, python, home, {**settings, "LIVE_SIDE": side, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}),
            )
            for side, receiver in (("raw", for_raw), ("digests", for_digests))
            for endpoint in [receiver.endpoint]
        ]
        try:
            raw, digests = (_side(pair, receiver, process) for receiver, process in started)
        finally:
            for _, process in started:
                process.kill()
    return Pair(name=pair, raw=raw, digests=digests)


def _start(pair: str, python: Path, home: Path, settings: dict[str, str]) -> subprocess.Popen[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), **_SETTINGS, **settings}
    return subprocess.Popen(  # noqa: S603  # our own command line
        [str(python), str(agent(pair)), pair],
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _side(pair: str, receiver: Receiver, process: subprocess.Popen[str]) -> Side:
    said, complained = process.communicate(timeout=_TIMEOUT_S)
    if process.returncode:
        message = f"{pair}: the agent ended with {process.returncode}\n{complained[-3000:]}"
        raise LiveError(message)
    counts = [line.removeprefix("counts ") for line in said.splitlines() if line.startswith("counts ")]
    return Side(
        received={path: b"".join(bodies) for path, bodies in receiver.received.items()},
        counts=json.loads(counts[-1]) if counts else {},
    )


def _command(*arguments: str) -> None:
    """Run a command; what it wrote is the error's text."""
    # The wheels of other environments are linked into this one, not copied.
    environment = {**os.environ, "UV_LINK_MODE": "hardlink", "PYTHONPATH": ""}
    ended = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)  # noqa: S603  # ours
    if ended.returncode:
        message = f"{' '.join(arguments)} ended with {ended.returncode}\n{ended.stderr[-3000:]}"
        raise LiveError(message)
