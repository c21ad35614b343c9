"""`doctor` in environments as users have them: real processes, and what they have installed and configured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import pytest

from otel_loopguard.cli.checkup import LEVELS, MEANING, Check, Level
from otel_loopguard.cli.checkup.installed import INSTRUMENT, Here, installed, recording, versions
from otel_loopguard.cli.exit_codes import ExitCode
from tests.cli.doctoring import (
    GENAI,
    GOOD,
    ROOT,
    SECRET,
    clean_environ,
    doctor,
    doctor_apart,
    free_port,
    of,
    package,
    server,
    write,
)
from tools.make_doctor_page import PAGE, page_text

OTLP: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


# --- the command as a whole -----------------------------------------------------------------------------------


def test_nothing_wrong(tmp_path: Path) -> None:
    """In a fresh environment nothing is worse than skipped, every check is made but the application's own."""
    code, found = doctor_apart(cwd=tmp_path)
    assert (ExitCode.DONE, []) == (code, of(found, Check.CANARY, Level.LEAK))
    assert set(Check) - {Check.PROCESSORS, Check.EXPORTERS, Check.LOGS} == {one.check for one in found}
    assert [] == [one for one in found if one.level in (Level.PROBLEM, Level.LEAK)]
    assert 2 == len(of(found, Check.CANARY, Level.OK))


def test_text_for_people(tmp_path: Path) -> None:
    """Without --json: a line each, its remedy below it, the sums at the end, colours only where asked for."""
    command = [sys.executable, "-m", "otel_loopguard", "doctor", "--no-connection", "--color", "always"]
    ended = subprocess.run(  # noqa: S603 - our own command line
        command, cwd=tmp_path, env=clean_environ(OTEL_LOOPGUARD_MODE="on"), capture_output=True, text=True, check=False
    )
    lines = ended.stdout.splitlines()
    assert (ExitCode.UNWELL, "") == (ended.returncode, ended.stderr)
    assert any("problem" in line and "OTEL_LOOPGUARD_MODE" in line for line in lines)
    assert any(line.strip().startswith("-> mend OTEL_LOOPGUARD_MODE") for line in lines)
    assert "1 problem" in lines[-1]
    assert "\x1b[" in ended.stdout


def test_set_up_that_is_right(tmp_path: Path) -> None:
    """An application as README makes it: the processor is seen, its exporter is watched, and nothing is printed."""
    write(tmp_path / "app.py", GOOD)
    code, found = doctor("--app", "app", "--no-connection", cwd=tmp_path)
    assert ExitCode.DONE == code
    assert [Level.OK] == [one.level for one in of(found, Check.PROCESSORS)]
    assert ["ConsoleSpanExporter is fed by BatchSpanProcessor"] == [one.what for one in of(found, Check.EXPORTERS)]
    assert {Level.OK} == {one.level for one in of(found, Check.CANARY)}


def test_without_the_processor_content_leaks(tmp_path: Path) -> None:
    """The canary is seen at the exporter, told by place, and the exit code says so."""
    text = GOOD.replace("provider.add_span_processor(LoopGuardSpanProcessor())", "")
    code, found = doctor_apart("--script", str(write(tmp_path / "app.py", text)), "--no-connection", cwd=tmp_path)
    assert ExitCode.LEAK == code
    (leak,) = of(found, Check.CANARY, Level.LEAK)
    assert "attribute gen_ai.tool.call.arguments" in leak.what
    assert "canary" not in leak.what
    (missing,) = of(found, Check.PROCESSORS)
    assert (Level.PROBLEM, True) == (missing.level, "install()" in missing.remedy)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"raise ValueError('{SECRET}')", "ValueError at app.py:1"),
        ("import sys; sys.exit(3)", "ended the process"),
        ("import os; os._exit(9)", "exit code 9 while trying your set-up code"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal 9 while trying your set-up code"),
        ("import no_such_module_here", "no module no_such_module_here"),
        ("def broken(", "SyntaxError"),
        ("x = 1", "left no tracer provider of the SDK behind"),
        (f"class {'A' * 200}(Exception): pass\nraise {'A' * 200}('{SECRET}')", "an exception at app.py:2"),
        ("raise KeyboardInterrupt", "signal 2 while trying your set-up code"),
    ],
)
def test_set_up_that_fails(tmp_path: Path, text: str, expected: str) -> None:
    """Whatever the application's code does, there is one line about it, without its text, and all the rest."""
    write(tmp_path / "app.py", text)
    code, found = doctor("--app", "app", "--no-connection", cwd=tmp_path)
    assert ExitCode.UNWELL == code
    assert expected in of(found, Check.SETUP, Level.PROBLEM)[0].what
    assert Check.RECORDING in {one.check for one in found}


