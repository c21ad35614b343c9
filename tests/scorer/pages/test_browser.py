"""The pages in a real browser: filter, open a run, see the repeat, watch a new run come, and all of it by keyboard.

Needs Debian's `chromium` and PyPI's `playwright`; `-m browser` runs it. `LOOPGUARD_SCREENSHOTS` names a folder for
screenshots, which are for people to look at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from msgspec.structs import replace

from otel_loopguard.model import CallRecord
from otel_loopguard.scorer.pages.render import LIT_FINDINGS
from otel_loopguard.scorer.pages.timeline import COLOURS
from tests.lint.linting import calls_of, spans_without_content
from tests.scorer.pages.memory_source import NOW_NS, MemorySource, demo_source, demo_spans
from tests.scorer.pages.serving import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = pytest.mark.browser

CHROMIUM: Final = "/usr/bin/chromium"
WAIT_MS: Final = 15_000
WIDE: Final = {"width": 1280, "height": 900}
NARROW: Final = {"width": 320, "height": 720}
ADDRESSES: Final = ("/", "/tools", "/releases", "/health", "RUN")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests of this module."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if not Path(CHROMIUM).exists():
        pytest.skip("needs Chromium: apt-get install chromium")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def source() -> MemorySource:
    """The demo's runs."""
    return demo_source()


@pytest.fixture
def server(source: MemorySource) -> Iterator[Server]:
    """They are served."""
    with Server(source) as served:
        yield served


class Watched:
    """A page, and everything that went wrong in it."""

    def __init__(self, browser: Browser, server: Server, **options: Any) -> None:
        self.context: BrowserContext = browser.new_context(**{"viewport": WIDE, **options})
        self.context.set_default_timeout(WAIT_MS)
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._asked)
        self._server = server

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(self._server.url + "/"):
            self.foreign.append(request.url)

    def go(self, path: str) -> Page:
        """Opens one of the pages."""
        self.page.goto(self._server.url + path)
        return self.page

    def close(self) -> None:
        """Says what went wrong."""
        self.context.close()
        assert ([], []) == (self.errors, self.foreign)


@pytest.fixture
def watched(browser: Browser, server: Server) -> Iterator[Watched]:
    """A page in a fresh context; nothing may go wrong in it."""
    opened = Watched(browser, server)
    yield opened
    opened.close()


def _path_of(scene: str) -> str:
    return f"/runs/{demo_spans()[scene][0].trace_id}"


def _colour(page: Page, selector: str) -> list[str]:
    script = "(all) => all.map((one) => getComputedStyle(one).backgroundColor)"
    found: list[str] = page.locator(selector).evaluate_all(script)
    return found


def _texts(page: Page, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(selector).all_text_contents()]


def _shot(page: Page, name: str) -> None:
    folder = os.environ.get("LOOPGUARD_SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png")


# --- what a person does -------------------------------------------------------------------------------------------


def test_filter_open_a_run_and_see_the_repeat(watched: Watched) -> None:
    """From all runs by the outcome and a tool to the one run, whose five equal calls look the same."""
    page = watched.go("/")
    assert 5 == page.locator("#rows tr").count()
    page.get_by_role("link", name="2 loop").click()
    assert 2 == page.locator("#rows tr").count()
    page.get_by_label("Tool").fill("lookup_order")
    page.get_by_role("button", name="Filter", exact=True).click()
    page.wait_for_url("**/*tool=lookup_order*")
    assert "outcome=loop" in page.url
    assert 1 == page.locator("#rows tr").count()
    page.locator("#rows a.id").click()
    page.wait_for_url("**/runs/*")
    marks = _texts(page, ".mark.asked")
    assert (5, 1, True) == (len(marks), len(set(marks)), marks[0].startswith("A "))
    colours = _colour(page, ".mark.asked")
    assert (1, True) == (len(set(colours)), colours[0] not in ("rgba(0, 0, 0, 0)", "transparent"))
    assert ["first", "unchanged \u00d72", "unchanged \u00d73", "unchanged \u00d74", "unchanged \u00d75"] == _texts(
        page, ".call .progress"
    )
    assert ["exact repeat"] == _texts(page, "#call-3 .kind")
    _shot(page, "run")


def test_differing_calls_look_different(watched: Watched) -> None:
    """The two calls of a circle have two letters and two colours; calls that come once have none."""
    page = watched.go(_path_of("circle"))
    marks, colours = _texts(page, ".mark.asked"), _colour(page, ".mark.asked")
    assert 2 == len({*zip(marks, colours, strict=True)}) == len(set(marks)) == len(set(colours))
    page = watched.go(_path_of("refund"))
    assert {"rgba(0, 0, 0, 0)"} == set(_colour(page, ".mark.asked"))


