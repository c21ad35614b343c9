"""The pages behind tokens: a browser shows one as a password, and senders still must not."""

from __future__ import annotations

import asyncio
import base64

import aiohttp
import pytest

from otel_loopguard.scorer.access import Tokens
from otel_loopguard.scorer.http_server import HttpServer
from otel_loopguard.scorer.pages.routes import page_routes
from tests.scorer.pages.memory_source import demo_source
from tests.scorer.receivers import MemoryIntake, receiver

TOKEN = "a-token-of-24-characters"  # noqa: S105 - of this test


def _basic(password: str, user: str = "me") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


async def _asked(method: str, path: str, authorization: str | None) -> tuple[int, list[str]]:
    server = HttpServer(
        receiver(MemoryIntake()), tokens=Tokens([TOKEN]), routes=page_routes(demo_source(), any_host=True)
    )
    port = await server.start("127.0.0.1", 0)
    try:
        headers = {} if authorization is None else {"Authorization": authorization}
        if method == "POST":
            headers["Content-Type"] = "application/json"
        async with (
            aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
            session.request(method, path, headers=headers) as answer,
        ):
            return answer.status, answer.headers.getall("WWW-Authenticate", [])
    finally:
        await server.stop()


@pytest.mark.parametrize("path", ["/", "/runs.json", "/pages/page.css", "/health"])
def test_a_browser_shows_the_token_as_a_password(path: str) -> None:
    """Without it a browser is asked for a password; with it, whatever the name, the page comes."""
    assert (401, ["Bearer", 'Basic realm="otel-loopguard"']) == asyncio.run(_asked("GET", path, None))
    for given in (_basic(TOKEN), _basic(TOKEN, user=""), f"Bearer {TOKEN}"):
        assert (200, []) == asyncio.run(_asked("GET", path, given))


@pytest.mark.parametrize(
    "given", ["Basic", "Basic ===", "Basic \u00e9", _basic(""), _basic(TOKEN + "x"), f"Basic {TOKEN}", "Digest x"]
)
def test_anything_else_is_refused(given: str) -> None:
    """A wrong password, or what is none, opens nothing."""
    assert 401 == asyncio.run(_asked("GET", "/", given))[0]


def test_no_other_site_sends_with_a_browser_s_password() -> None:
    """A browser repeats a password to whoever makes it post: traces are taken with a bearer token alone."""
    assert (401, ["Bearer"]) == asyncio.run(_asked("POST", "/v1/traces", _basic(TOKEN)))
