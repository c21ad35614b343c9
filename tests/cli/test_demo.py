"""The demo shows what really happened: both sides out of the SDK, verdicts as `replay` gives them, always the same."""

from __future__ import annotations

import http.client
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from otel_loopguard import attributes as attr
from otel_loopguard.cli import main
from otel_loopguard.cli.demo import WIDTH_CHARS, lines
from otel_loopguard.cli.exit_codes import ExitCode
from otel_loopguard.cli.terminal import Painter
from otel_loopguard.content import KeyKind, kind_of_key
from otel_loopguard.demo.agent import SceneIds
from otel_loopguard.demo.scenes import MADE_UP, SCENES
from otel_loopguard.demo.scoring import SCENES_NS, demo_scorer, scored
from otel_loopguard.demo.watch import Demo, leaked, watch
from otel_loopguard.errors import ServeError
from otel_loopguard.model import Verdict
from tests.scorer.serving import PATIENCE_S

ROOT = Path(__file__).parents[2]
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_PAGE = re.compile(r"page: http://(127\.0\.0\.1:[0-9]+)/ \(Ctrl-C ends it\)")
_WITHOUT_THE_EXTRA = """\
import sys
sys.modules["aiohttp"] = None
from otel_loopguard.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def demo() -> Demo:
    """One showing, judged by a scorer."""
    with demo_scorer() as scorer:
        return scored(watch(), scorer)


@pytest.fixture(scope="module")
def text(demo: Demo) -> list[str]:
    """What it prints where the output is no terminal."""
    return list(lines(demo, Painter(colour=False), width=WIDTH_CHARS))


def test_each_scene_has_its_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """The stuck run and the circle are loops, the second refund is one write too many, poll and pager stay quiet."""
    assert ExitCode.DONE == main(["demo", "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [set(Verdict.__struct_encode_fields__)] * 5 == [set(row) for row in rows]
    assert {
        "stuck": ("loop", [("exact_repeat", 3)]),
        "poll": ("clean", []),
        "pager": ("clean", []),
        "refund": ("duplicate_write", [("duplicate_write", 3)]),
        "circle": ("loop", [("exact_repeat", 6), ("handoff_cycle", 6)]),
    } == {
        scene.name: (row["outcome"], [(found["kind"], found["at_call"]) for found in row["findings"]])
        for scene, row in zip(SCENES, rows, strict=True)
    }


def test_callback_and_verdict_agree(demo: Demo) -> None:
    """What the application was told while it ran is what the verdict says afterwards, from either side's spans."""
    for one in demo.watched:
        found = [(finding.kind, finding.at_call) for finding in one.report.verdict.findings]
        assert (one.scene.name, found) == (one.scene.name, [(event.kind, event.call) for event in one.told])
    assert [True] * 5 == [one.same_raw for one in demo.watched]


def test_verdicts_are_the_scorers_and_those_of_replay(demo: Demo) -> None:
    """A scorer that got the spans by OTLP says of each run what `Replay` says, field by field."""
    replayed = [one.report.verdict for one in watch().watched]
    assert (replayed, 5) == ([one.report.verdict for one in demo.watched], demo.same_replayed)


def test_the_scorer_is_another_judge_than_replay(demo: Demo) -> None:
    """What is shown is what the scorer says: where it got other spans, the output tells on how many both agree."""
    mixed = msgspec.structs.replace(demo.watched[0], raw=demo.watched[1].raw, left=demo.watched[1].left)
    with demo_scorer() as scorer:
        other = scored(msgspec.structs.replace(demo, watched=(mixed, demo.watched[2])), scorer)
    assert demo.watched[1].report.verdict == other.watched[0].report.verdict
    said = [line for line in lines(other, Painter(colour=False), width=WIDTH_CHARS) if line.startswith("judged by")]
    assert ["judged by a scorer that got them by OTLP; replay's verdict: the same in 1 of 2 runs"] == said