def test_a_finding_lights_its_calls(watched: Watched) -> None:
    """While a finding is pointed at or has the focus, its calls stand out, and no other."""
    page = watched.go(_path_of("circle"))
    before = _colour(page, ".call")
    page.locator("#finding-1").hover()
    lit = [
        place for place, (one, other) in enumerate(zip(before, _colour(page, ".call"), strict=True), 1) if one != other
    ]
    assert [2, 4, 6] == lit
    _shot(page, "finding")
    page.mouse.move(0, 0)
    assert before == _colour(page, ".call")
    page.locator("#finding-2").focus()
    assert [] == [one for one, other in zip(before, _colour(page, ".call"), strict=True) if one == other]


def test_a_new_run_appears(watched: Watched, source: MemorySource) -> None:
    """The list takes in what is judged, and leaves alone what has the focus."""
    page = watched.go("/")
    first = page.locator("#rows a.id").first
    first.focus()
    address = first.get_attribute("href")
    source.add(
        [CallRecord(run_id="new", sequence=n, tool="find", arguments={"q": 1}, result=1) for n in range(1, 4)],
        judged_ns=NOW_NS * 2,
    )
    page.locator("#rows tr", has_text="new").wait_for()
    assert 6 == page.locator("#rows tr").count()
    assert "new" in (page.locator("#rows tr").first.text_content() or "")
    assert ["6 all", "3 loop"] == _texts(page, "#outcomes a")[:2]
    assert address == page.evaluate("document.activeElement.getAttribute('href')")
    _shot(page, "live")


def test_live_updates_survive_a_restart(browser: Browser, server: Server, source: MemorySource) -> None:
    """While the scorer is away the page says so, and goes on by itself when it is back."""
    watched = Watched(browser, server)
    page = watched.go("/")
    server.stop()
    page.locator("#live[data-state=off]").wait_for()
    source.add([CallRecord(run_id="after", sequence=1, tool="find")], judged_ns=NOW_NS * 2)
    server.start()
    page.locator("#live[data-state=on]").wait_for()
    page.locator("#rows tr", has_text="after").wait_for()
    watched.context.close()
    # The browser itself notes each refused connection; nothing else may go wrong.
    assert [] == [text for text in watched.errors if "ERR_CONNECTION_REFUSED" not in text and "ERR_" not in text]
    assert [] == watched.foreign


def test_updates_can_be_paused(watched: Watched, source: MemorySource) -> None:
    """A person who reads holds the page still, and lets it go on."""
    page = watched.go("/")
    page.get_by_role("button", name="Pause live updates").click()
    source.add([CallRecord(run_id="held", sequence=1, tool="find")], judged_ns=NOW_NS * 2)
    page.wait_for_timeout(3000)
    assert 5 == page.locator("#rows tr").count()
    page.get_by_role("button", name="Go on with live updates").click()
    page.locator("#rows tr", has_text="held").wait_for()


