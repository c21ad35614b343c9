"""The real `opentelemetry-instrument` around an application that knows nothing of us: what leaves, and what is said.

Each test starts a process as an owner would. What it exports goes to the console or, over OTLP, to a server here.
"""

from __future__ import annotations

import http.server
import importlib.util
import json
import os
import subprocess
import sys
import threading
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from otel_loopguard.processor import settings, zero_code
from otel_loopguard.processor.settings import Settings
from tests.processor.agent_app import CANARY

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
APP: Final = ROOT / "tests" / "processor" / "agent_app.py"
COMMAND: Final = Path(sys.executable).parent / "opentelemetry-instrument"
KEY: Final = bytes(range(32)).hex()
INSTEAD: Final = "; no digest is made, and content is removed all the same"
FILES: Final = importlib.util.find_spec("opentelemetry.configuration") is not None
"""Whether declarative files can be read: no release of that package fits the lowest SDK that is supported."""

pytestmark = [
    pytest.mark.skipif(not COMMAND.exists(), reason="needs opentelemetry-distro: pip install -e '.[test]'"),
    pytest.mark.skipif(
        not entry_points(group="opentelemetry_pre_instrument", name="loopguard"),
        reason="the installed package is older than its entry points: pip install -e '.[test]'",
    ),
]


class Ran:
    """A process that ended: what it printed, exported and said."""

    def __init__(self, ended: subprocess.CompletedProcess[str]) -> None:
        self.code = ended.returncode
        self.out = ended.stdout
        self.lines = ended.stderr.splitlines()

    @property
    def done(self) -> bool:
        """Whether the application came to its end as if we were not there."""
        return (0, True) == (self.code, "done" in self.out)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Attributes of the exported tool spans, in the order of their ends."""
        return [
            span["attributes"]
            for span in _objects(self.out)
            if (span.get("attributes") or {}).get("gen_ai.operation.name") == "execute_tool"
        ]

    @property
    def records(self) -> list[dict[str, Any]]:
        """The exported log records."""
        return [record for record in _objects(self.out) if "observed_timestamp" in record]

    def of_calls(self, name: str) -> list[Any]:
        """One attribute of ours of all tool spans; None where it is missing."""
        return [call.get(f"loopguard.{name}") for call in self.calls]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects that console exporters print, among other text."""
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        found, at = decoder.raw_decode(text, at)
        yield found


def _run(*arguments: str, **variables: str) -> Ran:
    """Run the agent under the command, with nothing of ours in its environment but what is given."""
    return _run_app(APP, *arguments, **variables)