def test_no_verdict_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scorer that says nothing of a trace is not waited for without end."""
    monkeypatch.setattr("otel_loopguard.demo.scoring.PATIENCE_S", 0.0)
    with demo_scorer() as scorer, pytest.raises(ServeError, match=r"^the demo's scorer gave no verdict"):
        scorer.verdicts(["0" * 31 + "1"])


def test_scenes_are_over_when_they_are_served() -> None:
    """All scenes take less than is taken for them, so that no run of the page ends in the future."""
    ended = watch(start_ns=0).watched[-1].left[-1].end_time or 0
    assert 0 < ended < SCENES_NS


def test_nothing_made_up_leaves(demo: Demo) -> None:
    """Each made-up value stands in what an exporter would have got, and none in what it got."""
    assert MADE_UP == leaked(one.raw for one in demo.watched)
    assert () == leaked(one.left for one in demo.watched)
    assert () == demo.leaked


def test_both_sides_differ_in_content_alone(demo: Demo) -> None:
    """Span by span both sides have one name, ids and times; only content is gone, and only attributes of ours came."""
    for one in demo.watched:
        for raw, left in zip(one.raw, one.left, strict=True):
            assert (raw.name, raw.context, raw.start_time, raw.end_time) == (
                left.name,
                left.context,
                left.start_time,
                left.end_time,
            )
            before, after = dict(raw.attributes or {}), dict(left.attributes or {})
            gone = {key for key in before if key not in after}
            assert {key for key in before if kind_of_key(key) is KeyKind.CONTENT} == gone
            stayed = {key: value for key, value in before.items() if key not in gone}
            assert stayed == {key: after[key] for key in stayed}
            assert set() == {key for key in after.keys() - before.keys() if not key.startswith("loopguard.")}


def test_counters_are_those_of_the_showing(demo: Demo) -> None:
    """The processor counted each tool call once, read all of them, and failed nowhere."""
    calls = sum(len(one.scene.turns) for one in demo.watched)
    counts = demo.counts
    assert (calls, {}, {}, 0) == (counts.tool_calls, counts.unreadable, counts.failures, counts.late_spans)


def test_output_shows_what_left(demo: Demo, text: list[str]) -> None:
    """Every attribute of the spans that are shown stands in the output, with its value where that left."""
    for one in demo.watched:
        tools = [span for span in one.left if attr.TOOL_NAME in (span.attributes or {})]
        for number in one.scene.shown:
            for key, value in (tools[number - 1].attributes or {}).items():
                shown = "(random)" if key == attr.PRODUCER_ID else value
                shown = ",".join(map(str, shown)) if isinstance(shown, tuple) else shown
                assert any(f"{key.removeprefix('loopguard.')}={shown}" in line for line in text)


def test_the_same_each_time(text: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A second showing prints what the first did, to the letter, and nothing on standard error."""
    assert ExitCode.DONE == main(["demo"])
    assert ("\n".join(text) + "\n", "") == tuple(capsys.readouterr())


