"""`otel-loopguard lint` from end to end: text, JSON, exit codes, and several files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otel_loopguard.cli import main
from otel_loopguard.cli.exit_codes import ExitCode
from tests.lint.linting import TOOL

POLICY = {
    "version": 1,
    "policy": "shop",
    "policy_version": 1,
    "tools": {
        "get_export": {"progress": [{"path": "fetched_at", "rule": "changes"}]},
        "search": {"polling": {"state": "sttus"}},
        "refund": {"effect": "write"},
        "send_mail": {"effect": "write"},
    },
}


def _write(path: Path, tool: str, results: list[Any], run_id: str = "run-1") -> Path:
    records = [
        {"run_id": run_id, "sequence": n, "turn": n, "tool": tool, "arguments": {"id": "A12"}, "result": result}
        for n, result in enumerate(results, start=1)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A policy and files that show each lint."""
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    clock = [{"state": "busy", "fetched_at": f"canary{n}"} for n in range(9)]
    made = [
        _write(tmp_path / "a.jsonl", "get_export", clock, "run-a"),
        _write(tmp_path / "b.jsonl", "get_export", clock, "run-b"),
        _write(tmp_path / "c.jsonl", "search", [{"status": f"s{n // 2}"} for n in range(10)], "run-c"),
        _write(
            tmp_path / "d.jsonl",
            TOOL,
            [{"at": f"canary{n}", "canary k": f"canary{n}", "x": 1} for n in range(11)],
            "run-d",
        ),
    ]
    return ["--no-progress", "--policy", str(tmp_path / "policy.json"), *map(str, made)]


def test_lint_for_people(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A paragraph each, those of tools that were not called in one, and what was looked at; the exit code is 0."""
    assert ExitCode.DONE == main(["lint", *files])
    out, err = capsys.readouterr()
    paragraphs = out.split("\n\n")
    assert list(_STARTS) == [text[: len(start)] for text, start in zip(paragraphs, _STARTS, strict=True)]
    assert "change `progress` to a field" in paragraphs[0]
    assert "Compare the path of `polling.state` with a result" in paragraphs[1]
    assert "canary" not in out
    assert not err


_STARTS = (
    "signal_always_moves  get_export: the rule `fetched_at changes` said that it advanced at each of 16 equal calls ",
    "signal_never_found  search: `sttus changes` had no value that it can use in any of 10 results",
    "same_field_differs  lookup_order: 10 equal calls with nothing done between them never gave an equal result; 10 ",
    "unused_tool  refund, send_mail: declared, and not called in these runs",
    "policy shop@1, 4 runs with 39 calls: 5 lints",
)


def test_lint_as_json(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """One object a lint and line, with its counts; nothing else."""
    assert ExitCode.DONE == main(["lint", "--json", *files])
    out = capsys.readouterr().out
    rows = [json.loads(line) for line in out.splitlines()]
    assert ["get_export", "search", TOOL, "refund", "send_mail"] == [row["tool"] for row in rows]
    assert {"moved": 16, "unchanged": 0, "runs": 2, "longest": 8} == rows[0]["evidence"]
    assert ("fetched_at changes", "progress") == (rows[0]["rule"], rows[0]["key"])
    assert {"looked": 10, "found": 0} == rows[1]["evidence"]
    assert {"repeats": 10, "equal": 0, "alike": 10} == rows[2]["evidence"]
    assert ("_n:", "at") == (rows[2]["fields"][0][:3], rows[2]["fields"][1])
    assert {"lint", "tool", "said", "advice"} == set(rows[3])
    assert "canary" not in out


def test_strict_says_so_in_the_exit_code(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With --strict anything to say is 1; nothing to say is 0; input that could not be read comes first."""
    assert ExitCode.ADVICE == main(["lint", "--strict", *files])
    assert ExitCode.DONE == main(["lint", "--strict", "--no-progress", files[-1].replace("d.jsonl", "c.jsonl")])
    assert ExitCode.PARTLY_READ == main(["lint", "--strict", *files, "missing.jsonl"])
    assert "missing.jsonl: cannot be opened" in capsys.readouterr().err


def test_without_a_call_no_tool_is_unused(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files without any call say nothing of what is not called."""
    (tmp_path / "empty.jsonl").write_text("")
    main(["lint", *files[:3], str(tmp_path / "empty.jsonl")])
    assert "policy shop@1, 0 runs with 0 calls: nothing to say\n" == capsys.readouterr().out


def test_the_labelled_runs_and_the_examples_get_no_advice(capsys: pytest.CaptureFixture[str]) -> None:
    """Runs of real agents, under the default policy: nothing is said that would be wrong."""
    runs = Path(__file__).parents[1] / "fixtures" / "runs" / "calls.jsonl"
    assert ExitCode.DONE == main(["lint", "--strict", "--no-progress", "--examples", str(runs)])
    assert "nothing to say" in capsys.readouterr().out
