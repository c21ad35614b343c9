"""Verdicts to a file and by OTLP: at least once, in order, whatever fails on the way."""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
import trustme
from hypothesis import given
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.logs.v1.logs_pb2 import SeverityNumber

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.model import Flag, RunOutcome, Verdict
from otel_loopguard.scorer.otlp_events import VerdictEvents, explanation
from otel_loopguard.scorer.outputs import (
    BATCH,
    IDLE_S,
    Outlet,
    Repeating,
    SendFailure,
    SinkError,
    VerdictFile,
    later,
    verdict_line,
)
from otel_loopguard.scorer.posting import NeverTakenError, Poster, Signal, read_headers
from otel_loopguard.scorer.records import JudgedRun
from tests.scorer.judged import NOW_NS, TRACE, finding, judged, revised, runs
from tests.scorer.receiving import Answer, Receiver, receiving, values

ROOT = Path(__file__).resolve().parent.parent.parent
RESOURCE = {"service.name": "otel-loopguard"}


class Box:
    """An outbox in memory."""

    def __init__(self, *waiting: JudgedRun) -> None:
        self.waiting = list(waiting)
        self.passed: dict[str, int] = {}
        self.broken = False

    def outbox(self, sink: str, limit: int) -> list[tuple[int, JudgedRun]]:
        """What a sink has not had."""
        self._check()
        start = self.passed.get(sink, 0)
        return list(enumerate(self.waiting, start=1))[start : start + limit]

    def _check(self) -> None:
        if self.broken:
            message = "the store cannot be read"
            raise LoopGuardError(message)

    def sent(self, sink: str, position: int) -> None:
        """Moves the sink's cursor."""
        self.passed[sink] = position

    def backlog(self, sink: str) -> int:
        """What is left."""
        self._check()
        return len(self.waiting) - self.passed.get(sink, 0)


