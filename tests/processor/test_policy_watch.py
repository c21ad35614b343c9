"""The policy file's watch: what changed is taken, what cannot be used is told once, and nobody waits for it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_loopguard.errors import PolicyError
from otel_loopguard.policy import Policy
from otel_loopguard.processor import policy_watch
from otel_loopguard.processor.policy_watch import PolicyWatch, line

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY_S = 30.0


class Clock:
    """Seconds that run when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


class Watched:
    """A watch over a file, and what it handed on."""

    def __init__(self, path: Path, every_s: float = EVERY_S) -> None:
        self.path = path
        self.write("1")
        self.clock = Clock()
        self.taken: list[str] = []
        self.watch = PolicyWatch(str(path), every_s=every_s, clock=self.clock)
        self.watch.changed = self.take
        self.first = self.watch.load()

    def take(self, policy: Policy) -> None:
        """Notes a policy."""
        self.taken.append(policy.label)

    def write(self, version: str, text: str = "") -> None:
        """Puts a policy in the file's place, as a deployment does: the new file is another file."""
        new = self.path.with_suffix(".new")
        new.write_text(text or f'{{"version": 1, "policy": "p", "policy_version": "{version}"}}', encoding="utf-8")
        new.replace(self.path)

    def look(self, seconds: float = EVERY_S) -> None:
        """Lets time pass, looks, and waits for the look's end."""
        self.clock.now += seconds
        self.watch.look()
        for thread in threading.enumerate():
            if thread.name == "otel-loopguard-policy":
                thread.join()


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    """A watch over a sound file that was read once."""
    return Watched(tmp_path / "policy.json")


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The log of the watch."""
    with caplog.at_level(logging.INFO, logger=policy_watch.__name__):
        yield caplog


def test_first_reading(watched: Watched) -> None:
    """`load` gives the policy; nothing is handed on, because nothing has changed."""
    watched.look()
    assert ("p@1", []) == (watched.first.label, watched.taken)


def test_a_changed_file_is_taken_once(watched: Watched, said: pytest.LogCaptureFixture) -> None:
    """The next look takes the new policy and says so, later ones find nothing new."""
    watched.write("2")
    for _ in range(3):
        watched.look()
    assert (["p@2"], ["policy p@2 is in use for traces that begin from now on"]) == (watched.taken, said.messages)


@pytest.mark.parametrize(("seconds", "taken"), [(EVERY_S - 0.001, []), (EVERY_S, ["p@2"])])
def test_it_looks_when_the_interval_is_over(watched: Watched, seconds: float, taken: list[str]) -> None:
    """Not before, and then at once."""
    watched.write("2")
    watched.look(seconds)
    assert taken == watched.taken


def test_the_interval_begins_anew_with_each_look(watched: Watched) -> None:
    """After a look that found nothing the next one is due an interval later."""
    watched.look()
    watched.write("2")
    watched.look(EVERY_S - 1)
    assert [] == watched.taken
    watched.look(1)
    assert ["p@2"] == watched.taken


def test_zero_never_looks(tmp_path: Path) -> None:
    """`0` means that the file is read once."""
    watched = Watched(tmp_path / "policy.json", every_s=0)
    watched.write("2")
    watched.look(1e9)
    assert [] == watched.taken


def test_going_back_is_a_change_too(watched: Watched) -> None:
    """A policy that was in use before and comes back is taken again."""
    for version in ("2", "1", "2"):
        watched.write(version)
        watched.look()
    assert ["p@2", "p@1", "p@2"] == watched.taken


def test_a_file_written_in_place_is_seen(watched: Watched) -> None:
    """The same file with other content has another size or time."""
    text = watched.path.read_text(encoding="utf-8")
    watched.path.write_text(text.replace('"1"}', '"11"}'), encoding="utf-8")
    watched.look()
    assert ["p@11"] == watched.taken


def test_equal_size_and_another_time_is_seen(watched: Watched) -> None:
    """Neither inode nor size tells `1` from `2`, but the time of writing does."""
    text = watched.path.read_text(encoding="utf-8")
    watched.path.write_text(text.replace('"1"}', '"2"}'), encoding="utf-8")
    os.utime(watched.path, ns=(1, 1))
    watched.look()
    assert ["p@2"] == watched.taken


def test_a_broken_file_changes_nothing_and_is_told_once_a_version(
    watched: Watched, said: pytest.LogCaptureFixture
) -> None:
    """Three looks at one broken file are one line; another broken file is another line; a sound one is taken."""
    for text in ('{"version": 1, "polcy": "p"}', '{"version": 2, "policy": "p", "policy_version": 1}'):
        watched.write("", text)
        for _ in range(3):
            watched.look()
    assert [] == watched.taken
    first, second = said.messages
    assert first.startswith("policy file:1:")
    assert first.endswith("(and 2 more problems); the policy read before stays in use")
    assert second.startswith("policy file:1:")
    watched.write("3")
    watched.look()
    assert ["p@3"] == watched.taken


def test_a_file_that_goes_and_comes_back(watched: Watched, said: pytest.LogCaptureFixture) -> None:
    """Without the file the policy stays, with one line; when it is there again it is read again."""
    watched.path.unlink()
    for _ in range(2):
        watched.look()
    line = (
        "policy file: cannot be read (No such file or directory); check the path and its permissions; "
        "the policy read before stays in use"
    )
    assert ([line], []) == (said.messages, watched.taken)
    watched.write("2")
    watched.look()
    assert ["p@2"] == watched.taken


def test_a_pipe_is_not_opened(watched: Watched, said: pytest.LogCaptureFixture) -> None:
    """Nobody may ever write to it, and the look would not end."""
    watched.path.unlink()
    os.mkfifo(watched.path)
    watched.look()
    assert [
        "policy file: not a regular file; name a file that holds the policy; the policy read before stays in use"
    ] == said.messages


@pytest.mark.parametrize("path", ["\0", "/nowhere/policy.json", ""])
def test_a_path_that_leads_nowhere(path: str) -> None:
    """The first reading raises what `load_file` raises; its message does not show the path."""
    with pytest.raises(PolicyError) as raised:
        PolicyWatch(path, every_s=1).load()
    assert str(raised.value).startswith("policy file: ")


def test_what_the_taker_raises_stays_here(watched: Watched, said: pytest.LogCaptureFixture) -> None:
    """An error of ours in a look is told by its class, and does not end the thread with a traceback."""

    def broken(policy: Policy) -> None:
        raise ValueError(policy.label)

    watched.watch.changed = broken
    watched.write("2")
    watched.look()
    assert ["p@2" in message for message in said.messages] == [False]
    assert "ValueError" in said.text


def test_a_look_that_hangs_starts_no_second_one(tmp_path: Path) -> None:
    """Where a file system does not answer, one thread waits for it, and spans go on."""
    watched = Watched(tmp_path / "policy.json")
    hanging, entered = threading.Event(), threading.Semaphore(0)

    def hang(policy: Policy) -> None:
        del policy
        entered.release()
        hanging.wait()

    watched.watch.changed = hang
    watched.write("2")
    watched.clock.now += EVERY_S
    watched.watch.look()
    entered.acquire()
    for _ in range(5):
        watched.clock.now += EVERY_S
        watched.watch.look()
    looking = [thread for thread in threading.enumerate() if thread.name == "otel-loopguard-policy"]
    hanging.set()
    for thread in looking:
        thread.join()
    assert 1 == len(looking)


def test_many_threads_at_once_take_a_version_once(tmp_path: Path) -> None:
    """Spans that start at the same moment in many threads make one change of it."""
    watched = Watched(tmp_path / "policy.json")
    for version in range(2, 12):
        watched.write(str(version))
        watched.clock.now += EVERY_S
        together = threading.Barrier(8)

        def one(together: threading.Barrier = together) -> None:
            together.wait()
            watched.watch.look()

        threads = [threading.Thread(target=one) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        watched.look(0)
    assert [f"p@{version}" for version in range(2, 12)] == watched.taken


FORKING = """\
import os, sys, threading, time, warnings
from otel_loopguard.processor.policy_watch import PolicyWatch

