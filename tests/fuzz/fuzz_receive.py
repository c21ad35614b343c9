"""Fuzz the receiving of requests: whatever the bytes, spans, reasons or a refusal come out, and none is lost silently.

Run as `python tests/fuzz/fuzz_receive.py --count 20000 --seed 1`; a million take half an hour. Inputs are sound
requests and damaged ones, in both encodings and every packing, and hostile ones: huge lengths, bombs, deep nesting,
invalid UTF-8, a million attributes, times out of range, forged `loopguard.*` values. Each goes over a real connection
to a real server of ours, HTTP or gRPC, through the real intake; some go to a whole scorer in a process of its own, too,
which judges them, and are answered the same. After each: the answer is a success or a refusal, and with success each
span that an independent reader finds was kept or is said to be rejected, and what was kept of protobuf is what reading
every span gives, whatever shapes were learned from hostile ones. Memory is watched.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

import grpc
import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_loopguard import policy
from otel_loopguard.digest import Key, Keyring
from otel_loopguard.model import SpanFacts
from otel_loopguard.scorer.decode import Encoding, decode
from otel_loopguard.scorer.grpc_server import EXPORT, GrpcServer
from otel_loopguard.scorer.http_server import HttpServer
from otel_loopguard.scorer.intake import IntakeQueue
from otel_loopguard.scorer.receiving import Limits, Receiver
from otel_loopguard.scorer.records import Arrival
from tests.fuzz.frame import memory_mib, try_all
from tests.fuzz.hostile_requests import Corpus, packed
from tests.fuzz.span_counts import span_count
from tests.scorer.serving import KEY_HEX, Scorer

_LIMITS: Final = Limits(max_body_bytes=200_000, max_unpacked_bytes=4_000_000)
_GROWTH_MIB: Final = 300
_BY_GRPC_ONE_IN: Final = 8
_TO_A_SCORER_ONE_IN: Final = 25
_TYPES: Final = {Encoding.PROTOBUF: "application/x-protobuf", Encoding.JSON: "application/json"}
_REFUSED: Final = frozenset({400, 413, 415})
_REFUSED_BY_GRPC: Final = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED})
_GRPC_PACKINGS: Final = (grpc.Compression.NoCompression, grpc.Compression.Gzip, grpc.Compression.Deflate)
_FACTS: Final = msgspec.msgpack.Decoder(list[SpanFacts])


class _Kept:
    """A store in memory that counts what it was given, and reads it as the judge would."""

    def __init__(self) -> None:
        self.spans = 0
        self.last: Sequence[Arrival] = ()
        """What came last."""

    def append(self, arrivals: Sequence[Arrival]) -> Future[tuple[int, ...]]:
        """Takes all of them."""
        self.last = arrivals
        for arrival in arrivals:
            assert arrival.spans == len(_FACTS.decode(arrival.facts))
            self.spans += arrival.spans
        done: Future[tuple[int, ...]] = Future()
        done.set_result(tuple(range(len(arrivals))))
        return done


class _Faults(logging.Handler):
    """Whatever is logged as an error: nothing that is sent may be one."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.met: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Remembers it."""
        self.met.append(record.getMessage())


