"""The scorer as a whole: the real command, spans over the wire, and what comes out."""

from __future__ import annotations

import http.client
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
import msgspec
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from otel_loopguard import policy as policies
from otel_loopguard.model import Verdict
from otel_loopguard.scorer.counting import net
from tests.dialects import captures
from tests.processor.canaries import CANARY
from tests.processor.setups import read_back, send
from tests.replaying import replay_items
from tests.scorer.exported_runs import made_runs
from tests.scorer.serving import KEY_HEX, PATIENCE_S, ROOT, Scorer, told, wait_for

POLICY: Final = policies.default()
NAMES: Final = captures.names("main")
DUPLICATES: Final = "loopguard_duplicate_spans_total"


def left(names: Iterable[str]) -> list[list[ReadableSpan]]:
    """What leaves a process with our processor, by capture."""
    return [send([span for span in captures.spans(name) if span.end_ns]).behind for name in names]


def replayed(spans: Iterable[Sequence[ReadableSpan]]) -> dict[str, dict[str, Any]]:
    """The verdicts of `replay` on exported spans, by run."""
    items = [span for some in spans for span in read_back(some)]
    verdicts = [report.verdict for report in replay_items(items, POLICY)]
    return {verdict.run_id: told(as_json(verdict)) for verdict in verdicts}


def as_json(verdict: Verdict) -> dict[str, Any]:
    """As it is printed."""
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(verdict))
    return decoded


def found(scorer: Scorer) -> dict[str, dict[str, Any]]:
    """The last verdicts of a scorer, by run."""
    return {run_id: told(verdict) for run_id, verdict in scorer.verdicts().items()}


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_what_an_application_exports_is_judged_as_replay_judges_it(tmp_path: Path, protocol: str) -> None:
    """The SDK's own exporters send what left the processor; each run's verdict is the one of `replay`."""
    exported = left(NAMES)
    with Scorer(tmp_path) as scorer:
        exporter = (
            HttpExporter(f"http://{scorer.http}/v1/traces")
            if protocol == "http"
            else GrpcExporter(scorer.grpc, insecure=True)
        )
        for spans in exported:
            assert SpanExportResult.SUCCESS is exporter.export(spans)
        scorer.settled()
        exporter.shutdown()
        assert replayed(exported) == found(scorer)
        assert 0 == scorer.stop()
    assert "Traceback" not in scorer.log


