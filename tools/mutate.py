"""Mutation score of the core: change the code in memory, one small change at a time, and count what a test notices.

Each group of tools/mutation.toml names modules and the tests that answer for them. A mutant is tried only with the
tests that run its lines, the quickest first, and is done with at the first that fails. Nothing on disk is changed.

A change inside a function takes the place of that function's code in a forked copy of a test session that has already
collected; a change that takes effect while a module is imported needs a session of its own.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib.machinery
import importlib.util
import json
import os
import random
import resource
import signal
import sys
import time
import tomllib
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

import coverage
import hypothesis
import pytest

from tools.mutants import Mutant, enumerations, mutants

ROOT: Final = Path(__file__).resolve().parent.parent
TABLE: Final = ROOT / "tools/mutation.toml"
EXAMPLES: Final = 50
"""Of each property test that does not set its own number, always the same ones."""
CPU_FACTOR: Final = 4
CPU_SECONDS: Final = 5
"""A mutant that takes so many times the sound code's time, and these seconds more, hangs."""
WALL_FACTOR: Final = 20
"""CPU time is what is bounded; this is for a mutant that sleeps."""
MEMORY_BYTES: Final = 6 * 2**30
POLL_SECONDS: Final = 0.004
PYTEST_NO_TESTS: Final = 5


class Fate(IntEnum):
    """What became of a mutant; the exit code of the process that tried it."""

    SURVIVED = 0
    KILLED = 1
    NOT_APPLIED = 3
    """No live function has the changed code."""
    HUNG = 4
    UNREACHED = 5
    """None of the tests runs its lines."""


class Group(NamedTuple):
    """Modules, and the tests that answer for them."""

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]


class Measured(NamedTuple):
    """One run of a group's tests on the sound code."""

    seconds: Mapping[str, float]
    """Of each test, by its id."""
    lines: Mapping[str, Mapping[int, Sequence[str]]]
    """By module and line, the tests that run it; an empty id stands for the import."""


class Job(NamedTuple):
    """One mutant and the tests to try it with, quickest first."""

    mutant: Mutant
    tree: ast.Module
    tests: tuple[str, ...]
    seconds: float
    """The tests' time on the sound code."""
    alone: bool
    """It takes effect at import."""


# --- processes --------------------------------------------------------------------------------------------