def test_settings_of_the_application_do_not_count(
    text: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the SDK's variables nor ours change what is shown."""
    for name, value in {
        "OTEL_TRACES_SAMPLER": "always_off",
        "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "5",
        "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "2",
        "OTEL_RESOURCE_ATTRIBUTES": "service.name=other",
        "OTEL_LOOPGUARD_KEY": "no key",
        "OTEL_LOOPGUARD_CONTENT": "keep",
        "OTEL_LOOPGUARD_MODE": "off",
    }.items():
        monkeypatch.setenv(name, value)
    assert ExitCode.DONE == main(["demo"])
    assert "\n".join(text) + "\n" == capsys.readouterr().out


def test_a_disabled_sdk_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With the SDK switched off there is nothing to show, which is one line and an exit code."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert ExitCode.USAGE == main(["demo"])
    said = "the demo needs the OpenTelemetry SDK, and OTEL_SDK_DISABLED=true switches it off: unset it"
    assert ("", f"otel-loopguard: error: {said}\n") == tuple(capsys.readouterr())


@pytest.mark.parametrize(("width", "most"), [(10, 60), (60, 60), (80, 80), (WIDTH_CHARS, WIDTH_CHARS)])
def test_lines_of_spans_fit_the_terminal(demo: Demo, width: int, most: int) -> None:
    """What was removed and what came instead is cut or wrapped to the width, and says how long it was."""
    found = [line for line in lines(demo, Painter(colour=False), width=width) if line.startswith("     ")]
    of_spans = [line for line in found if line.startswith(("     - ", "     + "))]
    assert of_spans
    assert [] == [line for line in of_spans if len(line) > most]
    assert any(line.endswith(" characters)") for line in of_spans)


def test_colours_only_where_wanted(text: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Colour is added to the same text, and only when it is asked for."""
    assert ExitCode.DONE == main(["demo", "--color", "always"])
    coloured = capsys.readouterr().out
    assert "\n".join(text) + "\n" == _ESCAPE.sub("", coloured) != coloured


def test_a_leak_would_be_said(demo: Demo) -> None:
    """The line about made-up values names those that left, so it cannot claim what is not so."""
    values = leaked([demo.watched[0].raw])
    said = list(lines(msgspec.structs.replace(demo, leaked=values), Painter(colour=False), width=WIDTH_CHARS))
    found = [line.partition("; found: ")[2] for line in said if "; found: " in line]
    assert ["Ann Example, ann@example.com, 12 Sample Street, A-1042"] == found


def test_other_commands_do_without_the_sdk() -> None:
    """Loading the command line loads no SDK, which takes longer than judging a small file."""
    code = "import sys, otel_loopguard.cli; print('opentelemetry.sdk' in sys.modules)"
    done = subprocess.run(  # noqa: S603 - our own command line
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "False\n" == done.stdout


def test_a_limit_that_the_sdk_refuses_is_said() -> None:
    """The SDK raises as it is imported: one line, and nothing of the value."""
    environ = {**os.environ, "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "-5"}
    done = subprocess.run(
        [sys.executable, "-m", "otel_loopguard", "demo"], env=environ, capture_output=True, text=True, check=False
    )
    said = "the OpenTelemetry SDK refuses one of its own variables (OTEL_*_LIMIT): correct or unset it"
    assert ("", f"otel-loopguard: error: {said}\n") == (done.stdout, done.stderr)


# --- the page ---------------------------------------------------------------------------------------------


def _environment(folder: Path) -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_page_is_served_until_it_is_ended(tmp_path: Path, text: list[str], number: signal.Signals) -> None:
    """`--serve` prints the same, then the address of a page with all runs; ended, it leaves nothing behind."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "otel_loopguard", "demo", "--serve"],
        env=_environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heeding,  # noqa: PLW1509 - no thread of ours is in the way
    )
    try:
        assert process.stdout is not None
        printed: list[str] = []
        found = None
        while found is None:
            line = process.stdout.readline()
            assert line, printed
            printed.append(line.rstrip("\n"))
            found = _PAGE.fullmatch(printed[-1])
        runs = _get(found[1], "/runs.json")
        kept = [path.name for path in tmp_path.iterdir()]
        process.send_signal(number)
        rest, complaints = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert [*text, "", found[0]] == printed
    assert ["otel-loopguard-demo-"] == [name[:20] for name in kept]
    assert [] == [scene.name for scene in SCENES if _trace_of(scene.name) not in runs]
    assert (ExitCode.DONE, "", "", []) == (process.returncode, rest, complaints, list(tmp_path.iterdir()))


def _get(address: str, path: str) -> str:
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def _heeding() -> None:
    """Ctrl-C is heeded even where whoever started the tests had it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _trace_of(scene: str) -> str:
    return f"{SceneIds(scene).generate_trace_id():032x}"


@pytest.mark.parametrize(
    ("options", "stdin_too", "serves"),
    [([], True, True), ([], False, False), (["--no-serve"], True, False), (["--json"], True, False)],
)
def test_a_terminal_gets_the_page(tmp_path: Path, options: list[str], stdin_too: bool, serves: bool) -> None:  # noqa: FBT001
    """Where somebody sits there to end it, the page is served without being asked for; else it ends by itself."""
    master, terminal = pty.openpty()
    process = subprocess.Popen(  # noqa: S603 - our own command line
        [sys.executable, "-m", "otel_loopguard", "demo", *options],
        env=_environment(tmp_path),
        stdin=terminal if stdin_too else subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
        preexec_fn=_heeding,  # noqa: PLW1509 - no thread of ours is in the way
    )
    os.close(terminal)
    shown = b""
    try:
        while chunk := _read(master):
            shown += chunk
            if b"Ctrl-C ends it" in shown:
                process.send_signal(signal.SIGINT)
        code = process.wait(PATIENCE_S)
    finally:
        process.kill()
        os.close(master)
    assert (ExitCode.DONE, serves) == (code, b"Ctrl-C ends it" in shown)


def _read(master: int) -> bytes:
    """What comes next; nothing where the other side of the terminal was closed."""
    try:
        return os.read(master, 65_536)
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], ExitCode.DONE, "judged by replay; to have a scorer judge them and serve a page of them: {}\n"),
        (["--serve"], ExitCode.USAGE, "otel-loopguard: error: the page is the scorer's, which is not installed: {}\n"),
    ],
)
def test_without_the_extra(text: list[str], options: list[str], code: ExitCode, said: str) -> None:
    """Everything but the page is there without the extra, and one line says what to install."""
    done = subprocess.run(  # noqa: S603 - our own command line
        [sys.executable, "-W", "error", "-c", _WITHOUT_THE_EXTRA, "demo", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    line = said.format('pip install "otel-loopguard[scorer]"')
    assert (code, True) == (done.returncode, line in (done.stderr if options else done.stdout))
    if not options:
        rest = [one for one in text if not one.startswith("judged by ")]
        assert rest == [one for one in done.stdout.splitlines() if not one.startswith("judged by ")]