def _run_app(app: Path, *arguments: str, **variables: str) -> Ran:
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("OTEL_")}
    environ = inherited | {
        "OTEL_TRACES_EXPORTER": "console",
        "OTEL_LOGS_EXPORTER": "console",
        "OTEL_METRICS_EXPORTER": "none",
        "PYTHONPATH": str(ROOT),
        **variables,
    }
    return Ran(
        subprocess.run(  # noqa: S603 - our own command line
            [COMMAND, sys.executable, str(app), *arguments],
            env=environ,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    )


def _policy(tmp_path: Path, text: str) -> str:
    path = tmp_path / "policy.json"
    path.write_text(text, encoding="utf-8")
    return str(path)


SOUND: Final = '{"version": 1, "policy": "p", "policy_version": 1}'
BROKEN: Final = '{"version": 1, "policy": "p", "policy_version": 1, "scoop": "run"}'


def test_without_the_switch_nothing_happens() -> None:
    """The installed package alone changes nothing: content leaves as the application wrote it."""
    ran = _run(OTEL_LOOPGUARD_KEY=KEY, OTEL_LOOPGUARD_POLICY="/nowhere", OTEL_LOOPGUARD_CONTENT="drop_all")
    assert (True, [], [None] * 4, True) == (ran.done, ran.lines, ran.of_calls("schema"), CANARY in ran.out)


def test_with_the_switch_digests_leave_and_content_does_not() -> None:
    """Equal calls have equal digests, the third is a finding, spans and log records hold no canary, nothing is said."""
    ran = _run(OTEL_LOOPGUARD_ENABLED="true", OTEL_LOOPGUARD_KEY=KEY)
    digests = ran.of_calls("call.digest")
    assert (True, [], False) == (ran.done, ran.lines, CANARY in ran.out)
    assert [32, 1, 2] == [len(digests[0]), len(set(digests[:3])), len(set(digests))]
    assert [1, 2, 3, 4] == ran.of_calls("call.sequence")
    assert ["exact_repeat"] == list(ran.calls[2]["loopguard.finding"])


def test_log_records_are_cleaned_and_kept() -> None:
    """The record of the model call and the finding's event are exported, the first without its content."""
    ran = _run(OTEL_LOOPGUARD_ENABLED="true")
    events = {record["event_name"]: record for record in ran.records}
    assert {"gen_ai.client.inference.operation.details", "loopguard.finding"} == set(events)
    record = events["gen_ai.client.inference.operation.details"]
    assert (None, {}) == (record["body"], dict(record["attributes"] or {}))


@pytest.mark.parametrize("variables", [{}, {"OTEL_LOOPGUARD_KEY": KEY}], ids=["key-made-up", "key-given"])
def test_an_application_that_sets_its_own_providers(variables: dict[str, str]) -> None:
    """Where no distribution sets providers, those that the application sets are found, and nothing else changes."""
    ran = _run(
        "sets-provider",
        OTEL_LOOPGUARD_ENABLED="true",
        OTEL_PYTHON_CONFIGURATOR="none",
        **variables,
    )
    # The command itself says that it loaded no configurator.
    said = [line for line in ran.lines if "OTEL_PYTHON_CONFIGURATOR" not in line]
    assert (True, [], False) == (ran.done, said, CANARY in ran.out)
    assert [1, 2, 3, 4] == ran.of_calls("call.sequence")
    assert 2 == len(ran.records)


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        (
            {"OTEL_LOOPGUARD_KEY": f"{CANARY}-key"},
            "OTEL_LOOPGUARD_KEY: neither 64 hex characters nor base64 of 32 bytes; make one with: openssl rand -hex 32",
        ),
        (
            {"OTEL_LOOPGUARD_POLICY": f"/nowhere/{CANARY}"},
            (
                "OTEL_LOOPGUARD_POLICY: policy file: cannot be read (No such file or directory); "
                "check the path and its permissions"
            ),
        ),
    ],
    ids=["key", "policy"],
)
def test_a_wrong_key_or_policy_leaves_removal_alone(variables: dict[str, str], line: str) -> None:
    """One line, no digest, and no content: neither the application's nor the wrong value."""
    ran = _run(OTEL_LOOPGUARD_ENABLED="true", **variables)
    assert (True, [line + INSTEAD], False) == (ran.done, ran.lines, CANARY in ran.out)
    assert ([None] * 4, ["not_configured"] * 4) == (ran.of_calls("call.digest"), ran.of_calls("call.unknown"))


def test_a_broken_policy_file_leaves_removal_alone(tmp_path: Path) -> None:
    """The line names place and key."""
    ran = _run(OTEL_LOOPGUARD_ENABLED="true", OTEL_LOOPGUARD_POLICY=_policy(tmp_path, BROKEN))
    line = "OTEL_LOOPGUARD_POLICY: policy file:1:52: scoop: unknown key; did you mean `scope`?"
    assert (True, [line + INSTEAD], False) == (ran.done, ran.lines, CANARY in ran.out)
    assert ["not_configured"] * 4 == ran.of_calls("call.unknown")


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        (
            {"OTEL_LOOPGUARD_CONTNET": "keep"},
            (
                "OTEL_LOOPGUARD_CONTNET: there is no such variable, so it is ignored; "
                "did you mean OTEL_LOOPGUARD_CONTENT?"
            ),
        ),
        (
            {"OTEL_LOOPGUARD_CONTENT": "kepe"},
            (
                "OTEL_LOOPGUARD_CONTENT: not one of drop_all, drop_tool, keep, so drop_all is used; "
                "write one of drop_all, drop_tool, keep"
            ),
        ),
        (
            {"OTEL_LOOPGUARD_MODE": "enforce"},
            (
                "OTEL_LOOPGUARD_MODE: a processor only observes and `enforce` belongs to the guard, "
                "so observe is used; write one of off, observe"
            ),
        ),
    ],
    ids=["name", "content", "mode"],
)
def test_a_wrong_variable_is_one_line(variables: dict[str, str], line: str) -> None:
    """It is told, something safe stands in for it, and all else works."""
    ran = _run(OTEL_LOOPGUARD_ENABLED="true", **variables)
    assert (True, [line], False) == (ran.done, ran.lines, CANARY in ran.out)
    assert [1, 2, 3, 4] == ran.of_calls("call.sequence")