def _forked(act: Callable[[], int]) -> int:
    """Run `act` in a forked process that prints nothing and ends with its answer; its id."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = int(Fate.KILLED)
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        code = act()
    finally:
        os._exit(code)


def _in_process(act: Callable[[Callable[[object], None]], object]) -> Iterator[Any]:
    """What `act`, run in a forked process, tells: each thing as JSON can carry it, as soon as it is told."""
    reading, writing = os.pipe()

    def telling() -> int:
        os.close(reading)
        with os.fdopen(writing, "w", encoding="utf-8") as out:
            act(lambda told: print(json.dumps(told), file=out, flush=True))
        return 0

    pid = _forked(telling)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as told:
        yield from map(json.loads, told)
    os.waitpid(pid, 0)


def _tried(jobs: Iterable[Job], act: Callable[[Job], int], workers: int) -> Iterator[tuple[Job, Fate]]:
    """Try each job in a process of its own, so many at a time; answers come in the order they are ready."""
    waiting = iter(jobs)
    running: dict[int, tuple[Job, float]] = {}
    while True:
        while len(running) < workers and (job := next(waiting, None)) is not None:
            bound = int(CPU_FACTOR * job.seconds + CPU_SECONDS)
            running[_forked(lambda job=job, bound=bound: _bounded(job, act, bound))] = (  # type: ignore[misc]
                job,
                time.monotonic() + WALL_FACTOR * bound,
            )
        if not running:
            return
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            yield running.pop(pid)[0], _fate(status)
            continue
        for late in [pid for pid, (_, until) in running.items() if time.monotonic() > until]:
            os.kill(late, signal.SIGXCPU)
        time.sleep(POLL_SECONDS)


def _bounded(job: Job, act: Callable[[Job], int], seconds: int) -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    return act(job)


def _fate(status: int) -> Fate:
    if os.WIFSIGNALED(status):
        return Fate.HUNG if os.WTERMSIG(status) in {signal.SIGXCPU, signal.SIGKILL} else Fate.KILLED
    code = os.WEXITSTATUS(status)
    return Fate(code) if code in {Fate.SURVIVED, Fate.NOT_APPLIED} else Fate.KILLED


# --- test sessions ----------------------------------------------------------------------------------------


class _Session:
    """Plugin: counts failures, and lets only some tests run, in the order given."""

    def __init__(self, tests: Sequence[str] | None = None) -> None:
        self.failed: str | None = None
        self.seconds: dict[str, float] = {}
        self._places = None if tests is None else {test: place for place, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._places is not None:
            places = self._places
            items[:] = sorted((one for one in items if one.nodeid in places), key=lambda one: places[one.nodeid])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration


class _Measuring(_Session):
    """Plugin: tells the coverage tracer whose lines it sees."""

    def __init__(self, tracer: coverage.Coverage) -> None:
        super().__init__()
        self._tracer = tracer

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._tracer.switch_context(item.nodeid)
        return (yield)


class _Trying(_Session):
    """Plugin: instead of running the tests, forks the collected session for each job."""

    def __init__(self, jobs: Sequence[Job], workers: int, tell: Callable[[object], None]) -> None:
        super().__init__()
        self._jobs = jobs
        self._workers = workers
        self._tell = tell

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        places = {id(job): place for place, job in enumerate(self._jobs)}
        paths = {str(ROOT / job.mutant.path) for job in self._jobs}
        functions = [
            one for one in gc.get_objects() if type(one) is types.FunctionType and one.__code__.co_filename in paths
        ]

        def act(job: Job) -> int:
            if not _put_in(job, functions):
                return Fate.NOT_APPLIED
            chosen = [items[test] for test in job.tests]
            for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.failed:
                    return Fate.KILLED
            return Fate.SURVIVED

        for job, fate in _tried(self._jobs, act, self._workers):
            self._tell((places[id(job)], fate))
        return True


def _pytest(tests: Iterable[str], plugin: _Session) -> int:
    # The warning that hypothesis is imported already: it is, to be told how many examples to make.
    options = ["-qsx", "-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:cacheprovider"]
    return int(pytest.main([*options, "-p", "no:faulthandler", "--rootdir", str(ROOT), *tests], plugins=[plugin]))


def _compiled(job: Job) -> types.CodeType:
    with job.mutant.applied():
        return compile(job.tree, str(ROOT / job.mutant.path), "exec", dont_inherit=True)


def _put_in(job: Job, functions: Sequence[types.FunctionType]) -> bool:
    """Give each live function whose code the mutant changes the changed code; False where there is none."""
    changed = {_spot(code): code for code in _inside(_compiled(job))}
    applied = False
    for function in functions:
        code = function.__code__
        new = changed.get(_spot(code))
        if new is not None and new != code:
            if len(new.co_freevars) != len(code.co_freevars):
                return False
            function.__code__ = new
            applied = True
    return applied


def _inside(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _inside(constant)


def _spot(code: types.CodeType) -> tuple[object, ...]:
    places = [place for place in code.co_positions() if place[2] is not None]
    return code.co_filename, code.co_qualname, code.co_firstlineno, places[1][2] if code.co_name == "<lambda>" else 0


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads one module from given code."""

    def __init__(self, name: str, path: str, code: types.CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> types.CodeType:  # noqa: ARG002  # importlib's signature
        return self._code


class _Finder:
    """Meta path entry: gives one module the mutant's code."""

    def __init__(self, name: str, path: str, code: types.CodeType) -> None:
        self._loader = _Loader(name, path, code)

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if name != self._loader.name:
            return None
        return importlib.util.spec_from_file_location(name, self._loader.path, loader=self._loader)


def _alone(job: Job) -> int:
    """Try a mutant in a session of its own."""
    path = job.mutant.path
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    sys.meta_path.insert(0, _Finder(name, str(ROOT / path), _compiled(job)))
    session = _Session(job.tests)
    code = _pytest(dict.fromkeys(test.partition("::")[0] for test in job.tests), session)
    return Fate.SURVIVED if code in {0, PYTEST_NO_TESTS} else Fate.KILLED


# --- groups -----------------------------------------------------------------------------------------------


def _measure(group: Group) -> Measured | str:
    """Run the group's tests on the sound code; where one fails, its id."""

    def act(tell: Callable[[object], None]) -> None:
        paths = [str(ROOT / one) for one in group.modules]
        tracer = coverage.Coverage(data_file=None, config_file=False, include=paths)
        tracer.start()
        session = _Measuring(tracer)
        code = _pytest(group.tests, session)
        tracer.stop()
        if code:
            tell(session.failed or "no test at all")
        else:
            data = tracer.get_data()
            tell((session.seconds, {one: data.contexts_by_lineno(str(ROOT / one)) for one in group.modules}))

    told = list(_in_process(act))
    if not told or isinstance(told[0], str):
        return told[0] if told else "the session itself"
    given = told[0]
    lines = {path: {int(line): tests for line, tests in found.items()} for path, found in given[1].items()}
    return Measured(given[0], lines)


def _job(mutant: Mutant, tree: ast.Module, measured: Measured) -> Job:
    lines = measured.lines[mutant.path]
    seen = {test for line in range(mutant.first, mutant.last + 1) for test in lines.get(line, ())}
    alone = not mutant.in_function or "" in seen
    chosen = set(measured.seconds) if alone else seen
    tests = tuple(sorted(chosen, key=lambda test: (measured.seconds[test], test)))
    return Job(mutant, tree, tests, sum(measured.seconds[test] for test in tests), alone)


def try_group(
    group: Group, chosen: Sequence[tuple[Mutant, ast.Module]], workers: int
) -> Iterator[tuple[Mutant, Fate]] | str:
    """Try mutants of one group; the id of a test that fails on the sound code, if there is one."""
    measured = _measure(group)
    if isinstance(measured, str):
        return measured
    jobs = [_job(mutant, tree, measured) for mutant, tree in chosen]
    return _fates(group, jobs, workers)


def _fates(group: Group, jobs: Sequence[Job], workers: int) -> Iterator[tuple[Mutant, Fate]]:
    yield from ((job.mutant, Fate.UNREACHED) for job in jobs if not job.tests)
    together = [job for job in jobs if job.tests and not job.alone]
    alone = [job for job in jobs if job.tests and job.alone]

    def act(tell: Callable[[object], None]) -> None:
        _pytest(group.tests, _Trying(together, workers, tell))

    for place, code in _in_process(act) if together else ():
        if code == Fate.NOT_APPLIED:
            alone.append(together[place])
        else:
            yield together[place].mutant, Fate(code)
    yield from ((job.mutant, fate) for job, fate in _tried(alone, _alone, workers))


def load(text: str) -> tuple[Group, ...]:
    """Every group of a table, in its order; a module belongs to the first that names it."""
    taken: set[str] = set()
    groups = []
    for one in tomllib.loads(text)["group"]:
        paths = sorted(str(path.relative_to(ROOT)) for shape in one["modules"] for path in ROOT.glob(shape))
        modules = tuple(path for path in dict.fromkeys(paths) if path not in taken)
        taken.update(modules)
        groups.append(Group(one["name"], modules, tuple(one["tests"])))
    return tuple(groups)


def _pick(
    groups: Sequence[Group], wanted: Sequence[str], sample: int | None, seed: int
) -> dict[str, list[tuple[Mutant, ast.Module]]]:
    """By group, the mutants to try."""
    trees = {path: ast.parse((ROOT / path).read_text(encoding="utf-8")) for one in groups for path in one.modules}
    package = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "otel_loopguard").rglob("*.py"))]
    enums = enumerations(package)
    every = [
        (group.name, mutant, trees[path])
        for group in groups
        for path in group.modules
        if not wanted or any(part in path for part in wanted)
        for mutant in mutants(path, trees[path], enums)
    ]
    if sample is not None and sample < len(every):
        every = [every[place] for place in sorted(random.Random(seed).sample(range(len(every)), sample))]  # noqa: S311
    picked: dict[str, list[tuple[Mutant, ast.Module]]] = {}
    for name, mutant, tree in every:
        picked.setdefault(name, []).append((mutant, tree))
    return picked


