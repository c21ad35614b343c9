"""The house rules that no linter holds: documents, packaging and layers say what the tree has."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from tools.floor_requirements import TOOL_EXTRAS, floors
from tools.readme_command import commands
from tools.seeded_faults import load, problem

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = ROOT / "otel_loopguard"
PYPROJECT_TEXT: Final = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PYPROJECT: Final[dict[str, Any]] = tomllib.loads(PYPROJECT_TEXT)
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
CHANGELOG: Final = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
DOCUMENTS: Final = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part == "mutants" for part in path.relative_to(ROOT).parts)
)
RECORDS: Final = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))

_LINK: Final = re.compile(r"\[[^\]\[]*\]\((?P<target>[^)\s]+)\)")
_FENCED: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def _modules() -> list[str]:
    """Names of the modules and packages right under the package, sorted."""
    return sorted(
        path.stem
        for path in PACKAGE.iterdir()
        if (path.suffix == ".py" and not path.stem.startswith("__")) or (path / "__init__.py").is_file()
    )


def _contract(name: str) -> dict[str, Any]:
    """The import contract of this id."""
    return next(one for one in PYPROJECT["tool"]["importlinter"]["contracts"] if one["id"] == name)


def _python(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python on the repository's own copy of the package."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
    return subprocess.run(  # noqa: S603  # our own command line
        [sys.executable, *arguments], cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )


# --- what the package exports -----------------------------------------------------------------------------


def test_public_names_exist_once_and_in_order() -> None:
    """`__all__` is sorted, holds no name twice, and each of its names can be had."""
    package = importlib.import_module("otel_loopguard")
    names = list(getattr(package, "__all__", []))
    assert sorted(set(names)) == names
    assert [] == [name for name in names if not hasattr(package, name)]


def test_importing_the_package_loads_no_optional_part() -> None:
    """`import otel_loopguard` loads nothing of an extra, no exporter and none of our own command line."""
    optional = ("yaml", "jmespath", "re2", "rich", "google", "opentelemetry.proto", "otel_loopguard.cli")
    code = f"import sys, otel_loopguard; print([name for name in {optional!r} if name in sys.modules])"
    assert "[]\n" == _python("-c", code).stdout


# --- layers -----------------------------------------------------------------------------------------------


def test_every_module_has_a_layer() -> None:
    """The layer contract names exactly the modules that exist."""
    layers = [name.strip() for layer in _contract("layers")["layers"] for name in layer.split("|")]
    assert sorted(layers) == _modules()


def test_every_module_under_the_files_is_core_or_reads_keys() -> None:
    """All layers below `files` but `keys` stand in the contract that keeps the core pure."""
    layers = [[name.strip() for name in layer.split("|")] for layer in _contract("layers")["layers"]]
    below = [name for layer in layers[layers.index(["files"]) + 1 :] for name in layer]
    core = [name.removeprefix("otel_loopguard.") for name in _contract("pure-core")["source_modules"]]
    assert sorted(core) == sorted(set(below) - {"keys"})


def test_except_exception_stands_in_few_places() -> None:
    """Everything is caught only where somebody else's code is called; elsewhere an error has a class."""
    others_code = {
        "otel_loopguard/policy/files.py",
        "otel_loopguard/policy/progress.py",
        "otel_loopguard/processor/boundary.py",
    }
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            caught = node.type if isinstance(node, ast.ExceptHandler) else None
            broad = isinstance(node, ast.ExceptHandler) and (
                caught is None or (isinstance(caught, ast.Name) and caught.id in {"Exception", "BaseException"})
            )
            if broad:
                found.add(path.relative_to(ROOT).as_posix())
    assert others_code == found


# --- documents --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document: Path) -> None:
    """Each relative link of a document leads to a file of the tree."""
    text = _FENCED.sub("", document.read_text(encoding="utf-8"))
    targets = [found["target"].partition("#")[0] for found in _LINK.finditer(text)]
    local = [target for target in targets if target and "://" not in target and not target.startswith("mailto:")]
    assert [] == [target for target in local if not (document.parent / target).exists()]


def test_readme_has_the_two_commands_on_one_line_each() -> None:
    """README has one command for the main job and one for the tests, each of one line that sets itself up."""
    known = commands(README)
    assert ["replay", "test"] == list(known)
    assert [1, 1] == [len(text.splitlines()) for text in known.values()]
    assert [True, True] == [text.startswith("python3 -m venv .venv && ") for text in known.values()]


def test_readme_lists_the_extras() -> None:
    """README's table of what to install names every extra but those for developing the package."""
    named = set(re.findall(r"^\| `otel-loopguard\[([a-z]+)\]`", README, re.MULTILINE))
    assert set(PYPROJECT["project"]["optional-dependencies"]) - TOOL_EXTRAS == named


