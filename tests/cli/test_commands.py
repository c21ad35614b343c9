"""The commands from end to end: exit codes, streams, and that no content is ever put out."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from otel_loopguard.cli import main
from otel_loopguard.cli.exit_codes import MEANING, ExitCode
from otel_loopguard.cli.reference import document
from otel_loopguard.model import Verdict

_ROOT = Path(__file__).parents[2]
_EXAMPLES = _ROOT / "otel_loopguard" / "examples"
_READERS = ("replay", "audit")
"""The commands that read files."""


def _record(sequence: int, **changes: Any) -> dict[str, Any]:
    return {
        "run_id": "run-1",
        "sequence": sequence,
        "turn": sequence,
        "call_id": f"c{sequence}",
        "tool": "lookup_order",
        "arguments": {"order_id": "A12"},
        "result": {"status": "late"},
        **changes,
    }


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    """A file of call records: one run that repeats itself five times, and one that does not."""
    records = [_record(number) for number in range(1, 6)]
    records += [_record(number, run_id="run-2", arguments={"order_id": number}) for number in range(1, 6)]
    path = tmp_path / "calls.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_replay_for_people(stuck: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text output has the loop with its reason, the clean run in one line, and the summary; the exit code is 0."""
    assert ExitCode.DONE == main(["replay", str(stuck)])
    out, err = capsys.readouterr()
    assert "lookup_order was called 5 times in a row with equal arguments and an equal result; allowed were 2;" in out
    assert "2 runs with 10 calls: 1 loop, 1 clean" == out.splitlines()[-1]
    assert not err