def _report(fates: Mapping[str, Counter[Fate]]) -> float:
    """Print one line a module and one for all; the score of all in percent."""
    total: Counter[Fate] = Counter()
    print(f"{'module':44} {'mutants':>7} {'killed':>7} {'hung':>5} {'survived':>8} {'unreached':>9} {'score':>7}")
    for path, counts in [*sorted(fates.items()), ("all", total)]:
        every = sum(counts.values())
        score = 100 * (counts[Fate.KILLED] + counts[Fate.HUNG]) / every if every else 100.0
        print(
            f"{path.removeprefix('otel_loopguard/'):44} {every:7} {counts[Fate.KILLED]:7} {counts[Fate.HUNG]:5} "
            f"{counts[Fate.SURVIVED]:8} {counts[Fate.UNREACHED]:9} {score:6.1f}%"
        )
        total.update(counts) if counts is not total else None
    return score


def main() -> int:
    """Try mutants and print what survives; 1 where the score is below `--floor` or the tests fail unchanged."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--module", action="append", default=[], help="part of a module's path; may be repeated")
    parser.add_argument("--sample", type=int, help="how many mutants to try, chosen by --seed; without: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--floor", type=float, default=0.0, help="least score, in percent")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    # What conftest loads: the same examples in every process, and no time spent on explaining a failure.
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile(
        "mutation", max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, phases=phases,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    os.environ["HYPOTHESIS_PROFILE"] = "mutation"
    os.chdir(ROOT)
    sys.dont_write_bytecode = False  # a session of its own for each mutant must not compile all the tests
    groups = load(TABLE.read_text(encoding="utf-8"))
    picked = _pick(groups, given.module, given.sample, given.seed)
    fates: dict[str, Counter[Fate]] = {}
    for group in groups:
        if group.name not in picked:
            continue
        found = try_group(group, picked[group.name], given.workers)
        if isinstance(found, str):
            print(f"{group.name}: fails on the code as it is: {found}")
            return 1
        for mutant, fate in found:
            fates.setdefault(mutant.path, Counter())[fate] += 1
            if fate in {Fate.SURVIVED, Fate.UNREACHED}:
                print(f"{fate.name.lower()}  {mutant}", flush=True)
    score = _report(fates)
    return 0 if fates and score >= given.floor else 1


if __name__ == "__main__":
    sys.exit(main())