def test_by_keyboard_alone(watched: Watched) -> None:
    """Skip link, filters, a run, a finding and a call are reached and used without a pointer; focus is visible."""
    page = watched.go("/")

    def focused() -> str:
        script = "document.activeElement.textContent.trim() || document.activeElement.name || ''"
        text: str = page.evaluate(script)
        return text

    def tab_to(text: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert (focused(), "none") != (focused(), outline)
            if text in focused():
                return
        message = f"the Tab key does not lead to {text!r}"
        raise AssertionError(message)

    page.keyboard.press("Tab")
    assert "Skip to the content" == focused()
    assert page.locator(".skip").is_visible()
    page.keyboard.press("Enter")
    assert "main" == page.evaluate("document.activeElement.id")
    tab_to("2 loop")
    page.keyboard.press("Enter")
    page.wait_for_url("**outcome=loop**")
    tab_to("tool")
    page.keyboard.type("lookup_order")
    page.keyboard.press("Enter")
    page.wait_for_url("**tool=lookup_order**")
    tab_to(demo_spans()["stuck"][0].trace_id)
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/**")
    tab_to("exact repeat")
    assert "finding-1" == page.evaluate("document.activeElement.id")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.url.endswith("#call-2")
    assert "call-2" == page.evaluate("document.querySelector(':target').id")


def test_without_javascript(browser: Browser, server: Server) -> None:
    """Filters, links and the light on a finding's calls work without any script."""
    watched = Watched(browser, server, java_script_enabled=False)
    page = watched.go("/")
    page.get_by_label("Tool").fill("find_account")
    page.get_by_role("button", name="Filter", exact=True).click()
    page.wait_for_url("**tool=find_account**")
    page.locator("#rows a.id").click()
    page.wait_for_url("**/runs/**")
    assert [_path_of("circle")] == [page.url.removeprefix(server.url)]
    assert "" == (page.locator("#live").text_content() or "").strip()
    watched.close()


def test_hostile_names_do_nothing(watched: Watched, source: MemorySource) -> None:
    """A run whose names are markup is listed and opened, and no script runs."""
    name = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    run = max(source.kept.values(), key=lambda one: one.judged_ns)
    verdict = replace(run.verdict, service=name, agent=name, run_id=name)
    source.kept[name] = replace(run, run_id=name, verdict=verdict, judged_ns=NOW_NS * 2)
    source.groups[name] = source.groups[run.run_id]
    source.names[name] = run.run_id
    page = watched.go("/")
    assert name in (page.locator("#rows tr").first.text_content() or "")
    page.locator("#rows a.id").first.click()
    page.wait_for_url("**/runs/**")
    assert "owned" not in page.title().replace(name, "")
    assert 0 == page.locator("main img").count()


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_lint_of_the_policy_is_read_below_the_tools(
    browser: Browser, server: Server, source: MemorySource, size: dict[str, int]
) -> None:
    """Each piece of advice says what was seen and what to write, and leads to the runs of its tool."""
    for number in range(2):
        records = calls_of([{"rows": n} for n in range(9)], run_id=f"run-{number}", tool="get_export_status")
        source.add(spans_without_content(records, source.policy))
    watched = Watched(browser, server, viewport=size)
    page = watched.go("/tools")
    assert "Policy lint" == page.locator("#lint-title").text_content()
    (said,) = _texts(page, ".lint li")
    assert said.startswith("get_export_status: the rule `rows increases` said that it advanced at each of 16 ")
    assert "change `progress` to a field" in said
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert [] == page.evaluate(CONTRAST)
    _shot(page, f"tools-lint-{size['width']}")
    page.locator(".lint a").click()
    page.wait_for_url("**/?tool=get_export_status")
    watched.close()


# --- how it looks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW, {"width": 900, "height": 700}], ids=["wide", "narrow", "between"])
@pytest.mark.parametrize("address", ADDRESSES)
def test_every_page_fits(browser: Browser, server: Server, address: str, size: dict[str, int], scheme: str) -> None:
    """No page is wider than its window, light or dark, and text keeps its contrast."""
    watched = Watched(browser, server, viewport=size, color_scheme=scheme)
    page = watched.go(_path_of("circle") if address == "RUN" else address)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert [] == page.evaluate(CONTRAST)
    _shot(page, f"{address.strip('/') or 'runs'}-{size['width']}-{scheme}")
    watched.close()


def test_a_printed_page_is_light(browser: Browser, server: Server) -> None:
    """Whoever prints from a dark screen gets dark text on white."""
    watched = Watched(browser, server, color_scheme="dark")
    page = watched.go(_path_of("circle"))
    page.emulate_media(media="print")
    assert "rgb(255, 255, 255)" == page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert [] == page.evaluate(CONTRAST)
    assert not page.locator("nav").is_visible()
    _shot(page, "print")
    watched.close()


def test_the_style_sheet_has_a_rule_for_each_colour_and_finding(watched: Watched) -> None:
    """What the records number is what the style sheet knows."""
    page = watched.go("/")
    rules: str = page.evaluate("[...document.styleSheets[0].cssRules].map((rule) => rule.cssText).join('\\n')")
    assert [True] * COLOURS == [f".c{number} {{" in rules for number in range(1, COLOURS + 1)]
    assert f".c{COLOURS + 1} {{" not in rules
    assert [True] * LIT_FINDINGS == [f"#finding-{number}:is(" in rules for number in range(1, LIT_FINDINGS + 1)]
    assert f"#finding-{LIT_FINDINGS + 1}:" not in rules


CONTRAST: Final = """
(() => {
  // Text against the nearest ground that is painted behind it, by the rule of WCAG 2: 4.5 at least.
  const numbers = (colour) => (colour.match(/[0-9.]+/g) || []).map(Number);
  const part = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([red, green, blue]) => 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = numbers(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest("svg, .away, .skip, option")) continue;
    const [one, other] = [light(numbers(getComputedStyle(node).color)), light(ground(node))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) bad.push(`${node.className || node.tagName}: ${node.textContent.trim()} ${ratio.toFixed(2)}`);
  }
  return bad;
})()
"""