def test_copies_in_any_order_change_nothing(tmp_path: Path) -> None:
    """Each span comes 1 to 29 times, shuffled over requests: verdicts and metrics are those of the clean stream."""
    rng = random.Random(29)
    exported = [span for spans in (*left(NAMES[:12]), *made_runs(30, rng)) for span in spans]
    copies = [span for span in exported for _ in range(rng.randint(1, 29))]
    rng.shuffle(copies)
    seen = []
    for number, stream in enumerate((exported, copies)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Scorer(folder) as scorer:
            for first in range(0, len(stream), 97):
                assert 200 == scorer.post(encode_spans(stream[first : first + 97]).SerializeToString())
            scorer.settled()
            counted = net(scorer.metrics())
            assert 0 == scorer.stop()
        seen.append((found(scorer), {one: value for one, value in counted.items() if one[0] != DUPLICATES}))
    assert seen[0][0] == seen[1][0]
    assert pytest.approx(seen[0][1]) == seen[1][1]
    assert len(seen[0][1]) > 30
    assert len(seen[0][0]) > 40


def test_content_stands_nowhere(tmp_path: Path) -> None:
    """Raw spans with a secret in every place are judged, and no file, log, metric or verdict holds it."""
    raw = [span for name in NAMES for span in captures.spans(name)]
    plain = send(raw, processors=lambda _: ()).behind
    with Scorer(tmp_path) as scorer:
        for span in plain:
            hidden = with_canaries(span)
            assert 200 == scorer.post(encode_spans([hidden]).SerializeToString())
        scorer.settled()
        shown = scorer.get("/metrics")
        assert len(scorer.verdicts()) > 10
        assert 0 == scorer.stop()
    everything = shown + scorer.log
    for file in tmp_path.rglob("*"):
        if file.is_file():
            everything += file.read_bytes().decode("latin-1")
    assert CANARY not in everything


def with_canaries(span: ReadableSpan) -> ReadableSpan:
    """A span with a secret in the text of its attributes, its events, its status and its name."""
    attributes = {
        key: value.replace("J7", CANARY).replace("order", f"order {CANARY}") if isinstance(value, str) else value
        for key, value in (span.attributes or {}).items()
        if not key.startswith("loopguard.")
    }
    span._attributes = attributes  # noqa: SLF001 - the SDK gives no way to change an ended span
    return span


def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    """Half of the spans before, half after a stop in the middle of the runs: the verdicts are those of the whole."""
    exported = left(NAMES[:8])
    scorer = Scorer(tmp_path, grace_s="30", idle_s="30")
    with scorer:
        for spans in exported:
            assert 200 == scorer.post(encode_spans(spans[::2]).SerializeToString())
        assert 0 == scorer.stop()
    again = Scorer(tmp_path)
    with again:
        for spans in exported:
            assert 200 == again.post(encode_spans(spans[1::2]).SerializeToString())
        again.settled()
        assert replayed(exported) == found(again)


def test_late_spans_revise_a_verdict_and_count_no_run_twice(tmp_path: Path) -> None:
    """What comes after its run was judged gives a second verdict, and one run in the metrics."""
    exported = left(NAMES[:6])
    with Scorer(tmp_path) as scorer:
        for step in range(2):
            for spans in exported:
                assert 200 == scorer.post(encode_spans(spans[step::2]).SerializeToString())
            scorer.settled()
        expected = replayed(exported)
        assert expected == found(scorer)
        backfill = scorer.value("loopguard_backfill_runs_total")
        assert len(expected) == scorer.value("loopguard_runs_total") + backfill
        assert max(line["revision"] for line in scorer.lines()) > 1


def test_two_scorers_do_not_share_a_folder(tmp_path: Path) -> None:
    """The second says so in one line and ends."""
    with Scorer(tmp_path) as scorer:
        code, said = refused(scorer.data)
    assert 2 == code
    assert 1 == len(said.splitlines())
    assert "in use" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--http", "somewhere"], "--http must be HOST:PORT, or off"),
        (["--http", "off", "--grpc", "off"], "nothing could be received"),
        (["--http", "0.0.0.0:4318"], "can be reached from other machines"),
        (["--grace-s", "soon"], "--grace-s must be a number from 0 to 3,600"),
        (["--tls-cert", "cert.pem"], "--tls-cert and --tls-key go together"),
        (["--raw", "keep"], "--raw must be digest or refuse"),
        (["--policy", "missing.yaml"], "missing.yaml"),
        (["--token-file", "missing"], "token file missing: cannot be read"),
        (["--max-body-bytes", "1"], "--max-body-bytes must be a whole number"),
        (["--otlp-endpoint", "http://h:99999"], "--otlp-endpoint must be like http://HOST:PORT"),
        (["--otlp-endpoint", "http://h:port"], "--otlp-endpoint must be like http://HOST:PORT"),
        (["--otlp-endpoint", "http://[x"], "--otlp-endpoint must be like http://HOST:PORT"),
        (["--otlp-endpoint", "https:///path"], "--otlp-endpoint must be like http://HOST:PORT"),
        (["--otlp-endpoint", "http://user:pw@h/"], "--otlp-endpoint must be like http://HOST:PORT"),
        (["--verdict-file", "/dev"], "the verdict file /dev is not a file"),
        (["--verdict-file", "missing/verdicts.jsonl"], "the verdict file missing/verdicts.jsonl is not a file"),
    ],
)
def test_a_wrong_setting_gives_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    """What is wrong, where, and what to do."""
    code, line = refused(tmp_path / "data", *arguments)
    assert (2, 1) == (code, len(line.splitlines()))
    assert said in line


