"""The files of collector-config/ say what the code says, and one and the same thing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

from otel_loopguard.content import KeyKind, kind_of_key
from otel_loopguard.dialects import content_keys
from otel_loopguard.facts import FactsReader
from otel_loopguard.model import Span, Value
from tests.captures.summary import CAPTURES, POLICY, SPANS
from tests.collector.collectors import CONFIGURATIONS, VARIANTS
from tests.replaying import DIGESTER, items_of
from tools.make_collector_config import configurations, known_keys, text_of

FILES: Final = tuple(CONFIGURATIONS / f"{variant}.yaml" for variant in VARIANTS)
README: Final = (CONFIGURATIONS / "README.md").read_text(encoding="utf-8")
BUILDER: Final = yaml.safe_load(Path(__file__).with_name("builder.yaml").read_text(encoding="utf-8"))

_RENAMED: Final = {"load_balancing": "loadbalancing", "otlp_http": "otlphttp", "health_check": "healthcheck"}
"""Types of components whose modules go by older names."""


def loaded(path: Path) -> dict[str, Any]:
    """One configuration, its environment variables unread."""
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


class Asked(dict[str, Value]):
    """Attributes that note which keys they are asked for."""

    def __init__(self, values: Mapping[str, Value], noted: set[str]) -> None:
        super().__init__(values)
        self._noted = noted

    def get(self, key: str, default: Any = None) -> Any:
        """As a dict's."""
        self._noted.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Value:
        self._noted.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._noted.add(str(key))
        return super().__contains__(key)


def test_every_configuration_is_tested() -> None:
    """Each file with pipelines has its place in the tests of delivery and content."""
    assert list(FILES) == configurations()


@pytest.mark.parametrize("path", FILES, ids=VARIANTS)
def test_the_generated_part_is_up_to_date(path: Path) -> None:
    """It is what `tools/make_collector_config.py` writes."""
    current = path.read_text(encoding="utf-8")
    assert current == text_of(current, path.name)


def test_no_content_key_is_kept() -> None:
    """No key that holds content anywhere, or begins as one does, is let through."""
    heads = tuple(key for key in content_keys() if key.endswith("."))
    assert [] == [
        key
        for key in sorted(known_keys())
        if kind_of_key(key) in (KeyKind.CONTENT, KeyKind.WORD) or key in content_keys() or f"{key}.".startswith(heads)
    ]


def test_every_key_that_is_read_is_kept() -> None:
    """Reading every capture asks for no key but kept ones and such as hold content."""
    noted: set[str] = set()
    reader = FactsReader(POLICY, lambda _: DIGESTER)
    for name in CAPTURES:
        for span in items_of(SPANS / f"{name}.jsonl"):
            assert isinstance(span, Span)
            reader.of_span(_asking(span, noted))
    plain = {key for key in noted if kind_of_key(key) not in (KeyKind.CONTENT, KeyKind.WORD)}
    assert "finish_reason" in plain
    assert "service.version" in plain
    assert set() == {key for key in plain - known_keys() if f"{key}." not in content_keys()}


def _asking(span: Span, noted: set[str]) -> Span:
    return msgspec.structs.replace(
        span,
        attributes=Asked(span.attributes, noted),
        resource=Asked(span.resource, noted),
        events=tuple(
            msgspec.structs.replace(event, attributes=Asked(event.attributes, noted)) for event in span.events
        ),
    )


@pytest.mark.parametrize("path", FILES, ids=VARIANTS)
def test_it_keeps_and_repeats_without_end(path: Path) -> None:
    """Each exporter has a queue on a synchronised disk, and never gives up on what can be repeated."""
    content = loaded(path)
    storage = content["extensions"]["file_storage/queue"]
    assert (True, True) == (storage["fsync"], storage["create_directory"])
    for exporter in content["exporters"].values():
        queue = exporter["sending_queue"]
        assert "file_storage/queue" == queue["storage"]
        # What is out of the queue is in danger while the collector starts again: a batch takes out hundreds.
        assert "batch" not in queue
        assert queue["num_consumers"] <= 4
        retry = exporter["retry_on_failure"]
        assert (True, 0) == (retry["enabled"], retry["max_elapsed_time"])
        # Not said, they are zero for load_balancing, which then repeats without a rest.
        assert {"initial_interval", "multiplier", "max_interval"} <= retry.keys()
        assert retry["multiplier"] > 1
    assert not any(name.partition("/")[0] == "batch" for name in content["processors"])


@pytest.mark.parametrize("path", FILES, ids=VARIANTS)
def test_every_pipeline_is_limited_and_cleaned(path: Path) -> None:
    """The memory limiter comes first and the removal last, in each pipeline, and the removal fails closed."""
    content = loaded(path)
    for pipeline in content["service"]["pipelines"].values():
        assert ["memory_limiter", "filter/databases", "transform/no_text", "redaction/known_keys"] == pipeline[
            "processors"
        ]
    assert "propagate" == content["processors"]["transform/no_text"]["error_mode"]
    assert content["processors"]["redaction/known_keys"]["allow_all_keys"] is False


@pytest.mark.parametrize("path", FILES, ids=VARIANTS)
def test_every_address_is_of_the_loopback(path: Path) -> None:
    """Nothing listens or sends elsewhere unless the environment says so."""
    defaults = dict(re.findall(r"\$\{env:(\w+):-([^}]*)\}", path.read_text(encoding="utf-8")))
    addresses = [address for value in defaults.values() for address in re.findall(r"[\w.]+:\d+", value)]
    assert len(addresses) >= 4
    assert {"127.0.0.1"} == {address.partition(":")[0] for address in addresses}
    assert "127.0.0.1" == defaults["LOOPGUARD_METRICS_HOST"]
    assert [] == [line for line in _endpoints(loaded(path)) if not line.startswith("${env:")]


def _endpoints(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("endpoint", "host", "hostnames"):
                yield inner
            else:
                yield from _endpoints(inner)


def test_every_variable_is_in_the_readme() -> None:
    """The table has each environment variable that a file reads, and no other."""
    files = CONFIGURATIONS.glob("*.yaml")
    read = {name for path in files for name in re.findall(r"\$\{env:(\w+)", path.read_text(encoding="utf-8"))}
    listed = {name for line in README.splitlines() if line.startswith("| `LOOPGUARD_") for name in _variables(line)}
    assert read == listed


def _variables(line: str) -> list[str]:
    return re.findall(r"`(LOOPGUARD_\w+)`", line.split("|")[1])


def test_the_builder_has_what_the_files_need() -> None:
    """The manifest builds each component that a file names, and no other."""
    built = {
        kind: {module["gomod"].split()[0].rpartition("/")[2].removesuffix(kind[:-1]) for module in BUILDER[kind]}
        for kind in ("receivers", "processors", "exporters", "extensions")
    }
    needed: dict[str, set[str]] = {kind: set() for kind in built}
    for path in CONFIGURATIONS.glob("*.yaml"):
        content = loaded(path)
        for kind, names in needed.items():
            types = {name.partition("/")[0] for name in content.get(kind, ())}
            names |= {_RENAMED.get(name, name.replace("_", "")) for name in types}
    assert needed == built
