"""Serves the pages and their JSON from the scorer's own HTTP server.

Invariants: nothing here changes anything; what takes long is done in other threads, two pages at a time. No page is
readable for another origin: a strict content policy, and, where only this machine is served, no foreign host name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from aiohttp import web

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.scorer.access import is_local
from otel_loopguard.scorer.filters import place
from otel_loopguard.scorer.pages.addresses import AddressError, Query, read_number, read_query, read_run_path
from otel_loopguard.scorer.pages.health import health_page
from otel_loopguard.scorer.pages.render import PATH, TYPES, Renderer
from otel_loopguard.scorer.pages.source import Source
from otel_loopguard.scorer.pages.sums import SUMMED_RUNS, SumsPage, releases_page, tools_page
from otel_loopguard.scorer.pages.timeline import RunPage, run_page
from otel_loopguard.scorer.pages.views import PAGE_RUNS, RunsPage, runs_page
from otel_loopguard.scorer.records import JudgedRun

CONTENT_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_AT_ONCE: Final = 2
_BLOCK_RUNS: Final = 500
_T = TypeVar("_T")
_Answer: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_routes(
    app: web.Application, source: Source, *, clock: Callable[[], int] = time.time_ns, any_host: bool = False
) -> None:
    """Adds the pages to an application.

    Args:
        app: not started yet.
        source: of everything that they show.
        clock: Unix time in nanoseconds, for filters that go back from now.
        any_host: answer requests for whatever host name. False, for a server that only this machine reaches: addresses
            and `localhost` only, so that no web site can have its own name point here and read the pages.
    """
    app.add_routes(page_routes(source, clock=clock, any_host=any_host))


def page_routes(
    source: Source, *, clock: Callable[[], int] = time.time_ns, any_host: bool = False
) -> list[web.RouteDef]:
    """Returns the pages as routes; see `add_routes`."""
    pages = _Pages(source, clock, any_host=any_host)
    answers = {
        "/": pages.runs,
        "/runs.json": pages.runs,
        "/runs/{run_id:(?s:.+)}": pages.run,
        "/run": pages.run_by_query,
        "/run.json": pages.run_by_query,
        "/tools": pages.tools,
        "/tools.json": pages.tools,
        "/releases": pages.releases,
        "/releases.json": pages.releases,
        "/health": pages.health,
        "/health.json": pages.health,
        f"{PATH}{{name}}": pages.file,
    }
    return [web.get(path, pages.guarded(answer)) for path, answer in answers.items()]


class _Pages:
    def __init__(self, source: Source, clock: Callable[[], int], *, any_host: bool) -> None:
        self._source = source
        self._clock = clock
        self._any_host = any_host
        self._renderer = Renderer()
        self._turn = asyncio.Semaphore(_AT_ONCE)

    def guarded(self, answer: _Answer) -> _Answer:
        """Puts around an answer what holds for all."""

        async def answered(request: web.Request) -> web.StreamResponse:
            if not (self._any_host or is_local(request.host)):
                return web.Response(status=421, text="this host name is not served: use the address itself\n")
            try:
                return await answer(request)
            except AddressError as error:
                return self._problem(request, 400, str(error))
            except LoopGuardError as error:
                return self._problem(request, 503, str(error))

        return answered

    async def runs(self, request: web.Request) -> web.Response:
        """Answers with the list of runs."""
        query = read_query(request.query, self._clock())

        def make() -> RunsPage:
            found = self._source.runs(query.filters, before=query.before, limit=PAGE_RUNS + 1)
            return runs_page(found, self._source.counts(query.filters), query)

        return await self._page(request, "runs", await self._made(make))

    async def run(self, request: web.Request) -> web.Response:
        """Answers with one run, whose id stands in the path."""
        run_id, json = read_run_path(request.rel_url.raw_path)
        return await self._run(request, run_id, json=json)

    async def run_by_query(self, request: web.Request) -> web.Response:
        """Answers with one run, whose id stands in the query."""
        return await self._run(request, request.query.get("id", ""), json=_wants_json(request))

    async def _run(self, request: web.Request, run_id: str, *, json: bool) -> web.Response:
        start = read_number(request.query.get("from"), "from")
        source = self._source
        judged = await self._made(lambda: source.run(run_id))
        if judged is None:
            return self._problem(request, 404, "There is no such run, or it is no longer kept.", json=json)
        # Before anything is worked out: most often a browser asks whether there is a new revision, and there is none.
        policy = source.policy
        tag = self._tag(f"{judged.judged_ns} {judged.verdict.revision} {start} {policy.digest8}".encode())
        if tag == request.headers.get("If-None-Match"):
            return web.Response(status=304, headers={**HEADERS, "ETag": tag})

        def make() -> RunPage:
            return run_page(judged, source.assembled(run_id), policy, start=start)

        return await self._page(request, "run", await self._made(make), json=json, tag=tag)

    async def tools(self, request: web.Request) -> web.Response:
        """Answers with the sums by tool."""
        query = read_query(request.query, self._clock())

        def make() -> SumsPage:
            found, more = self._newest(query)
            return tools_page(found, query, self._source.policy, more=more)

        return await self._page(request, "tools", await self._made(make))

    async def releases(self, request: web.Request) -> web.Response:
        """Answers with the sums by release."""
        query = read_query(request.query, self._clock())

        def make() -> SumsPage:
            found, more = self._newest(query)
            return releases_page(found, query, more=more)

        return await self._page(request, "releases", await self._made(make))

    async def health(self, request: web.Request) -> web.Response:
        """Answers with how the scorer does."""
        source = self._source
        return await self._page(
            request, "health", await self._made(lambda: health_page(source.health(), source.policy))
        )

    async def file(self, request: web.Request) -> web.Response:
        """Answers with a file that stands beside the pages."""
        name = request.match_info["name"]
        if name not in TYPES:
            return self._problem(request, 404, "There is no such page.")
        # The address holds the version: under it the file never changes.
        kept = request.query.get("v") == self._renderer.version
        headers = {**HEADERS, "Cache-Control": "max-age=31536000, immutable"} if kept else HEADERS
        return web.Response(body=self._renderer.files[name], content_type=TYPES[name], charset="utf-8", headers=headers)

    async def _made(self, make: Callable[[], _T]) -> _T:
        async with self._turn:
            return await asyncio.to_thread(make)

    def _newest(self, query: Query) -> tuple[list[JudgedRun], bool]:
        """Returns the newest runs, and whether there are more; block by block, for the sake of other readers."""
        found: list[JudgedRun] = []
        before = query.before
        while len(found) < SUMMED_RUNS:
            block = self._source.runs(query.filters, before=before, limit=_BLOCK_RUNS)
            found += block
            if len(block) < _BLOCK_RUNS:
                return found, False
            before = place(block[-1])
        return found, bool(self._source.runs(query.filters, before=before, limit=1))

    async def _page(
        self, request: web.Request, template: str, page: Any, *, json: bool | None = None, tag: str | None = None
    ) -> web.Response:
        body = msgspec.json.encode(page)
        tag = tag or self._tag(body)
        headers = {**HEADERS, "ETag": tag}
        if tag == request.headers.get("If-None-Match"):
            return web.Response(status=304, headers=headers)
        if _wants_json(request) if json is None else json:
            return web.Response(body=body, content_type="application/json", headers=headers)
        html = await self._made(lambda: self._renderer.html(template, page))
        return web.Response(text=html, content_type="text/html", headers=headers)

    def _tag(self, body: bytes) -> str:
        return f'"{blake2b(body + self._renderer.version.encode(), digest_size=12).hexdigest()}"'

    def _problem(self, request: web.Request, status: int, text: str, *, json: bool | None = None) -> web.Response:
        if _wants_json(request) if json is None else json:
            body = msgspec.json.encode({"error": text})
            return web.Response(body=body, status=status, content_type="application/json", headers=HEADERS)
        html = self._renderer.html("problem", None, status=text)
        return web.Response(text=html, status=status, content_type="text/html", headers=HEADERS)


def _wants_json(request: web.Request) -> bool:
    return request.path.endswith(".json")