def test_a_wrong_switch_is_told() -> None:
    """Whoever writes `1` learns why nothing happens; a mistake elsewhere does not matter then."""
    ran = _run(OTEL_LOOPGUARD_ENABLED="1", OTEL_LOOPGUARD_MODE="none")
    line = "OTEL_LOOPGUARD_ENABLED: neither `true` nor `false`, so `false` is used; write one of them"
    assert (True, [line], [None] * 4) == (ran.done, ran.lines, ran.of_calls("schema"))


def test_mode_off_puts_nothing_in_place() -> None:
    """The kill switch: spans leave as the application wrote them, and nobody is alarmed."""
    ran = _run(OTEL_LOOPGUARD_ENABLED="true", OTEL_LOOPGUARD_MODE="off")
    assert (True, [], [None] * 4, True) == (ran.done, ran.lines, ran.of_calls("schema"), CANARY in ran.out)


def test_a_disabled_sdk_stays_disabled() -> None:
    """Nothing is exported, nothing is said."""
    ran = _run(OTEL_LOOPGUARD_ENABLED="true", OTEL_SDK_DISABLED="true")
    assert (True, [], []) == (ran.done, ran.lines, list(_objects(ran.out)))


@pytest.mark.parametrize(("content", "leaves"), [("keep", True), ("drop_tool", True), ("drop_all", False)])
def test_the_content_variable_goes_before_the_policy(tmp_path: Path, content: str, leaves: bool) -> None:  # noqa: FBT001
    """What it keeps leaves although the policy says `drop_all`; under `drop_tool` that is the model's record."""
    policy = _policy(tmp_path, SOUND)
    ran = _run(OTEL_LOOPGUARD_ENABLED="true", OTEL_LOOPGUARD_POLICY=policy, OTEL_LOOPGUARD_CONTENT=content)
    assert (True, [], leaves) == (ran.done, ran.lines, CANARY in ran.out)
    assert (["p@1"] * 4, content == "keep") == (ran.of_calls("policy"), CANARY in json.dumps(ran.calls))


WAITING: Final = """\
import os, sys, time
from opentelemetry import trace
sys.argv = ["app"]
sys.path.insert(0, {root!r})
from tests.processor import agent_app
agent_app.run()
with open({path!r} + ".new", "w") as file:
    file.write({text!r})
os.replace({path!r} + ".new", {path!r})
tracer = trace.get_tracer("waiting")
deadline = time.monotonic() + 60
from otel_loopguard import install
processor = install()
while processor.policy.label != "p@2" and time.monotonic() < deadline:
    tracer.start_span("poke").end()
    time.sleep(0.01)
agent_app.run()
print("done")
"""


def test_a_changed_policy_file_is_used_without_a_restart(tmp_path: Path) -> None:
    """What begins after the look is judged by the new policy, and its rule of content holds for log records too."""
    path = _policy(tmp_path, SOUND)
    text = SOUND.replace('"policy_version": 1', '"policy_version": 2, "content": "keep"')
    app = tmp_path / "app.py"
    app.write_text(WAITING.format(root=str(ROOT), path=path, text=text), encoding="utf-8")
    ran = _run_app(
        app, OTEL_LOOPGUARD_ENABLED="true", OTEL_LOOPGUARD_POLICY=path, OTEL_LOOPGUARD_POLICY_REREAD_S="0.01"
    )
    assert (True, []) == (ran.done, ran.lines)
    assert ["p@1"] * 4 + ["p@2"] * 4 == ran.of_calls("policy")
    bodies = [record["body"] for record in ran.records if record["event_name"] != "loopguard.finding"]
    assert [None, CANARY] == bodies