class Failing:
    """A sink that fails as it is told, and then takes everything."""

    name = "file"

    def __init__(self, *errors: SinkError) -> None:
        self.errors = list(errors)
        self.taken: list[str] = []

    def send(self, runs: Sequence[JudgedRun]) -> int:
        """Fails, or takes all."""
        if self.errors:
            raise self.errors.pop(0)
        self.taken += [run.run_id for run in runs]
        return 0


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A running receiver."""
    with receiving() as found:
        yield found


def events(receiver: Receiver) -> VerdictEvents:
    """A sink to it."""
    return VerdictEvents(Poster(receiver.endpoint, timeout_s=5), RESOURCE)


def health_of(outlet: Outlet) -> dict[str, float]:
    """What is above 0, by name and, of failures, reason."""
    return {
        dict(labels).get("reason", name.removeprefix("loopguard_")): value
        for (name, labels), value in outlet.health().items()
        if value
    }


# --- the outlet -----------------------------------------------------------------------------------------------------


def test_everything_goes_out_once_and_in_order() -> None:
    """A backlog goes out batch by batch without a pause; then the outbox is looked at now and then."""
    box, sink = Box(*[judged(f"r{number}") for number in range(BATCH + 2)]), Failing()
    outlet = Outlet(box, sink)
    assert [0.0, IDLE_S, IDLE_S] == [outlet.step() for _ in range(3)]
    assert [run.run_id for run in box.waiting] == sink.taken
    assert {"sent_verdicts_total": BATCH + 2} == health_of(outlet)


def test_a_failure_is_counted_and_repeated_for_ever() -> None:
    """The same verdicts are tried again, each time after twice as long, up to a minute; what fails is not passed by."""
    errors = [SinkError(SendFailure.UNREACHABLE, "away") for _ in range(9)]
    box, sink = Box(judged()), Failing(*errors)
    outlet = Outlet(box, sink)
    assert [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0] == [outlet.step() for _ in range(9)]
    assert ({}, []) == (box.passed, sink.taken)
    assert {"unreachable": 9, "outbox_verdicts": 1} == health_of(outlet)
    outlet.step()
    assert (["r1"], {"file": 1}) == (sink.taken, box.passed)
    assert {"unreachable": 9, "sent_verdicts_total": 1} == health_of(outlet)


def test_the_receiver_may_ask_for_a_longer_pause() -> None:
    """The later of both is taken."""
    sink = Failing(*[SinkError(SendFailure.BUSY, "busy", retry_after_s=wait) for wait in (30.0, 0.5)])
    outlet = Outlet(Box(judged()), sink)
    assert [30.0, 2.0] == [outlet.step(), outlet.step()]


def test_a_store_that_cannot_be_read_is_waited_for() -> None:
    """The outlet goes on when the outbox can be read again."""
    box, sink = Box(judged()), Failing()
    outlet, box.broken = Outlet(box, sink), True
    assert 1.0 == outlet.step()
    assert {"store": 1} == health_of(outlet)
    box.broken = False
    assert IDLE_S == outlet.step()
    assert {"store": 1, "sent_verdicts_total": 1} == health_of(outlet)


def test_a_failing_sink_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """One line when it begins to fail and one when it is over."""
    outlet = Outlet(Box(judged()), Failing(*[SinkError(SendFailure.UNREACHABLE, "h:1 is away")] * 3))
    with caplog.at_level(logging.INFO, logger="otel_loopguard"):
        for _ in range(5):
            outlet.step()
    assert [
        "verdicts wait, as file cannot be sent to: h:1 is away",
        "verdicts are sent to file again",
    ] == caplog.messages


def test_every_reason_begins_at_zero() -> None:
    """An alert on any kind of failure sees the first."""
    found = Outlet(Box(), Failing()).health()
    assert {reason.value for reason in SendFailure} == {
        dict(labels)["reason"] for name, labels in found if name == "loopguard_send_failures_total"
    }


def test_delays_end_at_a_minute() -> None:
    """The first pause is a second, the last one a minute."""
    assert (1.0, 60.0, 60.0) == (later(0.0), later(31.0), later(60.0))


def test_a_repeating_step_stops() -> None:
    """Steps follow one another until the thread is stopped, also while it waits."""
    ran, steps = threading.Event(), []

    def step() -> float:
        steps.append(1)
        if len(steps) == 3:
            ran.set()
            return 1000.0
        return 0.0

    repeating = Repeating(step, name="test")
    repeating.start()
    assert ran.wait(30)
    assert repeating.stop(30)
    assert 3 == len(steps)


# --- the file -------------------------------------------------------------------------------------------------------


def lines_of(path: Path) -> list[tuple[str, int]]:
    """Run id and revision of each line; every line must be whole."""
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(line["run_id"], line["revision"]) for line in found]


@given(runs("r"))
def test_a_line_reads_back_as_the_verdict(run: JudgedRun) -> None:
    """One line, ended; its fields are those of `replay --json`, then how the verdict came about."""
    line = verdict_line(run)
    assert (1, b"\n") == (line.count(b"\n"), line[-1:])
    assert run.verdict == msgspec.json.decode(line, type=Verdict)
    plain = json.loads(msgspec.json.encode(run.verdict))
    told = {"close": run.close, "judged": run.judged_ns, "backfill": run.backfill, "withdrawn": run.withdrawn}
    assert plain | told == json.loads(line)


def test_verdicts_are_added_to_what_is_there(tmp_path: Path) -> None:
    """The file is made, and grows; others of its group may read it, and nobody else."""
    sink = VerdictFile(tmp_path / "v.jsonl")
    assert 0 == sink.send([judged("a"), judged("b")])
    assert 0 == sink.send([revised(judged("a"))])
    assert [("a", 1), ("b", 1), ("a", 2)] == lines_of(tmp_path / "v.jsonl")
    assert 0 == (tmp_path / "v.jsonl").stat().st_mode & 0o027


@pytest.mark.parametrize("way", ["moved", "emptied", "removed"])
def test_rotation_loses_nothing(tmp_path: Path, way: str) -> None:
    """After the file was moved, emptied or removed, the next verdict begins a file."""
    path = tmp_path / "v.jsonl"
    sink = VerdictFile(path)
    sink.send([judged("a")])
    if way == "moved":
        path.rename(tmp_path / "v.jsonl.1")
    elif way == "emptied":
        os.truncate(path, 0)
    else:
        path.unlink()
    sink.send([judged("b")])
    assert [("b", 1)] == lines_of(path)


@pytest.mark.parametrize("left", [1, 40, -1])
def test_what_a_killed_process_left_is_written_anew(tmp_path: Path, left: int) -> None:
    """The beginning of a line that comes again is removed: every line is whole."""
    path = tmp_path / "v.jsonl"
    path.write_bytes(verdict_line(judged("a")) + verdict_line(judged("b"))[:left])
    VerdictFile(path).send([judged("b"), judged("c")])
    assert [("a", 1), ("b", 1), ("c", 1)] == lines_of(path)


def test_what_is_not_ours_is_not_removed(tmp_path: Path) -> None:
    """Anything else that ends without a line end gets one."""
    path = tmp_path / "v.jsonl"
    path.write_bytes(b"somebody else's")
    VerdictFile(path).send([judged("a")])
    assert b"somebody else's\n" + verdict_line(judged("a")) == path.read_bytes()


@pytest.mark.parametrize("what", ["folder", "fifo", "missing"])
def test_what_cannot_be_written_to_is_told(tmp_path: Path, what: str) -> None:
    """A folder, a pipe, or a file in a folder that is not there: one clear line, and no hang."""
    path = tmp_path / "v"
    if what == "folder":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)
    else:
        path = tmp_path / "no" / "v"
    with pytest.raises(SinkError, match=str(path)) as caught:
        VerdictFile(path).send([judged()])
    assert SendFailure.UNWRITABLE is caught.value.reason


_FULL = """
import sys
from pathlib import Path
from otel_loopguard.scorer.outputs import SinkError, VerdictFile
from tests.scorer.judged import judged
path, filler = Path(sys.argv[1]) / "v.jsonl", Path(sys.argv[1]) / "filler"
sink = VerdictFile(path)
sink.send([judged("a")])
filler.write_bytes(b"x" * (320 * 1024))
many = [judged(f"b{number}") for number in range(100)]
try:
    sink.send(many)
