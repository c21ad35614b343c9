"""The pages over HTTP: what they answer, and that nothing from outside gets into their markup."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from yarl import URL

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.model import CallFacts, Role, SpanFacts
from otel_loopguard.scorer.filters import Filters, place
from otel_loopguard.scorer.pages.addresses import run_path
from otel_loopguard.scorer.pages.routes import CONTENT_POLICY
from otel_loopguard.scorer.pages.source import Health
from tests.scorer.pages.memory_source import NOW_NS, MemorySource, demo_source
from tests.scorer.pages.serving import Client, serve

PAGES = ("/", "/tools", "/releases", "/health")
HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "' onmouseover='x",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe\u2066",
    "\u05e9\u05dc\u05d5\u05dd",
    "a\nb\x00c\x1b[31m",
    "x" * 128,
    "a/../b?c#d&e=f%2F",
    "javascript:alert(1)",
    "&lt;b&gt;",
)


def _get(source: MemorySource, *paths: str, headers: dict[str, str] | None = None) -> list[tuple[int, Any, str]]:
    """Status, headers and text of each path."""

    async def use(client: Client) -> list[tuple[int, Any, str]]:
        root = str(client.make_url("/")).rstrip("/")
        found = []
        for path in paths:
            async with client.session.get(URL(root + path, encoded=True), headers=headers) as answer:
                found.append((answer.status, answer.headers, await answer.text()))
        return found

    found: list[tuple[int, Any, str]] = serve(source, use)
    return found


class _Markup(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes a tag."""
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Notes text."""
        self.text.append(data)


def _markup(text: str) -> _Markup:
    parser = _Markup()
    parser.feed(text)
    parser.close()
    return parser


def _hostile_source(name: str) -> tuple[MemorySource, str]:
    """One run in which everything that can come from outside is `name`."""
    source = demo_source()
    run = max(source.kept.values(), key=place)
    verdict = run.verdict
    facts = tuple(
        msgspec.structs.replace(one, agent=name, call=msgspec.structs.replace(one.call, tool=name, call_id=name))
        if one.call is not None
        else one
        for one in source.groups[run.run_id]
    )
    found = tuple(msgspec.structs.replace(one, tool=name, agent=name, rule=name) for one in verdict.findings)
    verdict = msgspec.structs.replace(
        verdict,
        run_id=name,
        service=name,
        release=name,
        agent=name,
        model=name,
        policy=name,
        key_ids=(name,),
        findings=found,
    )
    source.kept[name] = msgspec.structs.replace(
        run, run_id=name, verdict=verdict, tools={name: 6}, judged_ns=NOW_NS * 2
    )
    source.groups[name] = facts
    source.names[name] = run.run_id
    source.told = Health(started_ns=NOW_NS, refused={name: 1}, rejected={name: 2}, outbox={name: 3}, evicted={name: 4})
    return source, name


# --- answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES)
def test_each_page_has_html_and_json(path: str) -> None:
    """Each page answers as HTML, and its JSON stands beside it."""
    beside = "/runs.json" if path == "/" else f"{path}.json"
    (status, headers, text), (json_status, json_headers, body) = _get(demo_source(), path, beside)
    assert (200, "text/html; charset=utf-8") == (status, headers["Content-Type"])
    assert text.startswith("<!doctype html>")
    assert (200, "application/json") == (json_status, json_headers["Content-Type"])
    assert isinstance(json.loads(body), dict)


def test_every_link_of_every_page_leads_somewhere() -> None:
    """Whoever follows all links meets pages only, all on this host."""
    source = demo_source()
    seen, waiting = set(), ["/"]
    while waiting:
        path = waiting.pop()
        seen.add(path)
        ((status, headers, text),) = _get(source, path)
        assert (path, 200) == (path, status)
        if not headers["Content-Type"].startswith("text/html"):
            continue
        markup = _markup(text)
        ids = {attributes.get("id") for _, attributes in markup.tags}
        for tag, attributes in markup.tags:
            target = attributes.get("href") or attributes.get("src") or attributes.get("action")
            if target is None:
                continue
            if target.startswith("#"):
                assert (path, tag, True) == (path, tag, target[1:] in ids)
            else:
                assert (path, tag, True) == (path, tag, target.startswith("/") and not target.startswith("//"))
                address = target.partition("#")[0]
                if address not in seen and address not in waiting and address.count("=") < 2:
                    waiting.append(address)
    assert len(seen) > 15


@pytest.mark.parametrize("path", [*PAGES, "/runs.json", "/nothing-here", "/pages/page.css", "/?outcome=x"])
def test_each_answer_is_guarded(path: str) -> None:
    """No answer of ours runs or loads what is not from here; other origins get nothing."""
    ((status, headers, _),) = _get(demo_source(), path)
    if path == "/nothing-here":
        assert 404 == status
        return
    assert CONTENT_POLICY == headers["Content-Security-Policy"]
    assert "unsafe" not in CONTENT_POLICY
    assert ("nosniff", "no-referrer", "same-origin") == (
        headers["X-Content-Type-Options"],
        headers["Referrer-Policy"],
        headers["Cross-Origin-Resource-Policy"],
    )
    assert "Access-Control-Allow-Origin" not in headers


def test_filters_work_over_http() -> None:
    """The address narrows the list."""
    ((_, _, body),) = _get(demo_source(), "/runs.json?outcome=loop&service=demo-shop&tool=lookup_order&since=1h")
    found = json.loads(body)
    assert (["loop"], 1, {"loop": 1}) == (
        [run["outcome"] for run in found["runs"]],
        found["total"],
        {one["outcome"]: one["runs"] for one in found["outcomes"]},
    )


def test_what_cannot_be_read_is_a_clear_400() -> None:
    """A bad filter says what it must be like, as HTML and as JSON."""
    (status, _, text), (json_status, _, body) = _get(demo_source(), "/?since=soon", "/runs.json?since=soon")
    assert (400, 400) == (status, json_status)
    assert "since must be like" in text
    assert json.loads(body)["error"].startswith("since must be like")


def test_an_unknown_run_is_a_404() -> None:
    """Of a run that is not kept there is a page that says so, and JSON."""
    (status, _, text), (json_status, _, body) = _get(demo_source(), "/runs/none", "/runs/none.json")
    assert (404, 404) == (status, json_status)
    assert "no longer kept" in text
    assert "error" in json.loads(body)


def test_what_has_not_changed_is_not_sent_again() -> None:
    """A browser that shows the newest page is told so; a new verdict is sent."""
    source = demo_source()
    run = max(source.kept.values(), key=place)
    for path in ("/", "/health", "/tools", run_path(run.run_id), run_path(run.run_id, json=True)):
        ((_, headers, _),) = _get(source, path)
        ((status, _, text),) = _get(source, path, headers={"If-None-Match": headers["ETag"]})
        assert (path, 304, "") == (path, status, text)
    ((_, headers, _),) = _get(source, run_path(run.run_id))
    revised = msgspec.structs.replace(run.verdict, revision=2)
    source.kept[run.run_id] = msgspec.structs.replace(run, verdict=revised, judged_ns=run.judged_ns + 1)
    ((status, _, text),) = _get(source, run_path(run.run_id), headers={"If-None-Match": headers["ETag"]})
    assert (200, True) == (status, "revision 2" in text)


def test_a_store_that_fails_is_a_503() -> None:
    """What the source cannot answer is said, and tried again by the browser."""

    class Failing(MemorySource):
        def counts(self, filters: Filters) -> Any:
            assert filters == Filters()
            message = "the data folder cannot be read"
            raise LoopGuardError(message)

    (status, _, text), (json_status, _, _) = _get(Failing(), "/", "/runs.json")
    assert (503, 503, True) == (status, json_status, "the data folder cannot be read" in text)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:4318", 200),
        ("localhost:4318", 200),
        ("localhost", 200),
        ("[::1]:4318", 200),
        ("10.0.0.7", 200),
        ("scorer.localhost:1", 200),
        ("evil.example", 421),
        ("evil.example:4318", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
    ],
)
def test_a_foreign_host_name_is_not_served(host: str, status: int) -> None:
    """A web site that has its name point to this machine reads nothing, unless the scorer is served to others."""
    source = demo_source()
    ((found, _, text),) = _get(source, "/runs.json", headers={"Host": host})
    assert (status, status == 200) == (found, "demo-shop" in text)

    async def use(client: Client) -> int:
        async with client.get("/runs.json", headers={"Host": host}) as answer:
            return answer.status

    assert 200 == serve(source, use, any_host=True)


def test_files_are_kept_by_browsers_under_their_version_only() -> None:
    """The style sheet's address in a page may be kept for ever; the bare address may not."""
    source = demo_source()
    ((_, _, text),) = _get(source, "/")
    address = next(str(found["href"]) for tag, found in _markup(text).tags if found.get("rel") == "stylesheet" and tag)
    (_, kept, _), (_, bare, _), (unknown, _, _) = _get(source, address, "/pages/page.css", "/pages/routes.py")
    assert ("max-age=31536000, immutable", "no-cache", 404) == (
        kept["Cache-Control"],
        bare["Cache-Control"],
        unknown,
    )


