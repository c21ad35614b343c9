"""Slow answers are remembered for a while, fast ones never."""

from __future__ import annotations

from otel_loopguard.scorer.pages.remembering import MOST_ANSWERS, SLOW_S, TIMES, Remembering


class _Asked:
    """A clock, and questions that take a while on it; each answer is how often anything was asked."""

    def __init__(self) -> None:
        self.now = 0.0
        self.times = 0
        self.remembering = Remembering(lambda: self.now)

    def ask(self, question: str, *, takes_s: float) -> int:
        """The answer to it."""

        def answer() -> int:
            self.now += takes_s
            self.times += 1
            return self.times

        return self.remembering.get(question, answer)


def test_a_slow_answer_is_good_for_a_while() -> None:
    """It is not asked for again before many times as long as it took have gone by."""
    asked = _Asked()
    assert [1, 1] == [asked.ask("a", takes_s=1.0), asked.ask("a", takes_s=1.0)]
    asked.now = 1.0 + TIMES - 0.1
    assert 1 == asked.ask("a", takes_s=1.0)
    asked.now = 1.0 + TIMES
    assert 2 == asked.ask("a", takes_s=1.0)


def test_a_fast_answer_is_asked_for_each_time() -> None:
    """What costs little is always of now."""
    asked = _Asked()
    assert [1, 2, 3] == [asked.ask("a", takes_s=takes_s) for takes_s in (0.0, SLOW_S / 2, SLOW_S * 2)]
    assert 3 == asked.ask("a", takes_s=0.0)


def test_the_oldest_answers_are_forgotten() -> None:
    """Only so many are held, whatever they took."""
    asked = _Asked()
    assert 1 == asked.ask("first", takes_s=1000.0)
    for number in range(MOST_ANSWERS):
        asked.ask(str(number), takes_s=1.0)
    assert MOST_ANSWERS + 1 == asked.ask(str(MOST_ANSWERS - 1), takes_s=0.0)
    assert MOST_ANSWERS + 2 == asked.ask("first", takes_s=0.0)