except SinkError as error:
    print(error.reason, len(path.read_bytes().splitlines()))
filler.unlink()
sink.send(many)
print(len(path.read_bytes().splitlines()))
"""


def _in_a_disk_of_its_own(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Runs a script that is given the folder, where a small disk is mounted for it alone."""
    # Root needs no user namespace, which cannot be had inside a changed root.
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    # Nor can what is mounted there be kept apart by `unshare` itself, and need not be: the root's own mounts are.
    apart = "mount --make-rprivate / 2>/dev/null"
    mounted = f'{apart}; mount -t tmpfs -o size=400k none {folder} && exec {sys.executable} -c "$1" {folder}'
    return subprocess.run(  # noqa: S603 - our own command
        [
            shutil.which("unshare") or "false",
            *user,
            "--mount",
            "--propagation",
            "unchanged",
            "sh",
            "-c",
            mounted,
            "sh",
            script,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    """On a disk of 400 kB: what did not fit is taken back, and goes in once there is room."""
    if _in_a_disk_of_its_own(tmp_path, "").returncode and os.environ.get("CI") != "true":
        pytest.skip("needs `unshare` (util-linux) and leave to mount")
    ended = _in_a_disk_of_its_own(tmp_path, _FULL)
    assert ("disk_full 1\n101\n", "") == (ended.stdout, ended.stderr)


# --- OTLP events ----------------------------------------------------------------------------------------------------


def test_an_event_says_what_the_conventions_want(receiver: Receiver) -> None:
    """One log event in the run's trace, with the evaluation's name, label, score and explanation."""
    run = judged(
        outcome=RunOutcome.LOOP,
        tools={"search": 6},
        findings=(finding(),),
        wasted_calls=3,
        wasted_ms=1250.0,
        wasted_tokens=70,
        model="m",
        policy="p@1",
    )
    assert 0 == events(receiver).send([run])
    (record,) = receiver.logs
    assert "gen_ai.evaluation.result" == record.event_name
    assert (bytes.fromhex(TRACE), b"", NOW_NS) == (record.trace_id, record.span_id, record.time_unix_nano)
    assert SeverityNumber.SEVERITY_NUMBER_WARN == record.severity_number
    found = values(record.attributes)
    assert len(found.pop("log.record.uid")) == 36
    assert {
        "gen_ai.evaluation.name": "loopguard",
        "gen_ai.evaluation.score.label": "loop",
        "gen_ai.evaluation.score.value": 0.0,
        "gen_ai.evaluation.explanation": "loop: exact_repeat of search, 4 by call 4; "
        "3 of 6 calls wasted (1.2 s, 70 tokens)",
        "gen_ai.agent.name": "main",
        "gen_ai.request.model": "m",
        "loopguard.run.id": "r1",
        "loopguard.run.service": "shop",
        "loopguard.run.release": "1.0",
        "loopguard.run.revision": 1,
        "loopguard.run.final": True,
        "loopguard.run.calls": 6,
        "loopguard.termination_reason": "unknown",
        "loopguard.policy": "p@1",
        "loopguard.wasted.calls": 3,
        "loopguard.wasted.ms": 1250.0,
        "loopguard.wasted.tokens": 70,
        "loopguard.backfill": False,
    } == found
    assert RESOURCE == values(receiver.log_requests[0].resource_logs[0].resource.attributes)
    assert ("/v1/logs", "application/x-protobuf") == (receiver.paths[0], receiver.headers[0]["Content-Type"])


@pytest.mark.parametrize("outcome", RunOutcome)
def test_only_what_was_shown_has_a_score(receiver: Receiver, outcome: RunOutcome) -> None:
    """1 for clean runs, 0 for what is the agent's fault, none where nothing was shown either way."""
    events(receiver).send([judged(outcome=outcome)])
    scores = {"clean": 1.0, "loop": 0.0, "duplicate_write": 0.0, "indeterminate_write": 0.0, "budget_exceeded": 0.0}
    assert scores.get(outcome.value) == values(receiver.logs[0].attributes).get("gen_ai.evaluation.score.value")


def test_an_event_says_that_a_run_is_none_any_more(receiver: Receiver) -> None:
    """It bears no score, whatever the run was taken for, and is no warning."""
    loop = judged("r", outcome=RunOutcome.LOOP)
    events(receiver).send([msgspec.structs.replace(loop, withdrawn=True)])
    (record,) = receiver.logs
    found = values(record.attributes)
    assert ("withdrawn", "r") == (found["gen_ai.evaluation.score.label"], found["loopguard.run.id"])
    assert "gen_ai.evaluation.score.value" not in found
    assert "its spans are part of another" in found["gen_ai.evaluation.explanation"]
    assert "INFO" == record.severity_text


@pytest.mark.parametrize(
    ("run_id", "trace_ids", "expected"),
    [
        (f"{TRACE}:00f067aa0ba902b7", (TRACE,), (TRACE, "00f067aa0ba902b7")),
        (TRACE, ("f" * 32, TRACE), (TRACE, "")),
        (f"{TRACE}~2", (TRACE,), (TRACE, "")),
        ("mine:00f067aa0ba902b7", (TRACE,), (TRACE, "")),
        ("mine", (), ("", "")),
    ],
)
def test_an_event_stands_in_the_trace_of_its_run(
    receiver: Receiver, run_id: str, trace_ids: tuple[str, ...], expected: tuple[str, str]
) -> None:
    """In the trace that the run is named after, else its first; at the agent's span where the run's id has it."""
    events(receiver).send([judged(run_id, trace_ids=trace_ids)])
    assert expected == (receiver.logs[0].trace_id.hex(), receiver.logs[0].span_id.hex())


def test_an_event_is_the_same_whenever_it_is_sent(receiver: Receiver) -> None:
    """Its id tells a repeat from a revision and from another run."""
    run = judged("a")
    for one in (run, run, revised(run), judged("b")):
        events(receiver).send([one])
    first, second, *others = [values(record.attributes)["log.record.uid"] for record in receiver.logs]
    assert first == second
    assert 3 == len({first, *others})


def test_explanations_name_what_is_missing() -> None:
    """An incomplete run is explained by its flags, a clean one by its calls."""
    missing = judged(outcome=RunOutcome.INCOMPLETE, flags=(Flag.SEQUENCE_GAP,)).verdict
    assert ("flags: sequence_gap", "2 tool calls") == (
        explanation(missing),
        explanation(judged(tools={"a": 2}).verdict),
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(429), SendFailure.BUSY),
        (Answer(503, retry_after="7"), SendFailure.BUSY),
        (Answer(401), SendFailure.UNAUTHENTICATED),
        (Answer(404), SendFailure.BAD_ANSWER),
        (Answer(302), SendFailure.BAD_ANSWER),
        (Answer(500), SendFailure.BAD_ANSWER),
        (Answer(breaks=True), SendFailure.UNREACHABLE),
    ],
    ids=lambda one: one.value if isinstance(one, SendFailure) else str(one.status),
)
def test_any_refusal_that_can_be_repaired_is_repeated(receiver: Receiver, answer: Answer, reason: SendFailure) -> None:
    """Whatever the receiver answers, the events are there in the end, and the refusal is counted."""
    receiver.answers = [answer, Answer()]
    box = Box(judged("a"), judged("b"))
    outlet = Outlet(box, events(receiver))
    assert max(1.0, float(answer.retry_after or 0)) == outlet.step()
    outlet.step()
    taken = [values(record.attributes)["loopguard.run.id"] for record in receiver.logs]
    assert ["a", "b"] == taken[-2:]
    assert {reason.value: 1, "sent_verdicts_total": 2} == health_of(outlet)


