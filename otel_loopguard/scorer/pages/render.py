"""Turns the records of the pages into HTML, and holds the files that a page needs beside it.

Invariants: all text is escaped by the template engine, and characters that could change how a line reads are shown as
`?`; no template marks anything as safe. Files are read once, from the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from importlib import resources
from typing import Any, Final

import jinja2

from otel_loopguard import words
from otel_loopguard.model import RunOutcome, Severity, Value
from otel_loopguard.scorer.pages.addresses import SINCE, list_path
from otel_loopguard.scorer.pages.strip import strip
from otel_loopguard.scorer.pages.timeline import FindingView, RunPage

MAX_NAME_CHARS: Final = 160
LIT_FINDINGS: Final = 32
"""Findings whose calls the style sheet lights up; it has a rule for each."""
SHOWN_FINDINGS: Final = 6
"""Findings that are shown at once; the others can be unfolded."""
NOTHING: Final = "\u2013"
"""Where there is nothing to show."""
PATH: Final = "/pages/"
"""Where the files beside the pages are served."""
TYPES: Final = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
TONES: Final = {
    RunOutcome.LOOP: "bad",
    RunOutcome.DUPLICATE_WRITE: "bad",
    RunOutcome.INDETERMINATE_WRITE: "bad",
    RunOutcome.BUDGET_EXCEEDED: "doubt",
    RunOutcome.OUTAGE: "doubt",
    RunOutcome.SUSPECT: "doubt",
    RunOutcome.UNSCORABLE: "grey",
    RunOutcome.INCOMPLETE: "grey",
    RunOutcome.CLEAN: "good",
}
SEVERITY_TONES: Final = {
    Severity.LOOP: "bad",
    Severity.DUPLICATE_WRITE: "bad",
    Severity.INDETERMINATE_WRITE: "bad",
    Severity.BUDGET: "doubt",
    Severity.OUTAGE: "doubt",
    Severity.SUSPECT: "doubt",
    Severity.REPORT: "grey",
}
_NS_PER_S: Final = 1_000_000_000
_LATEST_NS: Final = 253_402_300_799 * _NS_PER_S
"""The end of the year 9999: later times are not shown as dates."""
_MS_PER_S: Final = 1000
_S_PER_MIN: Final = 60
_MIN_PER_H: Final = 60
_KIB: Final = 1024


class Renderer:
    """Makes HTML of pages.

    Thread safety: may be shared.
    """

    def __init__(self) -> None:
        folder = resources.files("otel_loopguard.scorer.pages")
        self.files: Mapping[str, bytes] = {name: (folder / "static" / name).read_bytes() for name in TYPES}
        templates = {
            entry.name: entry.read_text(encoding="utf-8")
            for entry in (folder / "templates").iterdir()
            if entry.name.endswith(".html")
        }
        everything = [*self.files.values(), *(text.encode() for _, text in sorted(templates.items()))]
        self.version = blake2b(b"\0".join(everything), digest_size=6).hexdigest()
        """Of all files: pages that a browser keeps are good for as long as it is the same."""
        self._templates = jinja2.Environment(
            loader=jinja2.DictLoader(templates),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(
            name=name,
            when=when,
            clock=clock,
            iso=iso,
            took=took,
            counted=words.counted,
            size=size,
            number=number,
            share=share,
        )
        self._templates.globals.update(
            files={name: f"{PATH}{name}?v={self.version}" for name in TYPES},
            tones=TONES,
            severity_tones=SEVERITY_TONES,
            outcomes=words.OUTCOMES,
            endings=words.ENDINGS,
            all_outcomes=tuple(RunOutcome),
            since=SINCE,
            list_path=list_path,
            lit=LIT_FINDINGS,
            show_findings=SHOWN_FINDINGS,
            nothing=NOTHING,
            named=_named,
        )

    def html(self, template: str, page: Any, *, status: str = "") -> str:
        """Makes the HTML of one page.

        Args:
            template: its name, without the ending.
            page: the page's record.
            status: a line above it.
        """
        extra: dict[str, Value] = {"strip": strip(page)} if isinstance(page, RunPage) else {}
        return self._templates.get_template(f"{template}.html").render(page=page, status=status, here=template, **extra)


def name(text: str | None) -> str:
    """Shows a name from outside: on one line, without control or formatting characters, not longer than others."""
    return NOTHING if text is None else words.safe(text, limit=MAX_NAME_CHARS)


def _moment(time_ns: int) -> datetime | None:
    return datetime.fromtimestamp(time_ns // _NS_PER_S, tz=UTC) if 0 <= time_ns <= _LATEST_NS else None


def when(time_ns: int | None) -> str:
    """Shows a Unix time as date and time, UTC."""
    moment = None if time_ns is None else _moment(time_ns)
    return NOTHING if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S")


def clock(time_ns: int | None) -> str:
    """Shows the time of the day only."""
    return when(time_ns).rpartition(" ")[2]


def iso(time_ns: int | None) -> str:
    """Writes a Unix time for machines."""
    moment = None if time_ns is None else _moment(time_ns)
    return "" if moment is None else moment.isoformat()


def took(milliseconds: float | None) -> str:
    """Shows a length of time with its unit, to about three digits."""
    if milliseconds is None:
        return NOTHING
    if milliseconds < _MS_PER_S:
        return f"{milliseconds:.3g} ms" if milliseconds < 1 else f"{milliseconds:.0f} ms"
    seconds = milliseconds / _MS_PER_S
    if seconds < _S_PER_MIN:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), _S_PER_MIN)
    if minutes < _MIN_PER_H:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, _MIN_PER_H)
    return f"{hours} h {minutes} min"


def number(amount: int) -> str:
    """Shows a number, by thousands."""
    return f"{amount:,}"


def _named(findings: Sequence[FindingView]) -> Mapping[int, FindingView]:
    return {finding.number: finding for finding in findings}


def size(amount_bytes: int | None) -> str:
    """Shows a number of bytes."""
    if amount_bytes is None:
        return NOTHING
    amount = float(amount_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < _KIB:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= _KIB
    return f"{amount:.1f} TiB"


def share(part: float, whole: float) -> str:
    """Shows a share in per cent."""
    return f"{100 * part / whole:.0f}%" if whole else NOTHING