def test_readme_python_prints_what_it_says(tmp_path: Path) -> None:
    """Each Python block of README that says what it prints runs as it stands and prints that."""
    blocks = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    blocks = [block for block in blocks if "# prints: " in block]
    assert blocks
    for block in blocks:
        script = tmp_path / "block.py"
        script.write_text(block, encoding="utf-8")
        ended = _python(str(script))
        said = re.findall(r"# prints: (.+)$", block, re.MULTILINE)[-1:]
        assert (0, said, "") == (ended.returncode, ended.stdout.splitlines(), ended.stderr)


def test_readme_shows_what_replay_prints() -> None:
    """The output that README shows is the output of the command above it, under the key of the test vectors."""
    command, shown = re.findall(r"^```console\n\$ otel-loopguard (.+)\n((?:.*\n)+?)```$", README, re.MULTILINE)[0]
    ended = _python(
        "-m", "otel_loopguard", *command.split(), environment={"OTEL_LOOPGUARD_KEY": bytes(range(32)).hex()}
    )
    assert (shown, "", 0) == (ended.stdout, ended.stderr, ended.returncode)


def test_changelog_knows_the_version() -> None:
    """The version of pyproject.toml has a section of its own, or all of it is still unreleased."""
    sections = re.findall(r"^## \[([^\]]+)\]", CHANGELOG, re.MULTILINE)
    assert sections[:1] == ["Unreleased"]
    assert [PYPROJECT["project"]["version"]] == (sections[1:2] or [PYPROJECT["project"]["version"]])


def test_decision_records_are_numbered_listed_and_complete() -> None:
    """Records are numbered from 1 without a gap, stand in the list, and have the template's sections."""
    sections = re.findall(r"^## .+$", (ROOT / "docs/decisions/template.md").read_text(encoding="utf-8"), re.MULTILINE)
    listed = re.findall(
        r"^\| \[\d+\]\((.+\.md)\)", (ROOT / "docs/decisions/README.md").read_text("utf-8"), re.MULTILINE
    )
    assert [f"{number:04}" for number in range(1, len(RECORDS) + 1)] == [path.name[:4] for path in RECORDS]
    assert [path.name for path in RECORDS] == listed
    for record in RECORDS:
        text = record.read_text(encoding="utf-8")
        assert (record.name, sections) == (record.name, re.findall(r"^## .+$", text, re.MULTILINE))
        assert text.startswith(f"# {record.name[:4]} ")


def test_documents_are_listed() -> None:
    """Each document right under docs/ stands in the list there, and no other."""
    listed = set(re.findall(r"\]\(([a-z-]+\.md)\)", (ROOT / "docs/README.md").read_text(encoding="utf-8")))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"} == listed


def test_examples_are_listed() -> None:
    """Each example capture stands in the list beside it, and no other."""
    listed = re.findall(r"^\| `([a-z-]+\.jsonl)`", (PACKAGE / "examples/README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(path.name for path in (PACKAGE / "examples").glob("*.jsonl")) == sorted(listed)


def test_detectors_have_a_page_each() -> None:
    """Each page beside the detectors has a module of its name."""
    pages = {path.stem for path in (PACKAGE / "detectors").glob("*.md")}
    modules = {path.stem for path in (PACKAGE / "detectors").glob("*.py")}
    assert set() == pages - modules
    assert pages


# --- packaging --------------------------------------------------------------------------------------------


def test_each_dependency_has_one_floor() -> None:
    """Every run-time dependency has one lower bound, which CI installs."""
    assert {"msgspec", "opentelemetry-api", "opentelemetry-sdk"} <= set(floors(PYPROJECT_TEXT))


def test_a_dependency_without_a_floor_is_refused() -> None:
    """A requirement that gives no lower bound cannot be turned into a constraint."""
    text = '[project]\nname = "x"\ndependencies = ["y"]\n[project.optional-dependencies]\n'
    with pytest.raises(ValueError, match="lower bound"):
        floors(text)


def test_all_extra_reaches_every_extra() -> None:
    """`[all]` brings, through other extras, everything that any extra brings."""
    extras: dict[str, list[str]] = PYPROJECT["project"]["optional-dependencies"]
    reached, open_ends = set(), ["all"]
    while open_ends:
        name = open_ends.pop()
        reached.add(name)
        open_ends += [found for one in extras[name] for found in re.findall(r"^otel-loopguard\[([a-z]+)\]$", one)]
    assert set(extras) - TOOL_EXTRAS == reached


# --- checks of the checks ---------------------------------------------------------------------------------


def test_seeded_faults_fit_the_code() -> None:
    """Each seeded fault still has its place in the code, and its tests exist."""
    faults = load((ROOT / "tools/faults.toml").read_text(encoding="utf-8"))
    assert {} == {fault.name: wrong for fault in faults if (wrong := problem(fault, ROOT))}
    assert len(faults) == len({fault.name for fault in faults})