class _Connection:
    """A connection that is kept as long as the server keeps it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, body: bytes, coding: str, encoding: Encoding, *, pieces: int) -> tuple[int, bytes]:
        """Sends one request, in a body of known length or in pieces; returns the answer's status and body."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = f"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {_TYPES[encoding]}\r\n"
        head += f"Content-Encoding: {coding}\r\n" if coding else ""
        if pieces:
            size = len(body) // pieces + 1
            parts = [body[at : at + size] for at in range(0, len(body), size)]
            whole = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
            writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + whole)
        else:
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answered = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").lower().split("\r\n")
        length = next(int(line.partition(":")[2]) for line in answered if line.startswith("content-length:"))
        said = await reader.readexactly(length)
        if "connection: close" in answered:
            self.close()
        return int(answered[0].split()[1]), said

    def close(self) -> None:
        """Ends it."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class _Target:
    """Our servers on an intake of our own, what sends to them, and what happened."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.kept, self.kept_by_scorer = _Kept(), 0
        self._corpus = Corpus()
        self._loop = asyncio.new_event_loop()
        self._faults = _Faults()
        self._loop.set_exception_handler(lambda _, context: self._faults.met.append(str(context["message"])))
        logging.getLogger().addHandler(self._faults)
        keys = Keyring(Key("fuzz", bytes.fromhex(KEY_HEX)))
        self._intake = IntakeQueue(self.kept, policy.default(), keys, learn=lambda _: None)
        self.receiver = Receiver(self._intake, shapes=self._intake.shapes, limits=_LIMITS)
        self._http, self._grpc = HttpServer(self.receiver), GrpcServer(self.receiver)
        port = self._loop.run_until_complete(self._http.start("127.0.0.1", 0))
        self._connection = _Connection(port)
        self._channel = grpc.insecure_channel(f"127.0.0.1:{self._grpc.start('127.0.0.1:0')}")
        self._export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(EXPORT, None, None)
        self._first_mib = memory_mib()

    def close(self) -> None:
        """Ends all of it."""
        self._connection.close()
        self._loop.run_until_complete(self._http.stop())
        self._loop.close()
        self._channel.close()
        self._grpc.stop()

    def attempt(self, random_: random.Random, number: int) -> list[str]:
        """Makes one request, sends it, and checks what came of it."""
        encoding, body = self._corpus.request(random_)
        before = self.kept.spans
        known: bytes | None = body
        if encoding is Encoding.PROTOBUF and random_.randrange(_BY_GRPC_ONE_IN) == 0:
            way, (status, said) = "grpc", self._called(random_, body)
        else:
            coding, sent, known = packed(random_, body)
            pieces = random_.choice((0, 0, 0, 1, 7))
            way = "http"
            status, said = self._loop.run_until_complete(self._connection.post(sent, coding, encoding, pieces=pieces))
            if number % _TO_A_SCORER_ONE_IN == 0:
                self._also_to_the_scorer(sent, coding, encoding, (status, said))
        assert [] == self._faults.met
        kept = self.kept.spans - before
        if status != 200:
            assert status in _REFUSED or way == "grpc", status
            assert 0 == kept
            return [f"{way} {status}"]
        rejected = _rejected(said, encoding)
        self._kept_or_rejected(known, encoding, kept, rejected)
        if kept and encoding is Encoding.PROTOBUF and known is not None:
            self._as_read(known)
        return [f"{way} 200", *(["of which in part"] if rejected else []), *(["of which kept some"] if kept else [])]

    def _kept_or_rejected(self, body: bytes | None, encoding: Encoding, kept: int, rejected: int) -> None:
        """Fails where a span that another reader finds is neither."""
        count = None if body is None else span_count(body, encoding)
        if count is not None:
            assert kept <= count, (kept, count)
            assert kept + rejected >= count, (kept, rejected, count)
            if encoding is Encoding.PROTOBUF:
                assert kept + rejected == count, (kept, rejected, count)

    def _as_read(self, body: bytes) -> None:
        """Fails where anything else was kept than what reading every span gives."""
        read, _ = self._intake.digest(decode(body, Encoding.PROTOBUF).spans)
        assert _facts(read) == _facts(self.kept.last)

    def _called(self, random_: random.Random, body: bytes) -> tuple[int, bytes]:
        """The answer of the gRPC server: 200, or the number of a code that is a refusal."""
        called = self._export.future(body, timeout=60, compression=random_.choice(_GRPC_PACKINGS))
        code = called.code()  # waits
        if code is grpc.StatusCode.OK:
            return 200, called.result()
        assert code in _REFUSED_BY_GRPC, code
        number: int = code.value[0]
        return number, b""

    def _also_to_the_scorer(self, sent: bytes, coding: str, encoding: Encoding, answer: tuple[int, bytes]) -> None:
        if len(sent) > _LIMITS.max_body_bytes:
            return  # is answered before it is read, and the connection may end before the answer is
        headers = {"Content-Type": _TYPES[encoding], **({"Content-Encoding": coding} if coding else {})}
        assert answer == self.scorer.answer(sent, **headers)

    def state(self) -> str:
        """How much memory is taken."""
        return (
            f"{memory_mib():.0f} MiB here, {memory_mib(peak=True):.0f} at most; "
            f"the scorer {memory_mib(self.scorer.pid):.0f}, {memory_mib(self.scorer.pid, peak=True):.0f} at most"
        )

    def check_at_the_end(self) -> None:
        """Everything counted, everything judged, no memory gone."""
        counted = self.receiver.counts.read()
        assert self.kept.spans == sum(counted.spans.values())
        assert not [result for _, result in counted.requests if result in ("failed", "cut_off")]
        self.scorer.settled()
        print(f"{self._intake.shapes.count:9} shapes of spans known at the end")
        print(f"{self.kept.spans:9} spans kept here; {len(self.scorer.verdicts())} runs judged by the scorer")
        print(f"memory: {self._first_mib:.0f} MiB here before the first; {self.state()}")
        assert memory_mib(peak=True) - self._first_mib < _GROWTH_MIB
        assert 0 == self.scorer.stop()
        assert "Traceback" not in self.scorer.log, self.scorer.log
        assert " fault" not in self.scorer.log, self.scorer.log


def _facts(arrivals: Sequence[Arrival]) -> list[tuple[object, ...]]:
    """What arrivals hold, in an order of their own."""
    return sorted(
        (one.trace_id, sorted(one.names), one.root_ended, sorted(map(repr, _FACTS.decode(one.facts))))
        for one in arrivals
    )


def _rejected(said: bytes, encoding: Encoding) -> int:
    """How many spans an answer says were rejected."""
    if encoding is Encoding.PROTOBUF:
        return int(ExportTraceServiceResponse.FromString(said).partial_success.rejected_spans)
    decoded: dict[str, Any] = msgspec.json.decode(said)
    return int(decoded.get("partialSuccess", {}).get("rejectedSpans", 0))


def main(argv: Sequence[str] | None = None) -> int:
    """Send `--count` made-up requests; return 0, or raise what does not hold."""
    limits = {name: str(getattr(_LIMITS, name)) for name in Limits.__struct_fields__}
    with tempfile.TemporaryDirectory(prefix="fuzz-receive-") as folder, ExitStack() as stack:
        scorer = stack.enter_context(Scorer(Path(folder), **limits))
        target = _Target(scorer)
        stack.callback(target.close)
        try_all(__doc__, argv, target.attempt, state=target.state)
        target.check_at_the_end()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
