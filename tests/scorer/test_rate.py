"""The rate: what may come at once, what later, and when to come again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard.scorer.rate import Rate
from otel_loopguard.scorer.records import Refusal, RefusedError


def _taken(rate: Rate, spans: int) -> float | None:
    """None where a request was taken, or the seconds after which to send it again."""
    try:
        rate.check()
        rate.spend(spans)
    except RefusedError as refused:
        return refused.retry_after_s if refused.reason is Refusal.RATE else -1.0
    return None


def test_no_limit_takes_all() -> None:
    """A rate of 0 is none."""
    rate = Rate(0, clock=lambda: 0.0)
    assert [None] * 3 == [_taken(rate, 10**9) for _ in range(3)]


@pytest.mark.parametrize(("spans", "expected"), [(9, None), (10, None), (11, None)])
def test_one_second_may_come_at_once(spans: int, expected: float | None) -> None:
    """A second's worth is taken at the beginning, and one larger request, that could come at no other time."""
    assert expected == _taken(Rate(10, clock=lambda: 0.0), spans)


def test_a_refused_request_fits_when_it_was_told_to() -> None:
    """After the time told the same request is taken, and just before it is not."""
    now = [0.0]
    rate = Rate(10, clock=lambda: now[0])
    assert [None, None] == [_taken(rate, 4), _taken(rate, 4)]
    wait = _taken(rate, 4)
    assert wait == pytest.approx(0.2)
    now[0] = 0.19
    assert _taken(rate, 4) is not None
    now[0] = 0.21
    assert _taken(rate, 4) is None


@given(requests=st.lists(st.tuples(st.floats(0, 3), st.integers(0, 40)), max_size=40))
def test_no_more_comes_than_the_rate_allows(requests: list[tuple[float, int]]) -> None:
    """Over any time no more is taken than its seconds' worth, one second's more, and one large request."""
    now = [0.0]
    rate = Rate(10, clock=lambda: now[0])
    taken = []
    for pause, spans in requests:
        now[0] += pause
        if _taken(rate, spans) is None:
            taken.append((now[0], spans))
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            within = taken[first : last + 1]
            assert sum(spans for _, spans in within[:-1]) <= 10 * (within[-1][0] - within[0][0]) + 10 + 1e-6
