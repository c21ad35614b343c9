"""Looks at what is installed: OpenTelemetry, agent frameworks and their instrumentations, the zero-code command.

Invariants: only the packages' metadata is read; nothing is imported, so nothing runs.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from otel_loopguard.cli import checkup
from otel_loopguard.cli.checkup import Check, Diagnosis
from otel_loopguard.processor.remedies import CARRIERS, FRAMEWORKS, SOURCES, Source
from otel_loopguard.processor.settings import ENABLED, MODE, SDK_DISABLED, Mode, Settings
from otel_loopguard.words import safe

Installed: TypeAlias = Mapping[str, str]
"""Distribution, in lower case with dashes, to version."""

OLDEST: Final = (1, 40)
"""The first SDK that calls processors before a span's exporters get it."""
NEWEST_TESTED: Final = (1, 45)
INSTRUMENT: Final = "opentelemetry-instrument"
ENTRY_POINTS: Final = "opentelemetry_pre_instrument"
_OURS: Final = "otel_loopguard."
_API, _SDK = "opentelemetry-api", "opentelemetry-sdk"
_UPGRADE: Final = f'pip install --upgrade "{_API}>={OLDEST[0]}.{OLDEST[1]}" "{_SDK}>={OLDEST[0]}.{OLDEST[1]}"'
_MAX_VERSION_CHARS: Final = 40


def installed() -> dict[str, str]:
    """Returns every distribution of this environment; those whose metadata is broken are left out."""
    found: dict[str, str] = {}
    for one in metadata.distributions():
        try:
            name, version = one.metadata["Name"], one.version
        except (OSError, ValueError, KeyError, AttributeError):  # a folder that an uninstallation left half behind
            continue
        if name and version:
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), safe(version, limit=_MAX_VERSION_CHARS))
    return found


def versions(packages: Installed) -> Iterator[Diagnosis]:
    """Says which OpenTelemetry is installed, and whether the processor is made for it."""
    missing = [name for name in (_API, _SDK) if name not in packages]
    if missing:
        yield checkup.problem(Check.VERSIONS, f"{' and '.join(missing)} not installed", _UPGRADE)
        return
    shown = f"{_SDK} {packages[_SDK]}, {_API} {packages[_API]}"
    release = _release(packages[_SDK])
    if release is None or _release(packages[_API]) is None:
        yield checkup.note(Check.VERSIONS, f"{shown}: no release whose number can be read")
    elif release < OLDEST:
        yield checkup.problem(
            Check.VERSIONS,
            f"{shown}: the processor needs SDK {_text(OLDEST)} or newer, which calls it before exporters get a span",
            _UPGRADE,
        )
    elif packages[_SDK] != packages[_API]:
        yield checkup.problem(Check.VERSIONS, f"{shown}: the two belong together in one version", _UPGRADE)
    elif release > NEWEST_TESTED:
        yield checkup.note(
            Check.VERSIONS,
            f"{shown}: newer than {_text(NEWEST_TESTED)}, the newest that was tested; `{Check.REMOVAL}` below tells "
            "whether it works",
        )
    else:
        yield checkup.ok(Check.VERSIONS, shown)


def switched_off(settings: Settings) -> Iterator[Diagnosis]:
    """Says where a switch of the environment turns everything off."""
    if settings.sdk_disabled:
        yield checkup.problem(
            Check.SETTINGS, f"{SDK_DISABLED}=true: the SDK makes no spans, so there is nothing to see", "unset it"
        )


class Here(NamedTuple):
    """Where it is asked what is recorded."""

    packages: Installed
    environ: Mapping[str, str]
    modules: Mapping[str, object] = {}
    """Modules that the application's set-up code has imported."""

    def recorded(self, one: Source) -> bool:
        """Tells whether tool calls can be compared by what a source records."""
        return one.recording(self.environ, self.modules)