LATER: Final = """\
import logging, os, sys
from opentelemetry import _logs, trace
from otel_loopguard.processor import placing
from otel_loopguard.processor.boundary import Boundary
from tests.processor import agent_app


def broken(*_):
    raise RuntimeError(agent_app.CANARY)


if "reading-breaks" in sys.argv:
    placing.configured = broken
before = trace.set_tracer_provider, _logs.set_logger_provider
placing.begin(os.environ, Boundary(logging.getLogger("otel_loopguard")))
if "wrapped" in sys.argv:
    for module, name in ((trace, "set_tracer_provider"), (_logs, "set_logger_provider")):
        ours = getattr(module, name)
        setattr(module, name, lambda provider, ours=ours: ours(provider))
agent_app.set_provider()
restored = before == (trace.set_tracer_provider, _logs.set_logger_provider)
agent_app.run()
trace.get_tracer_provider().force_flush()
print("done restored" if restored else "done")
"""


def _run_later(*arguments: str) -> Ran:
    environ = {name: text for name, text in os.environ.items() if not name.startswith("OTEL_")}
    return Ran(
        subprocess.run(  # noqa: S603 - our own command line
            [sys.executable, "-c", LATER, *arguments],
            env=environ | {"PYTHONPATH": str(ROOT), "OTEL_LOOPGUARD_ENABLED": "true"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    )


@pytest.mark.parametrize(("arguments", "restored"), [((), True), (("wrapped",), False)])
def test_waiting_for_providers(arguments: tuple[str, ...], restored: bool) -> None:  # noqa: FBT001
    """They are found when they are set, also by who wraps the same functions; then those are the API's own again."""
    ran = _run_later(*arguments)
    assert (True, [], False) == (ran.done, ran.lines, CANARY in ran.out)
    assert ([1, 2, 3, 4], restored) == (ran.of_calls("call.sequence"), "done restored" in ran.out)


def test_an_error_of_ours_while_reading_leaves_removal_alone() -> None:
    """What nobody thought of is one line too, without its text, and content is removed all the same."""
    ran = _run_later("reading-breaks")
    assert (True, 1, False) == (ran.done, len(ran.lines), CANARY in ran.out)
    assert ran.lines[0].startswith("reading key and policy failed: RuntimeError at ")
    assert ["not_configured"] * 4 == ran.of_calls("call.unknown")


# --- over OTLP ----------------------------------------------------------------------------------------------


class _Receiver(http.server.ThreadingHTTPServer):
    """Takes OTLP over HTTP and keeps the bytes by path."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.bodies: dict[str, bytes] = {}


class _Request(http.server.BaseHTTPRequestHandler):
    server: _Receiver

    def do_POST(self) -> None:
        """Keeps the body and answers with an empty success."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies[self.path] = self.server.bodies.get(self.path, b"") + body
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its base's name
        """Says nothing."""


@pytest.fixture
def receiver() -> Iterator[_Receiver]:
    """A collector that keeps everything."""
    server = _Receiver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_no_canary_in_the_bytes_that_leave(receiver: _Receiver) -> None:
    """Spans and log records over OTLP/HTTP: digests in them, no canary."""
    ran = _run(
        OTEL_LOOPGUARD_ENABLED="true",
        OTEL_TRACES_EXPORTER="otlp",
        OTEL_LOGS_EXPORTER="otlp",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{receiver.server_port}",
    )
    assert (True, []) == (ran.done, ran.lines)
    assert {"/v1/traces", "/v1/logs"} == set(receiver.bodies)
    assert b"loopguard.call.digest" in receiver.bodies["/v1/traces"]
    assert b"gen_ai.client.inference.operation.details" in receiver.bodies["/v1/logs"]
    assert dict.fromkeys(receiver.bodies, False) == {
        path: CANARY.encode() in body for path, body in receiver.bodies.items()
    }


# --- the exporters named `loopguard` ------------------------------------------------------------------------


def test_a_named_exporter_cleans_for_one_backend_alone(receiver: _Receiver) -> None:
    """`console,loopguard`: the console gets all, what goes out over OTLP has no content; no processor is needed."""
    ran = _run(
        OTEL_TRACES_EXPORTER="console,loopguard",
        OTEL_LOGS_EXPORTER="console,loopguard",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{receiver.server_port}",
    )
    assert (True, [], True) == (ran.done, ran.lines, CANARY in ran.out)
    assert {"/v1/traces": False, "/v1/logs": False} == {
        path: CANARY.encode() in body for path, body in receiver.bodies.items()
    }


DECLARED: Final = """\
file_format: "1.0"
tracer_provider:
  processors:
    - batch: {exporter: {loopguard: {content: drop_all, exporter: {console: {}}}}}
    - batch: {exporter: {loopguard: {exporter: {otlp_http: {endpoint: "@/v1/traces", timeout: 9000, compression: none,
        headers: [{name: a, value: b}]}}}}}
logger_provider:
  processors:
    - batch: {exporter: {loopguard: {content: drop_all, exporter: {console: {}}}}}
"""
PLAIN: Final = """\
file_format: "1.0"
tracer_provider:
  processors:
    - batch: {exporter: {console: {}}}
logger_provider:
  processors:
    - batch: {exporter: {console: {}}}
"""


# Not a skip: where the SDK is too old for declarative files there is nothing to test.
if FILES:

    def _declared(tmp_path: Path, text: str, **variables: str) -> Ran:
        path = tmp_path / "otel.yaml"
        path.write_text(text, encoding="utf-8")
        ran = _run(OTEL_CONFIG_FILE=str(path), **variables)
        # The command's own remark that a file was used.
        ran.lines = [line for line in ran.lines if not line.startswith("OTEL_CONFIG_FILE is set; ignoring")]
        return ran

    def test_exporters_in_a_declarative_file(tmp_path: Path, receiver: _Receiver) -> None:
        """The exporters `loopguard` stand around others as the file says, and remove what these would get."""
        ran = _declared(tmp_path, DECLARED.replace("@", f"http://127.0.0.1:{receiver.server_port}"))
        assert (True, [], False) == (ran.done, ran.lines, CANARY in ran.out)
        assert (4, 1) == (len(ran.calls), len(ran.records))
        assert ["/v1/traces"] == list(receiver.bodies)
        assert CANARY.encode() not in receiver.bodies["/v1/traces"]

    def test_the_processor_beside_a_declarative_file(tmp_path: Path) -> None:
        """The switch works with providers that a file describes."""
        ran = _declared(tmp_path, PLAIN, OTEL_LOOPGUARD_ENABLED="true")
        assert (True, [], False) == (ran.done, ran.lines, CANARY in ran.out)
        assert [1, 2, 3, 4] == ran.of_calls("call.sequence")


def test_the_hook_does_not_raise(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever breaks inside: the command would give up all instrumentation."""

    def broken(*_: object) -> None:
        raise RuntimeError(CANARY)

    monkeypatch.setattr(Settings, "from_environ", broken)
    monkeypatch.setenv("OTEL_LOOPGUARD_ENABLED", "true")
    zero_code.pre_instrument()
    assert (1, False) == (len(caplog.messages), CANARY in caplog.text)


def test_nothing_is_loaded_where_nothing_is_set() -> None:
    """A process that has the package installed and no variable of ours pays next to nothing."""
    code = (
        "import sys, otel_loopguard.processor.zero_code as hook; hook.pre_instrument(); "
        "print(sorted(name for name in sys.modules if name.startswith(('otel_loopguard', 'opentelemetry', 'msgspec'))))"
    )
    environ = {name: text for name, text in os.environ.items() if not name.startswith("OTEL_")}
    ended = subprocess.run(  # noqa: S603 - our own command line
        [sys.executable, "-c", code],
        env=environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "['otel_loopguard', 'otel_loopguard.processor', 'otel_loopguard.processor.zero_code']\n" == ended.stdout


def test_the_prefix_is_that_of_the_settings() -> None:
    """It stands in two places, so that the hook need not load the settings."""
    assert settings.PREFIX == zero_code.PREFIX