def _runs(state: Path) -> bool:
    try:
        return state.read_text().split()[2] not in {"Z", "X"}
    except FileNotFoundError:
        return False


def test_set_up_that_does_not_return(tmp_path: Path) -> None:
    """It is ended, with what it started, and said to be."""
    write(
        tmp_path / "app.py",
        """
        import subprocess, sys, time
        started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        open("pid", "w").write(str(started.pid))
        time.sleep(600)
        """,
    )
    code, found = doctor("--app", "app", "--no-connection", "--timeout", "4", cwd=tmp_path)
    assert ExitCode.UNWELL == code
    (late,) = of(found, Check.SETUP, Level.PROBLEM)
    assert late.what.startswith("not at an end after 4 s")
    state = Path(f"/proc/{(tmp_path / 'pid').read_text()}/stat")
    # Told to end, it may still be seen for a moment.
    until = time.monotonic() + 60
    while _runs(state) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _runs(state)


@pytest.mark.parametrize("name", ["app:made", "app:make", "app:Inner.make", "app:amake"])
def test_forms_of_app(tmp_path: Path, name: str) -> None:
    """A provider, a function that returns one, an attribute of an attribute, and a coroutine function."""
    text = """
        from opentelemetry.sdk.trace import TracerProvider
        from otel_loopguard import install
        made = TracerProvider()
        install(made)
        def make(): return made
        class Inner:
            @staticmethod
            def make(): return made
        async def amake(): return made
    """
    write(tmp_path / "app.py", text)
    _, found = doctor("--app", name, "--no-connection", cwd=tmp_path)
    assert [Level.OK] == [one.level for one in of(found, Check.SETUP)]
    assert [Level.OK] == [one.level for one in of(found, Check.PROCESSORS)]
    assert [Level.NOTE] == [one.level for one in of(found, Check.EXPORTERS)]
    assert [Level.SKIPPED] == [one.level for one in of(found, Check.CANARY)]


def test_script_is_not_run_as_main_and_its_output_goes_nowhere(tmp_path: Path) -> None:
    """What stands under `__main__` has effects: it is left alone; what is printed may be content."""
    text = f"{dedent(GOOD)}\nprint('{SECRET}')\nif __name__ == '__main__':\n    open('ran', 'w').close()\n"
    script = tmp_path / "app.py"
    script.write_text(text, encoding="utf-8")
    code, _ = doctor("--script", str(script), "--no-connection", cwd=tmp_path)
    assert (ExitCode.DONE, False) == (code, (tmp_path / "ran").exists())


def test_nothing_is_sent_to_the_exporters_of_the_application(tmp_path: Path) -> None:
    """The receiver that the application's exporter was made for gets nothing but the export without spans."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="pip install -e '.[test]'")
    text = GOOD.replace("ConsoleSpanExporter())", "OTLPSpanExporter())").replace(
        "from otel_loopguard import",
        f"from {OTLP} import OTLPSpanExporter\n    from otel_loopguard import",
    )
    write(tmp_path / "app.py", f"{dedent(text)}\nprovider.get_tracer('x').start_span('queued').end()\n")
    with server() as receiver:
        code, found = doctor("--app", "app", cwd=tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
        assert (ExitCode.DONE, [("/v1/traces", b"")]) == (code, [(path, body) for path, _, body in receiver.received])
    assert 2 == len(of(found, Check.CANARY, Level.OK))


def test_exporter_made_in_code_is_tried(tmp_path: Path) -> None:
    """An OTLP exporter whose endpoint stands in the code is tried where no variable names one."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="pip install -e '.[test]'")
    port = free_port()
    write(
        tmp_path / "app.py",
        f"""
        from {OTLP} import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from otel_loopguard import install
        provider = TracerProvider()
        install(provider)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter("http://user:{SECRET}@127.0.0.1:{port}/{SECRET}")))
        """,
    )
    code, found = doctor("--app", "app:provider", cwd=tmp_path)
    (tried,) = of(found, Check.CONNECTION)
    assert ExitCode.UNWELL == code
    assert f"http://127.0.0.1:{port}/… (OTLPSpanExporter): nothing listens there" == tried.what