def recording(here: Here) -> Iterator[Diagnosis]:
    """Says of each framework that is installed what records its tool calls."""
    packages = here.packages
    present = {name: [one for one in names if one in packages] for name, names in FRAMEWORKS.items()}
    frameworks = {name: names for name, names in present.items() if names}
    for name, names in frameworks.items():
        shown = f"{names[0]} {packages[names[0]]}"
        sources = [one for one in SOURCES if one.framework == name and one.distribution in packages]
        sources = [one for one in sources if one.is_active(here.environ)]
        if name in CARRIERS and not any(map(here.recorded, sources)):
            yield checkup.note(
                Check.RECORDING,
                f"{shown}: its own spans never hold arguments or results",
                "nothing, where an agent's framework is instrumented whose tool spans hold them; else "
                + (_advice(sources, here) or _to_install(name)),
            )
        elif not sources:
            yield checkup.problem(
                Check.RECORDING, f"{shown}: nothing is installed that makes spans of its tool calls", _to_install(name)
            )
        else:
            yield from _of_sources(shown, sources, here)
    if not frameworks:
        yield checkup.note(
            Check.RECORDING,
            "no agent framework that is known is installed here",
            f"run this in the application's own environment; known are {', '.join(FRAMEWORKS)}",
        )


def _of_sources(shown: str, sources: Sequence[Source], here: Here) -> Iterator[Diagnosis]:
    enough = any(map(here.recorded, sources))
    for one in sources:
        what = f"{shown}, {_spans_of(one, here.packages)}"
        if here.recorded(one):
            off = f", unless the code says otherwise ({one.in_code})" if one.in_code else ""
            yield checkup.ok(Check.RECORDING, f"{what}: arguments and results are recorded{off}")
        elif enough:
            yield checkup.note(
                Check.RECORDING, f"{what}: {_lacks(one)}; another one that is installed records them", ""
            )
        else:
            yield checkup.problem(Check.RECORDING, f"{what}: {_lacks(one)}", one.remedy(here.environ, here.modules))


def _spans_of(one: Source, packages: Installed) -> str:
    own = one.distribution in {name for names in FRAMEWORKS.values() for name in names}
    return "its own spans" if own else f"{one.distribution} {packages[one.distribution]}"


def _lacks(one: Source) -> str:
    return one.records.value if not one.switches else "arguments and results are switched off here"


def _advice(sources: Sequence[Source], here: Here) -> str:
    return "; ".join(dict.fromkeys(text for one in sources if (text := one.remedy(here.environ, here.modules))))


def _to_install(framework: str) -> str:
    names = [
        one.distribution
        for one in SOURCES
        if one.framework == framework
        and one.scopes
        and not one.active
        and one.distribution not in FRAMEWORKS[framework]
    ]
    return f"install one of {', '.join(names)}, and instrument with it" if names else "see docs/dialects.md"


def zero_code(settings: Settings, environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Says whether the processors would be put in place without code."""
    command = instrument_command(environ)
    entry = [one for one in metadata.entry_points(group=ENTRY_POINTS) if one.value.startswith(_OURS)]
    missing = [] if command else [f"the command {INSTRUMENT} is not installed"]
    missing += [] if entry else ["this package's entry point is missing"]
    remedy = "; ".join(
        [
            *([] if command else ["pip install opentelemetry-distro"]),
            *([] if entry else ["install otel-loopguard itself into this environment, with pip"]),
        ]
    )
    if not settings.enabled:
        state = "; ".join(missing) or f"{INSTRUMENT} and the entry point are there"
        yield checkup.note(Check.ZERO_CODE, f"not switched on ({ENABLED} is not true): {state}")
    elif settings.mode is Mode.OFF:
        yield checkup.problem(
            Check.ZERO_CODE, f"{MODE}={Mode.OFF}: no digest is made and no content is removed", f"unset {MODE}"
        )
    elif missing:
        yield checkup.problem(Check.ZERO_CODE, f"{ENABLED}=true, but {' and '.join(missing)}", remedy)
    else:
        yield checkup.ok(Check.ZERO_CODE, f"{ENABLED}=true; start the application with `{INSTRUMENT} python …`")


def instrument_command(environ: Mapping[str, str]) -> str | None:
    """Returns where `opentelemetry-instrument` of this environment is; None where there is none."""
    beside = str(Path(sys.executable).parent)
    return shutil.which(INSTRUMENT, path=os.pathsep.join([beside, environ.get("PATH", os.defpath)]))


def _release(version: str) -> tuple[int, int] | None:
    found = re.match(r"(\d{1,6})\.(\d{1,6})(?![\d])", version, re.ASCII)
    return None if found is None else (int(found[1]), int(found[2]))


def _text(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"