# --- what comes from outside --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(name: str) -> None:
    """Whatever a name holds, each page has the tags that it has for a harmless name, and no control characters."""
    plain_source, plain = _hostile_source("harmless")
    source, _ = _hostile_source(name)
    paths = [*PAGES, run_path(name)]
    for path, (status, _, text), (_, _, calm) in zip(
        paths, _get(source, *paths), _get(plain_source, *PAGES, run_path(plain)), strict=True
    ):
        assert (path, 200) == (path, status)
        markup, harmless = _markup(text), _markup(calm)
        assert [(tag, sorted(found)) for tag, found in harmless.tags] == [
            (tag, sorted(found)) for tag, found in markup.tags
        ]
        assert [] == [found for _, found in markup.tags if any(key.startswith("on") or key == "style" for key in found)]
        assert [] == [char for char in "\x00\x1b\u202e\u2066" if char in text]
        targets = [found.get("href") or "/" for _, found in markup.tags if "href" in found]
        assert [] == [target for target in targets if not target.startswith(("/", "#"))]


@pytest.mark.parametrize("name", [*HOSTILE, ".", "..", "a.json", "%2F", "a%2Fb", "\u00e4 \u00f6", "x~2"])
def test_a_run_with_a_hostile_id_can_be_opened(name: str) -> None:
    """The list's own link leads to the run, and so does its JSON."""
    source, _ = _hostile_source(name)
    ((_, _, body),) = _get(source, "/runs.json")
    row = json.loads(body)["runs"][0]
    ((status, _, text), (json_status, _, page)) = _get(source, row["path"], run_path(name, json=True))
    assert (name, 200, 200) == (row["run_id"], status, json_status)
    assert name == json.loads(page)["run"]["run_id"]
    assert "lookup" in text or "call" in text


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_filter_comes_back_as_text(name: str) -> None:
    """What stands in the address is put into the form as it is, and into no markup."""
    query = urlencode({"service": name, "tool": name})
    for path in ("/", "/tools", "/releases"):
        ((status, _, text),) = _get(demo_source(), f"{path}?{query}")
        fields = [found for tag, found in _markup(text).tags if tag == "input" and found.get("name") == "service"]
        assert (200, [name.replace("\x00", "\ufffd")]) == (
            status,
            [(found["value"] or "").replace("\x00", "\ufffd") for found in fields],
        )
        assert "<script>alert" not in text


def test_no_page_holds_script_or_style() -> None:
    """Scripts and styles are files; nothing stands in the page itself, and nothing is asked of another host."""
    source = demo_source()
    paths = [*PAGES, *(run_path(run_id) for run_id in source.kept)]
    for _, _, text in _get(source, *paths):
        markup = _markup(text)
        assert [] == [found for tag, found in markup.tags if tag == "script" and "src" not in found]
        assert [] == [tag for tag, _ in markup.tags if tag == "style"]
        assert "http://" not in text
        assert "https://" not in text


def test_calls_without_anything_known_are_shown() -> None:
    """Facts that hold nothing but a tool's name make a page all the same."""
    source = MemorySource()
    facts = [
        SpanFacts(trace_id="1" * 32, span_id=f"{number:016x}", role=Role.TOOL, call=CallFacts(tool="t"))
        for number in range(1, 4)
    ]
    (run,) = source.add_facts(facts)
    ((status, _, text),) = _get(source, run_path(run.run_id))
    assert (200, 3) == (status, text.count('class="call-number"'))