def test_a_receiver_that_is_away_is_waited_for() -> None:
    """Nobody listens at first; what waits arrives once somebody does."""
    with receiving() as first:
        gone = first.endpoint
    outlet = Outlet(Box(judged()), VerdictEvents(Poster(gone, timeout_s=5), RESOURCE))
    assert 1.0 == outlet.step()
    assert {"unreachable": 1, "outbox_verdicts": 1} == health_of(outlet)


def test_what_is_never_taken_is_found_and_passed_by(receiver: Receiver) -> None:
    """Two events that the receiver refuses for good are counted; all others arrive."""
    receiver.refused_ids = {"r3", "r9"}
    box = Box(*[judged(f"r{number}") for number in range(11)])
    outlet = Outlet(box, events(receiver))
    outlet.step()
    assert {f"r{number}" for number in range(11)} - {"r3", "r9"} == {
        values(record.attributes)["loopguard.run.id"] for record in receiver.logs
    }
    assert {"sent_verdicts_total": 9, "rejected_verdicts_total": 2} == health_of(outlet)


def test_a_partial_success_counts_what_was_refused(receiver: Receiver) -> None:
    """As the specification says, what is refused inside a success is not sent again."""
    answer = ExportLogsServiceResponse()
    answer.partial_success.rejected_log_records = 1
    receiver.usual = Answer(body=answer.SerializeToString())
    outlet = Outlet(Box(judged("a"), judged("b")), events(receiver))
    assert [IDLE_S, IDLE_S] == [outlet.step(), outlet.step()]
    assert {"sent_verdicts_total": 1, "rejected_verdicts_total": 1} == health_of(outlet)