def refused(data: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and standard error of a scorer that cannot start."""
    command = [sys.executable, "-m", "otel_loopguard", "serve", "--data", str(data)]
    if not {"--http", "--grpc"} & set(arguments):
        command += ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    ended = subprocess.run(  # noqa: S603 - our own command
        [*command, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OTEL_LOOPGUARD_KEY": KEY_HEX},
    )
    return ended.returncode, ended.stderr


def test_stopping_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    """SIGINT as SIGTERM: exit code 0, and what was taken is judged after the next start."""
    exported = left(NAMES[:2])
    scorer = Scorer(tmp_path, grace_s="600", idle_s="600")
    with scorer:
        for spans in exported:
            assert 200 == scorer.post(encode_spans(spans).SerializeToString())
        os.kill(scorer.pid, signal.SIGINT)
        assert 0 == scorer.stop()
    with Scorer(tmp_path) as again:
        again.settled()
        assert replayed(exported) == found(again)


def test_a_folder_that_is_deleted_under_it_is_no_success(tmp_path: Path) -> None:
    """What would go to a deleted file is refused, and how the scorer does can still be asked."""
    body = encode_spans(left(NAMES[:1])[0]).SerializeToString()
    with Scorer(tmp_path) as scorer:
        assert 200 == scorer.post(body)
        scorer.settled()
        assert "ready\n" == scorer.get("/readyz")
        shutil.rmtree(scorer.data)
        assert [503, 503] == [scorer.post(body), scorer.post(body)]
        assert "not ready\n" == scorer.get("/readyz")
        assert 1 <= scorer.value("loopguard_failed_commits_total")
        assert "Health" in scorer.get("/health")
        assert 0 == scorer.stop()


def test_a_web_site_that_has_its_name_point_here_reads_no_metrics(tmp_path: Path) -> None:
    """The pages are not all that a browser could be made to read."""
    with Scorer(tmp_path) as scorer:
        host, _, port = scorer.http.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
        connection.request("GET", "/metrics", headers={"Host": "evil.example"})
        assert 421 == connection.getresponse().status
        connection.close()


def test_a_flood_of_connections_does_not_flood_the_log(tmp_path: Path) -> None:
    """A process that can open no more files says so once, and goes on when they are closed."""
    body = encode_spans(left(NAMES[:1])[0]).SerializeToString()
    with Scorer(tmp_path) as scorer:
        resource.prlimit(scorer.pid, resource.RLIMIT_NOFILE, (100, 100))
        host, _, port = scorer.http.rpartition(":")
        flood = [socket.create_connection((host, int(port)), timeout=PATIENCE_S) for _ in range(150)]
        wait_for(lambda: "Too many open files" in scorer.log, "the process is out of files")
        for connection in flood:
            connection.close()
        assert 200 == scorer.post(body)
        scorer.settled()
        assert 0 == scorer.stop()
    assert 1 == scorer.log.count("the event loop met a fault: Too many open files")
    assert "Traceback" not in scorer.log


def test_a_token_file_that_changes_is_read_again(tmp_path: Path) -> None:
    """Whoever shows a new token is let in soon after it was written, and whoever shows the old one no more."""
    body = encode_spans(left(NAMES[:1])[0]).SerializeToString()
    tokens = tmp_path / "tokens"
    tokens.write_text("a-token-that-was-first\n", encoding="utf-8")
    with Scorer(tmp_path, token_file=str(tokens)) as scorer:
        assert 200 == scorer.post(body, Authorization="Bearer a-token-that-was-first")
        tokens.write_text("a-token-that-came-later\n", encoding="utf-8")
        wait_for(lambda: 200 == scorer.post(body, Authorization="Bearer a-token-that-came-later"), "it is let in")
        assert 401 == scorer.post(body, Authorization="Bearer a-token-that-was-first")
        assert 0 == scorer.stop()
    assert "the token file has changed" in scorer.log
    assert "a-token" not in scorer.log


def test_half_a_body_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """Its sender is told to come again, and the process ends as it should."""
    with Scorer(tmp_path) as scorer:
        host, _, port = scorer.http.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            head = "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
            connection.sendall(f"{head}Content-Length: 1000\r\n\r\nhalf".encode())
            scorer.get("/healthz")
            assert 0 == scorer.stop()
            assert connection.recv(100).startswith(b"HTTP/1.1 503 ")


def test_an_unknown_service_is_not_served(tmp_path: Path) -> None:
    """Other methods than that for traces are answered as unknown."""
    with Scorer(tmp_path) as scorer, grpc.insecure_channel(scorer.grpc) as channel:
        method = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method, None, None)
        with pytest.raises(grpc.RpcError) as raised:
            call(b"", timeout=30)
    assert isinstance(raised.value, grpc.Call)
    assert grpc.StatusCode.UNIMPLEMENTED is raised.value.code()
