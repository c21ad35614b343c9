"""Puts the parts of the scorer together, and runs them until it is told to stop.

Invariants: everything is checked before the first span is taken. It stops in an order in which nothing that was
acknowledged is lost and nothing waits for what has ended: receivers, judge, outputs, store. A thread that dies ends the
process, for whoever watches it to start it again: what is on disk is judged then.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

from aiohttp import hdrs, web

from otel_loopguard import policy as policies
from otel_loopguard.digest import Keyring
from otel_loopguard.errors import LoopGuardError, ServeError
from otel_loopguard.keys import EPHEMERAL_PREFIX, load_key
from otel_loopguard.scorer.access import TlsFiles, Tokens, grpc_credentials, ssl_context
from otel_loopguard.scorer.collecting import collect_seldom
from otel_loopguard.scorer.exposition import negotiated, render
from otel_loopguard.scorer.groups import Limits as GroupLimits
from otel_loopguard.scorer.grpc_server import GrpcServer
from otel_loopguard.scorer.http_server import HttpServer
from otel_loopguard.scorer.intake import IntakeQueue
from otel_loopguard.scorer.judge import Judge
from otel_loopguard.scorer.otlp_events import VerdictEvents
from otel_loopguard.scorer.otlp_metrics import MetricsPush
from otel_loopguard.scorer.outputs import Outlet, Repeating, Sink, VerdictFile
from otel_loopguard.scorer.pages.routes import add_routes
from otel_loopguard.scorer.pages.store_source import StoreSource
from otel_loopguard.scorer.posting import Poster, read_headers
from otel_loopguard.scorer.quiet import LoopFaults
from otel_loopguard.scorer.rate import Rate
from otel_loopguard.scorer.receiving import Limits, Receiver
from otel_loopguard.scorer.settings import ScorerSettings, is_loopback
from otel_loopguard.scorer.standing import Standing
from otel_loopguard.scorer.store import Store
from otel_loopguard.scorer.totals import Accumulated

METRICS_PATH: Final = "/metrics"
HEADERS_VARIABLE: Final = "OTEL_EXPORTER_OTLP_HEADERS"
"""What is sent along to `--otlp-endpoint`, as exporters of OpenTelemetry read it."""
EVICT_EVERY_S: Final = 60.0
TOKENS_EVERY_S: Final = 2.0
"""How often it is looked whether the token file has changed."""
_WATCH_EVERY_S: Final = 0.5
_NS_PER_DAY: Final = 86_400 * 10**9
_LOG: Final = logging.getLogger(__name__)
Say = Callable[[str], None]


class Scorer:
    """One scorer: its store, what fills it, and what reads it.

    Args:
        settings: as read.
        environ: where the digest key is looked for.
        clock: Unix time in nanoseconds.

    Raises:
        LoopGuardError: the policy, the key, the data folder, a token or a certificate cannot be used.

    Thread safety: `start` and `stop` on one event loop.
    """

    def __init__(
        self, settings: ScorerSettings, environ: Mapping[str, str], *, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._settings, self._clock = settings, clock
        policy = policies.load_file(settings.policy) if settings.policy is not None else policies.default()
        key = load_key(environ)
        self.key_is_forgotten: Final = key.key_id.startswith(EPHEMERAL_PREFIX)
        self._tokens = tokens = Tokens() if settings.token_file is None else Tokens.from_file(settings.token_file)
        tls = None
        if settings.tls_cert is not None and settings.tls_key is not None:
            tls = TlsFiles(cert=settings.tls_cert, key=settings.tls_key, client_ca=settings.tls_client_ca)
        self._headers = read_headers(environ.get(HEADERS_VARIABLE, ""))
        https = None if tls is None else ssl_context(tls)
        self._store = store = Store(settings.data, clock=clock)
        with contextlib.ExitStack() as undo:
            undo.callback(store.close)
            self.totals: Final = Accumulated(store.totals(), now_ns=clock(), wait_ns=int(settings.zeros_s * 1e9))
            self._judge = Judge(store, policy, limits=GroupLimits.of(settings), counts=self.totals, clock=clock)
            self.recovered_rows: Final = self._judge.recover()
            self._intake = IntakeQueue(
                store,
                policy,
                Keyring(key),
                learn=self._judge.learn,
                load=self._judge.load,
                raw=settings.raw,
                clock=clock,
            )
            self._receiver = Receiver(
                self._intake,
                shapes=self._intake.shapes,
                limits=Limits(max_body_bytes=settings.max_body_bytes, max_unpacked_bytes=settings.max_unpacked_bytes),
                rate=Rate(settings.max_spans_per_s),
            )
            self._outlets = tuple(Outlet(store, sink) for sink in self._sinks())
            self._standing = Standing(
                settings=settings,
                store=store,
                judge=self._judge,
                receiver=self._receiver,
                totals=self.totals,
                outlets=self._outlets,
                clock=clock,
            )
            self._http = self._grpc = None
            if settings.http is not None:
                any_host = not is_loopback(settings.http)
                self._http = HttpServer(
                    self._receiver,
                    tokens=tokens,
                    ready=self._is_ready,
                    routes=[web.get(METRICS_PATH, self._metrics)],
                    tls=https,
                    any_host=any_host,
                )
                source = StoreSource(store, lambda: policy, self._standing.page)
                add_routes(self._http.application, source, clock=clock, any_host=any_host)
            if settings.grpc is not None:
                self._grpc = GrpcServer(
                    self._receiver, tokens=tokens, tls=None if tls is None else grpc_credentials(tls)
                )
            undo.pop_all()
        self._judging = threading.Thread(target=self._judge.run, name="loopguard-judge", daemon=True)
        steps = [(outlet.step, "loopguard-out") for outlet in self._outlets]
        if settings.otlp_endpoint is not None:
            push = MetricsPush(
                self.totals,
                self._standing.values,
                poster=self._poster(settings.otlp_endpoint),
                resource=_resource(),
                clock=clock,
            )
            self._standing.also(push.health)
            steps.append((push.step, "loopguard-metrics"))
        steps.append((self._evict, "loopguard-evict"))
        if settings.token_file is not None:
            steps.append((self._read_tokens, "loopguard-tokens"))
        self._repeating = [Repeating(step, name=name) for step, name in steps]
        self._started = False

    def _poster(self, endpoint: str) -> Poster:
        return Poster(endpoint, headers=self._headers)

    def _sinks(self) -> list[Sink]:
        settings = self._settings
        sinks: list[Sink] = []
        if settings.verdict_file is not None:
            _check_file(settings.verdict_file)
            sinks.append(VerdictFile(settings.verdict_file))
        if settings.otlp_endpoint is not None:
            sinks.append(VerdictEvents(self._poster(settings.otlp_endpoint), _resource()))
        return sinks

    def is_well(self) -> bool:
        """Tells whether everything runs that should."""
        return self._started and self._judging.is_alive() and all(one.is_alive() for one in self._repeating)

    def _is_ready(self) -> bool:
        """Tells whether spans would be taken: the last commit did not fail; once a minute at least there is one."""
        return self.is_well() and self._store.counts.trouble is None

    async def start(self) -> dict[str, str]:
        """Starts everything.

        Returns:
            Addresses that are served, by protocol.

        Raises:
            ServeError: an address cannot be bound; nothing runs then.
        """
        served: dict[str, str] = {}
        try:
            if self._http is not None and self._settings.http is not None:
                host, _, port = self._settings.http.rpartition(":")
                bound = await self._http.start(host.strip("[]"), int(port))
                served["http"] = f"{host}:{bound}"
            if self._grpc is not None and self._settings.grpc is not None:
                host = self._settings.grpc.rpartition(":")[0]
                served["grpc"] = f"{host}:{self._grpc.start(self._settings.grpc)}"
        except ServeError:
            await self.stop()
            raise
        self._judging.start()
        for one in self._repeating:
            one.start()
        self._started = True
        return served

    async def stop(self) -> None:
        """Stops everything; what was acknowledged is on disk, and what is not judged yet is judged next time."""
        loop = asyncio.get_running_loop()
        if self._http is not None:
            await self._http.stop()
        if self._grpc is not None:
            await loop.run_in_executor(None, self._grpc.stop)
        self._intake.stop()
        await loop.run_in_executor(None, self._end_threads)

    def _end_threads(self) -> None:
        self._judge.stop()
        if self._judging.is_alive():
            self._judging.join()
        if self._started:
            for one in self._repeating:
                one.stop()
        self._started = False
        self._store.close()

    async def _metrics(self, request: web.Request) -> web.Response:
        snapshot = self.totals.snapshot(now_ns=self._clock())
        form = negotiated(request.headers.get(hdrs.ACCEPT))
        body = await asyncio.get_running_loop().run_in_executor(
            None, lambda: render(snapshot, self._standing.values(), form)
        )
        self.totals.seen(snapshot)
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: form.value})

    def _read_tokens(self) -> float:
        try:
            if self._tokens.read_again():
                _LOG.warning("the token file has changed: its tokens hold from now on, and no others")
        except ServeError as error:
            _LOG.error("the tokens of before hold: %s", error)
        return TOKENS_EVERY_S

    def _evict(self) -> float:
        before_ns = self._clock() - int(self._settings.retention_days * _NS_PER_DAY)
        try:
            gone = self._store.evict(before_ns=before_ns, max_bytes=self._settings.max_data_bytes)
        except LoopGuardError as error:
            _LOG.warning("old runs could not be deleted, and are tried again: %s", error)
            return EVICT_EVERY_S
        self._standing.evicted(gone)
        return EVICT_EVERY_S


def _check_file(path: Path) -> None:
    """Refuses what no verdict can ever be added to, before anything is received."""
    if not path.parent.is_dir() or (path.exists() and not path.is_file()):
        message = f"the verdict file {path} is not a file in a folder that is there: name another with --verdict-file"
        raise ServeError(message)


def _resource() -> dict[str, str]:
    return {"service.name": "otel-loopguard", "service.version": metadata.version("otel-loopguard")}


def serve(settings: ScorerSettings, environ: Mapping[str, str], *, say: Say) -> None:
    """Runs a scorer until SIGTERM or SIGINT.

    Args:
        settings: as read.
        environ: where the digest key is looked for.
        say: told in single lines what is served and what is wrong.

    Raises:
        LoopGuardError: it cannot run, or a part of it died.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(_serve(settings, environ, say))


async def _serve(settings: ScorerSettings, environ: Mapping[str, str], say: Say) -> None:
    loop = asyncio.get_running_loop()
    collect_seldom(loop)
    scorer = Scorer(settings, environ)
    ended = asyncio.Event()
    loop.set_exception_handler(LoopFaults())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    served = await scorer.start()
    if scorer.key_is_forgotten:
        say(
            "no digest key is configured: content that still arrives is digested under one that is forgotten at the end"
        )
    if scorer.recovered_rows:
        say(f"{scorer.recovered_rows} arrivals of before wait to be judged")
    for protocol, address in served.items():
        say(f"OTLP/{protocol.upper() if protocol == 'http' else 'gRPC'} is received at {address}")
    say(f"ready, process {os.getpid()}, data in {settings.data}")
    well = True
    while well and not ended.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), _WATCH_EVERY_S)
        well = scorer.is_well()
    say("stopping")
    await scorer.stop()
    if not well:
        message = "a part of the scorer died; what was acknowledged is on disk: start it again, and report the log"
        raise ServeError(message)