path, how = sys.argv[1:]
text = '{"version": 1, "policy": "p", "policy_version": "%s"}'


def write(version):
    with open(path + ".new", "w") as file:
        file.write(text % version)
    os.replace(path + ".new", path)


write("1")
now = [0.0]
watch = PolicyWatch(path, every_s=1, clock=lambda: now[0])
watch.load()
taken, release, inside = [], threading.Event(), threading.Event()


def take(policy):
    inside.set()
    if how == "during" and os.getpid() == parent:
        release.wait()
    taken.append(policy.label)


parent = os.getpid()
watch.changed = take
write("2")
if how == "during":
    now[0] += 1
    watch.look()
    inside.wait()
warnings.simplefilter("ignore", DeprecationWarning)
child = os.fork()
now[0] += 1
watch.look()
release.set()
for thread in threading.enumerate():
    if thread.name == "otel-loopguard-policy":
        thread.join()
if child:
    _, status = os.waitpid(child, 0)
    print("parent", taken, "child ended with", os.waitstatus_to_exitcode(status))
else:
    print("child", taken, flush=True)
    os._exit(0)
"""


@pytest.mark.parametrize("how", ["before", "during"])
def test_a_fork_leaves_both_looking(tmp_path: Path, how: str) -> None:
    """A child takes a new policy like its parent, even where the fork cut off the look that was about to."""
    ended = subprocess.run(  # noqa: S603 - our own command line
        [sys.executable, "-c", FORKING, str(tmp_path / "policy.json"), how],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (["child ['p@2']", "parent ['p@2'] child ended with 0"], "") == (
        sorted(ended.stdout.splitlines()),
        ended.stderr,
    )


def test_one_line_for_several_problems() -> None:
    """The first problem, and how many there are beside it."""
    assert ["a", "a (and 1 more problem)", "a (and 2 more problems)"] == [
        line(PolicyError(problems)) for problems in (("a",), ("a", "b"), ("a", "b", "c"))
    ]