def test_sdk_disabled(tmp_path: Path) -> None:
    """With the SDK switched off there is nothing to try, and that is a problem of its own."""
    code, found = doctor("--no-connection", cwd=tmp_path, OTEL_SDK_DISABLED="true")
    assert ExitCode.UNWELL == code
    assert [True] == ["OTEL_SDK_DISABLED" in one.what for one in of(found, Check.SETTINGS, Level.PROBLEM)]
    assert [Level.SKIPPED] == [one.level for one in of(found, Check.CANARY)]
    assert of(found, Check.RECORDING)


def test_limit_that_the_sdk_refuses(tmp_path: Path) -> None:
    """A limit that is no number keeps the SDK from making any provider."""
    code, found = doctor("--no-connection", cwd=tmp_path, OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=SECRET)
    assert ExitCode.UNWELL == code
    assert of(found, Check.LIMITS, Level.PROBLEM) or of(found, Check.REMOVAL, Level.PROBLEM)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "100"}, "cut at 100 characters"),
        ({"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "4095"}, "cut at 4095 characters"),
        ({"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "63"}, "keeps 63 attributes"),
    ],
)
def test_limits_of_the_environment(tmp_path: Path, environ: dict[str, str], expected: str) -> None:
    """A limit that cuts arguments is told with its number."""
    _, found = doctor("--no-connection", cwd=tmp_path, **environ)
    assert [True] == [expected in one.what for one in of(found, Check.LIMITS, Level.PROBLEM)]


def test_sdk_that_cannot_be_imported(tmp_path: Path) -> None:
    """A broken SDK is told; no traceback."""
    folder = tmp_path / "opentelemetry" / "sdk" / "trace"
    folder.mkdir(parents=True)
    for one in (folder.parent.parent, folder.parent, folder):
        (one / "__init__.py").touch()
    code, found = doctor_apart("--no-connection", cwd=tmp_path, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert ExitCode.UNWELL == code
    assert [True] == ["cannot be imported" in one.what for one in of(found, Check.REMOVAL, Level.PROBLEM)]


@pytest.mark.skipif(not (Path(sys.executable).parent / INSTRUMENT).exists(), reason="pip install -e '.[test]'")
@pytest.mark.parametrize("named", [[], ["--app", "app"]])
def test_zero_code(tmp_path: Path, named: list[str]) -> None:
    """Switched on, the code runs under the real command, which puts the processors in place of spans and logs."""
    text = GOOD.replace("provider.add_span_processor(LoopGuardSpanProcessor())", "")
    write(tmp_path / "app.py", text if not any(one.name == "opentelemetry-distro" for one in distributions()) else "")
    code, found = doctor(
        *named,
        "--no-connection",
        cwd=tmp_path,
        OTEL_LOOPGUARD_ENABLED="true",
        OTEL_TRACES_EXPORTER="console",
        OTEL_LOGS_EXPORTER="console",
        OTEL_METRICS_EXPORTER="none",
    )
    assert (ExitCode.DONE, [Level.OK]) == (code, [one.level for one in of(found, Check.PROCESSORS)])
    assert [Level.OK] == [one.level for one in of(found, Check.ZERO_CODE)]
    assert [Level.OK] == [one.level for one in of(found, Check.LOGS)]


# --- settings, key, policy, zero code -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "check", "level", "expected"),
    [
        ({"OTEL_LOOPGUARD_MODUS": SECRET}, Check.SETTINGS, Level.PROBLEM, "did you mean OTEL_LOOPGUARD_MODE"),
        ({"OTEL_LOOPGUARD_CONTENT": SECRET}, Check.SETTINGS, Level.PROBLEM, "OTEL_LOOPGUARD_CONTENT"),
        ({"OTEL_LOOPGUARD_CONTENT": "keep"}, Check.SETTINGS, Level.OK, "set: OTEL_LOOPGUARD_CONTENT"),
        ({"OTEL_LOOPGUARD_KEY": SECRET}, Check.KEY, Level.PROBLEM, "neither 64 hex characters nor base64"),
        ({"OTEL_LOOPGUARD_KEY_FILE": f"/{SECRET}"}, Check.KEY, Level.PROBLEM, "cannot be read"),
        ({"OTEL_LOOPGUARD_KEY": bytes(range(32)).hex()}, Check.KEY, Level.OK, "from OTEL_LOOPGUARD_KEY, with the id"),
        ({}, Check.KEY, Level.NOTE, "none is set"),
        (
            {"OTEL_LOOPGUARD_POLICY": f"/{SECRET}"},
            Check.POLICY,
            Level.PROBLEM,
            "the file named by OTEL_LOOPGUARD_POLICY",
        ),
        ({}, Check.POLICY, Level.NOTE, "the default policy"),
        ({}, Check.ZERO_CODE, Level.NOTE, "not switched on"),
        (
            {"OTEL_LOOPGUARD_ENABLED": "true", "OTEL_LOOPGUARD_MODE": "off"},
            Check.ZERO_CODE,
            Level.PROBLEM,
            "no content is removed",
        ),
    ],
)
def test_configuration(tmp_path: Path, environ: dict[str, str], check: Check, level: Level, expected: str) -> None:
    """What is wrong with a setting, the key or the policy is told without its value."""
    _, found = doctor("--no-connection", cwd=tmp_path, **environ)
    told = of(found, check, level)
    assert [True] == [expected in one.what for one in told]
    assert level is not Level.PROBLEM or all(one.remedy for one in told)


def test_policy_file_that_is_right_and_wrong(tmp_path: Path) -> None:
    """A policy is named with its label and tools; each of its mistakes is a line."""
    policy: dict[str, Any] = {"version": 1, "policy": "shop", "policy_version": "7", "tools": {"refund": {}}}
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(policy), encoding="utf-8")
    _, found = doctor("--no-connection", cwd=tmp_path, OTEL_LOOPGUARD_POLICY=str(path))
    assert [f"{path}: shop@7, 1 declared tool"] == [one.what for one in of(found, Check.POLICY)]
    path.write_text(json.dumps({**policy, "contnt": "keep", "mood": "bad"}), encoding="utf-8")
    _, found = doctor("--no-connection", cwd=tmp_path, OTEL_LOOPGUARD_POLICY=str(path))
    assert {Level.PROBLEM} == {one.level for one in of(found, Check.POLICY)}
    assert any("contnt" in one.what for one in of(found, Check.POLICY))


def test_zero_code_that_is_not_complete(tmp_path: Path) -> None:
    """Switched on without the command: said with what to install."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "python").symlink_to(sys.executable)
    environ = clean_environ(OTEL_LOOPGUARD_ENABLED="true", PATH=str(tmp_path))
    code = "from otel_loopguard.cli.checkup import installed; from otel_loopguard.processor.settings import Settings; "
    code += "import os, sys; sys.executable = '/nowhere/python'; "
    code += (
        "[print(one.level, one.remedy) for one in installed.zero_code(Settings.from_environ(os.environ), os.environ)]"
    )
    ended = subprocess.run(  # noqa: S603 - our own command line
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert ended.stdout.startswith("problem pip install opentelemetry-distro")


# --- what is installed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sdk", "api", "level", "expected"),
    [
        ("1.39.1", "1.39.1", Level.PROBLEM, "needs SDK 1.40"),
        ("1.40.0", "1.40.0", Level.OK, "opentelemetry-sdk 1.40.0"),
        ("1.45.2", "1.45.2", Level.OK, "opentelemetry-sdk 1.45.2"),
        ("1.46.0", "1.46.0", Level.NOTE, "newer than 1.45"),
        ("2.0.0", "2.0.0", Level.NOTE, "newer than 1.45"),
        ("1.45.2", "1.44.0", Level.PROBLEM, "belong together"),
        ("nightly", "nightly", Level.NOTE, "number can be read"),
    ],
)
def test_versions(sdk: str, api: str, level: Level, expected: str) -> None:
    """Each version is judged against the oldest and the newest that were tested."""
    (told,) = versions({"opentelemetry-sdk": sdk, "opentelemetry-api": api})
    assert (level, True) == (told.level, expected in told.what)


def test_missing_sdk_is_a_problem() -> None:
    """Without the SDK there is nothing to add a processor to."""
    (told,) = versions({"opentelemetry-api": "1.45.2"})
    assert (Level.PROBLEM, "opentelemetry-sdk not installed") == (told.level, told.what)


def test_the_newest_tested_is_the_installed_one() -> None:
    """The tests run on the newest version that is claimed, or on an older one."""
    assert Level.OK is next(versions(installed())).level


@pytest.mark.parametrize(
    ("packages", "environ", "expected"),
    [
        (("langgraph", "opentelemetry-instrumentation-genai-langchain"), {}, [(Level.PROBLEM, GENAI)]),
        (("langgraph", "opentelemetry-instrumentation-genai-langchain"), {GENAI: "SPAN_ONLY"}, [(Level.OK, "")]),
        (("langchain-core", "langsmith"), {}, [(Level.PROBLEM, "openinference-instrumentation-langchain")]),
        (("openai-agents",), {}, [(Level.PROBLEM, "openinference-instrumentation-openai-agents")]),
        (("openai-agents", "mcp", "logfire"), {}, [(Level.NOTE, "instrument"), (Level.OK, "")]),
        (("mcp", "opentelemetry-instrumentation-mcp"), {}, [(Level.NOTE, ""), (Level.OK, "")]),
        (("autogen-agentchat", "autogen-core"), {}, [(Level.PROBLEM, "openinference-instrumentation-autogen")]),
        (
            ("autogen-core", "openinference-instrumentation-autogen-agentchat"),
            {},
            [(Level.NOTE, ""), (Level.OK, "")],
        ),
        (("crewai", "opentelemetry-instrumentation-crewai"), {}, [(Level.PROBLEM, "openinference")]),
        (("haystack-ai", "openinference-instrumentation-haystack"), {}, [(Level.PROBLEM, "opentelemetry-haystack")]),
        (("pydantic-ai-slim",), {}, [(Level.OK, "")]),
        ((), {}, [(Level.NOTE, "langchain")]),
    ],
)
def test_recording(packages: tuple[str, ...], environ: Mapping[str, str], expected: list[tuple[Level, str]]) -> None:
    """Each framework that is installed is told with what its spans hold, and what to do where that is too little."""
    told = list(recording(Here(dict.fromkeys(packages, "1.0"), environ)))
    assert [level for level, _ in expected] == [one.level for one in told]
    assert [True] * len(told) == [text in one.remedy for (_, text), one in zip(expected, told, strict=True)]


def test_recording_in_a_real_environment(tmp_path: Path) -> None:
    """Packages are found by their metadata, broken metadata is passed over, and what code sets counts."""
    package(tmp_path, "langchain-core", "1.8.3")
    package(tmp_path, "opentelemetry-instrumentation-genai-langchain", "1.3b0")
    (tmp_path / "broken-1.0.dist-info").mkdir()
    path = f"{ROOT}{os.pathsep}{tmp_path}"
    code, found = doctor_apart("--no-connection", cwd=tmp_path, PYTHONPATH=path)
    (told,) = of(found, Check.RECORDING)
    assert (ExitCode.UNWELL, Level.PROBLEM) == (code, told.level)
    assert told.what.startswith("langchain-core 1.8.3, opentelemetry-instrumentation-genai-langchain 1.3b0")
    (tmp_path / "broken-1.0.dist-info").rmdir()  # SDK 1.40 does not pass over it, and the next run loads one
    write(tmp_path / "app.py", f"import os\nos.environ['{GENAI}'] = 'SPAN_ONLY'\n{dedent(GOOD)}")
    code, found = doctor_apart("--app", "app", "--no-connection", cwd=tmp_path, PYTHONPATH=path)
    assert (ExitCode.DONE, [Level.OK]) == (code, [one.level for one in of(found, Check.RECORDING)])


# --- the page -------------------------------------------------------------------------------------------------


def test_page_is_in_sync() -> None:
    """docs/doctor.md holds the tables as the code has them; `python tools/make_doctor_page.py` writes it."""
    text = PAGE.read_text(encoding="utf-8")
    assert page_text(text) == text


def test_every_check_and_level_has_its_meaning() -> None:
    """The tables are complete."""
    assert (set(Check), set(Level)) == (set(MEANING), set(LEVELS))


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "x"])
def test_timeout_is_a_positive_number(tmp_path: Path, seconds: str) -> None:
    """Anything else is a usage error."""
    ended = subprocess.run(  # noqa: S603 - our own command line
        [sys.executable, "-m", "otel_loopguard", "doctor", f"--timeout={seconds}"],
        cwd=tmp_path,
        env=clean_environ(),
        capture_output=True,
        check=False,
    )
    assert (ExitCode.USAGE, b"") == (ended.returncode, ended.stdout)