def test_a_success_with_any_body_is_one(receiver: Receiver) -> None:
    """Some receivers answer with text."""
    receiver.usual = Answer(body=b"{}\xff ok")
    assert 0 == events(receiver).send([judged()])


# --- posting --------------------------------------------------------------------------------------------------------


def test_a_path_and_headers_are_kept(receiver: Receiver) -> None:
    """An endpoint may have a path of its own; headers go along, and stand in no message."""
    poster = Poster(f"{receiver.endpoint}/otlp/", headers={"Authorization": "secret"})
    receiver.usual = Answer(413)
    with pytest.raises(NeverTakenError) as caught:
        poster.post(Signal.LOGS, b"")
    assert ("/otlp/v1/logs", "secret") == (receiver.paths[0], receiver.headers[0]["Authorization"])
    assert f"{receiver.endpoint.removeprefix('http://')}/otlp/v1/logs answers 413" == str(caught.value)


def test_an_address_with_a_password_does_not_show_it() -> None:
    """Messages name host, port and path alone."""
    with pytest.raises(SinkError) as caught:
        Poster("http://user:secret@127.0.0.1:1/x?token=secret").post(Signal.LOGS, b"")
    assert "127.0.0.1:1/x/v1/logs cannot be reached (ConnectionRefusedError)" == str(caught.value)


def test_a_receiver_without_tls_is_not_taken_for_one_with(receiver: Receiver) -> None:
    """A secure address does not fall back to plain text."""
    with pytest.raises(SinkError, match="cannot be reached"):
        Poster(receiver.endpoint.replace("http:", "https:"), timeout_s=5).post(Signal.LOGS, b"")
    assert [] == receiver.paths


def test_a_receiver_is_checked() -> None:
    """Over TLS, one with a certificate that is trusted is sent to, and no other."""
    authority = trustme.CA()
    server, client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    with receiving(server) as receiver:
        trusting = VerdictEvents(Poster(receiver.endpoint, timeout_s=5, tls=client), RESOURCE)
        assert 0 == trusting.send([judged()])
        with pytest.raises(SinkError) as caught:
            Poster(receiver.endpoint, timeout_s=5).post(Signal.LOGS, b"")
    assert 1 == len(receiver.logs)
    assert str(caught.value).endswith("cannot be reached (SSLCertVerificationError)")


def test_a_slow_receiver_is_not_waited_for() -> None:
    """A connection that nobody answers ends after the time that was given."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        poster = Poster(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.1)
        with pytest.raises(SinkError) as caught:
            poster.post(Signal.LOGS, b"x")
    assert SendFailure.TIMED_OUT is caught.value.reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("Authorization=Bearer%20x=y, b = c ", {"Authorization": "Bearer x=y", "b": "c"}),
        ("=x,,y", {"y": ""}),
    ],
)
def test_headers_are_read_from_text(text: str, expected: dict[str, str]) -> None:
    """Names and values, as the environment variable of OpenTelemetry holds them."""
    assert expected == read_headers(text)