def test_replay_as_json(stuck: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON output is one verdict a line with every field of the record, and nothing else."""
    assert ExitCode.DONE == main(["replay", "--json", str(stuck)])
    verdicts = {row["run_id"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert {"run-1", "run-2"} == set(verdicts)
    assert [set(Verdict.__struct_encode_fields__)] * 2 == [set(row) for row in verdicts.values()]
    assert ("loop", 3) == (verdicts["run-1"]["outcome"], verdicts["run-1"]["first_loop_call"])
    assert ("clean", None) == (verdicts["run-2"]["outcome"], verdicts["run-2"]["first_loop_call"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--only", "clean"], ["run-2"]),
        (["--only", "suspect,loop"], ["run-1"]),
        (["--only", "suspect"], []),
        (["--run", "run-2"], ["run-2"]),
        (["--run", "run-1", "--run", "run-2"], ["run-1", "run-2"]),
        (["--run", "run-1", "--only", "clean"], []),
    ],
)
def test_filters(stuck: Path, capsys: pytest.CaptureFixture[str], options: list[str], expected: list[str]) -> None:
    """Filters choose what is printed, not what is judged: the exit code stays."""
    assert ExitCode.DONE == main(["replay", "--json", *options, str(stuck)])
    assert expected == [json.loads(line)["run_id"] for line in capsys.readouterr().out.splitlines()]


def test_tables_options(stuck: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--calls` shows every table and `--no-calls` none."""
    counts = []
    for options in (["--no-calls"], [], ["--calls"]):
        main(["replay", *options, str(stuck)])
        counts.append(capsys.readouterr().out.count("turn  call  tool"))
    assert [0, 1, 2] == counts


def test_standard_input(stuck: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads standard input, packed or not, and gives what the file gives."""
    main(["replay", "--json", str(stuck)])
    outcomes = [json.loads(line)["outcome"] for line in capsys.readouterr().out.splitlines()]
    for data in (stuck.read_bytes(), gzip.compress(stuck.read_bytes())):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert ExitCode.DONE == main(["replay", "--json", "-"])
        assert outcomes == [json.loads(line)["outcome"] for line in capsys.readouterr().out.splitlines()]


def test_closed_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A standard input that the parent process closed is a source that cannot be read."""
    monkeypatch.setattr("sys.stdin", None)
    assert ExitCode.NOTHING_READ == main(["replay", "-"])
    assert "standard input: cannot be opened: it is closed\n" == capsys.readouterr().err


def test_many_files_are_one_input(stuck: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run spread over two files is one run."""
    lines = stuck.read_text().splitlines(keepends=True)
    halves = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    halves[0].write_text("".join(lines[:2]))
    halves[1].write_text("".join(lines[2:]))
    main(["replay", "--json", "--run", "run-1", *map(str, halves)])
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert ("loop", 5) == (row["outcome"], row["calls"])


def test_examples_hold_loops_and_clean_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The packaged captures give one run each, loops among them and clean ones, and one without any tool spans."""
    assert ExitCode.DONE == main(["replay", "--json", "--examples"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(list(_EXAMPLES.glob("*.jsonl"))) == len(rows)
    assert {"loop", "clean", "unscorable"} == {row["outcome"] for row in rows}
    assert ["no_tool_spans"] in [row["flags"] for row in rows]


def test_policy_is_used(stuck: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A policy that allows more repeats makes the same calls clean."""
    policy = tmp_path / "policy.json"
    policy.write_text(
        json.dumps(
            {"version": 1, "policy": "p", "policy_version": "1", "tools": {"lookup_order": {"allowed_repeats": 9}}}
        )
    )
    assert ExitCode.DONE == main(["replay", "--json", "--policy", str(policy), str(stuck)])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [("clean", "p@1")] * 2 == [(row["outcome"], row["policy"]) for row in rows]


@pytest.mark.parametrize("command", _READERS)
def test_bad_lines_are_told_and_the_rest_is_read(stuck: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Bad lines are told on standard error by place and reason, the rest is judged, and the exit code says so."""
    main([command, "--json", str(stuck)])
    good = len(capsys.readouterr().out.splitlines())
    stuck.write_text(stuck.read_text() + "garbage\n" + json.dumps({"run_id": "x"}) + "\n")
    assert ExitCode.PARTLY_READ == main([command, "--json", str(stuck)])
    out, err = capsys.readouterr()
    assert good == len(out.splitlines())
    assert [
        f"{stuck}:11: not valid JSON",
        f"{stuck}:12: a call record without the field `sequence`",
    ] == err.splitlines()


@pytest.mark.parametrize("command", _READERS)
def test_nothing_readable(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Where nothing could be read, every file says why, and the exit code is its own."""
    bad = tmp_path / "bad"
    bad.write_text("garbage\n")
    assert ExitCode.NOTHING_READ == main([command, str(bad), str(tmp_path / "none"), str(tmp_path), "a\0b"])
    assert [
        f"{bad}:1: not valid JSON",
        f"{tmp_path / 'none'}: cannot be opened: No such file or directory",
        f"{tmp_path}: cannot be opened: Is a directory",
        "a?b: cannot be opened: ValueError",
    ] == capsys.readouterr().err.splitlines()


def test_empty_input_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty file was read; there was nothing in it."""
    empty = tmp_path / "empty"
    empty.touch()
    assert ExitCode.DONE == main(["replay", str(empty)])
    assert "read 0 spans\n0 runs with 0 calls\n" == capsys.readouterr().out


def test_many_problems_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of garbage does not fill the screen: twenty problems are told, the rest counted."""
    bad = tmp_path / "bad"
    bad.write_text("garbage\n" * 1000)
    main(["replay", str(bad)])
    lines = capsys.readouterr().err.splitlines()
    assert (21, "and 980 more problems of this kind") == (len(lines), lines[-1])


def test_logs_are_passed_over_in_peace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Logs in the input are counted on standard error and are no failure."""
    logs = tmp_path / "logs"
    logs.write_text('{"resourceLogs":[{}]}\n' * 2)
    assert ExitCode.DONE == main(["replay", str(logs)])
    assert "passed over 2 pieces of input: logs, which are not read\n" == capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "required"),
        (["repaly", "x"], "no command 'repaly'; did you mean 'replay'?"),
        (["\x1b[2J"], "no command '?[2J'"),
        (["replay"], "needs a FILE, - for standard input, or --examples"),
        (["audit"], "needs a FILE, - for standard input, or --examples"),
        (["replay", "--only", "lop", "x"], "no outcome 'lop'; did you mean 'loop'?"),
        (["replay", "--format", "xml", "x"], "invalid choice"),
        (["replay", "--calls", "--no-calls", "x"], "not allowed with"),
        (["replay", "--jsn", "x"], "unrecognized arguments: --jsn"),
        (["replay", "--policy", "no-such-file", "x"], "no-such-file"),
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str) -> None:
    """What the user got wrong is said on one safe line of standard error, and nothing goes to standard output."""
    assert ExitCode.USAGE == main(arguments)
    out, err = capsys.readouterr()
    assert not out
    assert expected in err
    assert err.startswith("otel-loopguard")
    assert all(line.isprintable() for line in err.splitlines())


def test_bad_key_is_a_usage_error(
    stuck: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that cannot be used is said, and not shown."""
    monkeypatch.setenv("OTEL_LOOPGUARD_KEY", "hunter2")
    assert ExitCode.USAGE == main(["replay", str(stuck)])
    err = capsys.readouterr().err
    assert "OTEL_LOOPGUARD_KEY" in err
    assert "hunter2" not in err


def test_key_from_the_environment_makes_digests_comparable(
    stuck: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a configured key two commands give the same digests; without one they differ."""

    def digests() -> set[str]:
        main(["audit", "--json", str(stuck)])
        return {json.loads(line)["call_digest"] for line in capsys.readouterr().out.splitlines()}

    assert not digests() & digests()
    monkeypatch.setenv("OTEL_LOOPGUARD_KEY", "0123456789abcdef" * 2 + "fedcba9876543210" * 2)
    assert digests() == digests()


@pytest.mark.parametrize("arguments", [["--help"], ["replay", "--help"], ["audit", "--help"], ["--version"]])
def test_help_is_no_error(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """Help and version go to standard output, with exit code 0."""
    assert ExitCode.DONE == main(arguments)
    assert "otel-loopguard" in capsys.readouterr().out


def test_audit_shows_equal_digests_beside_different_call_ids(stuck: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A real loop shows as different call ids beside one digest; a batch as different digests."""
    assert ExitCode.DONE == main(["audit", "--json", str(stuck)])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    loop = [row for row in rows if row["run_id"] == "run-1"]
    assert ["c1", "c2", "c3", "c4", "c5"] == [row["call_id"] for row in loop]
    assert [1, 2, 3, 4, 5] == [row["sequence"] for row in loop]
    assert 1 == len({row["call_digest"] for row in loop})
    assert 5 == len({row["call_digest"] for row in rows if row["run_id"] == "run-2"})
    assert [{}] * 10 == [row["missing"] for row in rows]


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"result_missing": True}, "MISSING: result (not captured)"),
        ({"arguments": "[REDACTED]", "call_id": None}, "MISSING: call_id (not captured), arguments (redacted)"),
    ],
)
def test_audit_is_loud_about_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], missing: str
) -> None:
    """A call that lacks something names it in its line, the summary counts it, and the exit code is not 0."""
    path = tmp_path / "calls.jsonl"
    path.write_text(json.dumps(_record(1, **change)) + "\n" + json.dumps(_record(2)) + "\n")
    code = main(["audit", str(path)])
    lines = capsys.readouterr().out.splitlines()
    assert ExitCode.PARTLY_READ == code
    assert missing in lines[0]
    assert "MISSING" not in lines[1]
    assert "1 run, 2 calls, 1 with something missing" == lines[2]


def test_a_missing_call_id_is_named_but_is_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half of the instrumentations give none, and calls are judged without."""
    path = tmp_path / "calls.jsonl"
    path.write_text(json.dumps(_record(1, call_id=None)) + "\n")
    assert ExitCode.DONE == main(["audit", str(path)])
    lines = capsys.readouterr().out.splitlines()
    assert "MISSING: call_id (not captured)" in lines[0]
    assert ["1 run, 1 call, 0 with something missing", "MISSING call_id in 1 call"] == lines[1:]


def test_a_filter_that_matches_nothing_says_so(stuck: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty answer must not look like a clean one."""
    for form in (["--json"], []):
        assert ExitCode.DONE == main(["replay", *form, "--run", "no-such", str(stuck)])
        assert "no run is what --run and --only ask for\n" == capsys.readouterr().err


def test_audit_line_holds_sixteen_characters_of_each_digest(stuck: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The text form is run, sequence, turn, call id, tool and two digests of 16 characters."""
    main(["audit", str(stuck)])
    fields = capsys.readouterr().out.splitlines()[0].split("  ")
    assert ["run-1", "000001", "turn 1", "c1", "lookup_order"] == fields[:5]
    assert [16, 16] == [len(digest) for digest in fields[5:]]
    assert set("".join(fields[5:])) <= set("0123456789abcdef")


_CANARY = "CANARY-7f3a"


def _canary_file(folder: Path) -> Path:
    """Every place of spans and records that may hold content holds the canary; some lines are damaged around it."""
    spoken = f"say {_CANARY} loudly"
    records = [
        _record(1, arguments={"q": spoken}, result=spoken),
        _record(2, arguments=spoken, result=None, error=spoken),
        _record(3, tool=spoken, arguments={spoken: spoken}, agent=spoken, effect=spoken),
        _record(4, session=spoken, task=spoken, tenant=spoken, user_turn=spoken, attempt=spoken, turn=spoken),
        {**_record(5), "sequence": spoken},
        _record(6, call_id=spoken, key_id=spoken),
    ]
    value = {"stringValue": spoken}
    keys = ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "input.value", "output.value", "exception.message")
    span = {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": "b7ad6b7169203331",
        "name": f"execute_tool {spoken}",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
            {"key": "gen_ai.tool.name", "value": value},
            *({"key": key, "value": value} for key in keys),
        ],
        "status": {"code": 2, "message": spoken},
        "events": [{"name": spoken, "attributes": [{"key": spoken, "value": value}]}],
    }
    bad_span = {**span, "traceId": spoken}
    request = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": spoken}, "spans": [span, bad_span]}]}]}
    lines = [*map(json.dumps, records), json.dumps(request), f'{{"{spoken}": 1}}', f'{{"a": {spoken}', f'"{spoken}"']
    path = folder / "canary.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize("command", _READERS)
def test_no_content_is_put_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, options: list[str]
) -> None:
    """No argument, result, error text, or name that is no name reaches any output, also not through errors."""
    more = ["--calls"] if command == "replay" and not options else []
    assert ExitCode.PARTLY_READ == main([command, *options, *more, str(_canary_file(tmp_path))])
    out, err = capsys.readouterr()
    assert out
    assert err
    assert _CANARY not in out + err


def _process(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "otel_loopguard", *arguments]
    environ = {**os.environ, "PYTHONPATH": str(_ROOT), "COVERAGE_PROCESS_START": ""}
    return subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ, **options
    )


def test_reader_that_goes_away_is_no_noise(tmp_path: Path) -> None:
    """When the reader of the output is gone, as with `head`, the command ends quietly."""
    path = tmp_path / "calls.jsonl"
    path.write_text("".join(json.dumps(_record(1, run_id=f"run-{number}")) + "\n" for number in range(3000)))
    process = _process("replay", "--json", str(path))
    assert process.stdout
    assert process.stderr
    process.stdout.readline()
    process.stdout.close()
    with process.stderr:
        assert (b"", ExitCode.DONE) == (process.stderr.read(), process.wait())


def test_narrow_encodings_do_not_fail(tmp_path: Path) -> None:
    """A stream that cannot encode a name gets it escaped."""
    path = tmp_path / "sch\u00f6n.jsonl"
    path.write_text("garbage\n")
    environ = {**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "otel_loopguard", "replay", str(path)], capture_output=True, check=False, env=environ
    )
    assert ExitCode.NOTHING_READ == done.returncode
    assert b":1: not valid JSON" in done.stderr


def test_interrupt(stuck: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt from the keyboard is an exit code, not a traceback."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("otel_loopguard.cli.inputs.read_all", interrupted)
    assert ExitCode.INTERRUPTED == main(["replay", str(stuck)])


def test_every_exit_code_has_its_meaning() -> None:
    """The table of exit codes is complete."""
    assert set(ExitCode) == set(MEANING)


def test_reference_is_in_step_with_the_code() -> None:
    """docs/cli.md is what `python -m otel_loopguard.cli.reference` prints."""
    assert (_ROOT / "docs" / "cli.md").read_text() == "\n".join(document()) + "\n"
