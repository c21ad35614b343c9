"""One call gives one digest whatever dialect, encoding or key order carried it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard import dialects
from otel_loopguard.canonical import encode
from otel_loopguard.dialects import payload, withheld
from otel_loopguard.model import Outcome, Role
from tests.dialects.encode import ENCODERS as CONVENTIONS
from tests.dialects.encode import WITHOUT_CALL_ID
from tests.dialects.encode_instrumentation import BARE_VALUE
from tests.dialects.encode_instrumentation import ENCODERS as INSTRUMENTATIONS

EXAMPLES = 40
"""Examples a shape: there are some forty shapes, all of which share most of their code."""

ENCODERS = {**CONVENTIONS, **INSTRUMENTATIONS}

# Words that say that content was withheld are not content; a repr's `None` cannot be told from the text "None".
_WORDS = ("redacted", "filtered", "masked", "scrubbed", "***", "none", "true", "false", "error", "status=")
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12).filter(
    lambda text: not any(word in text.lower() for word in _WORDS)
)
KEYS = st.text("abcdefghijklm_", min_size=1, max_size=6)
SCALARS = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | TEXT, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
ARGUMENTS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=4).filter(lambda value: not withheld.is_schema(value))
# Text that looks like the beginning of JSON cannot be told from JSON that was cut: it is TRUNCATED in some shapes.
WHOLE = TEXT.filter(lambda text: payload.result(text).unknown is None)
RESULTS = WHOLE | st.dictionaries(KEYS, VALUES, min_size=1, max_size=4) | st.lists(VALUES, max_size=3)


def _read(shape: str, arguments: dict[str, Any], result: Any) -> tuple[bytes | None, bytes | None]:
    reading = dialects.read(ENCODERS[shape]("lookup_order", arguments, result, "call_0001"))
    assert reading is not None
    assert reading.arguments.unknown is None, reading.arguments.unknown
    assert reading.result.unknown is None, reading.result.unknown
    return encode(reading.arguments.value), encode(reading.result.value)


@pytest.mark.parametrize("shape", sorted(ENCODERS))
@settings(max_examples=EXAMPLES)
@given(arguments=ARGUMENTS, result=RESULTS)
def test_one_call_is_one_value_in_every_dialect(shape: str, arguments: dict[str, Any], result: Any) -> None:
    """Arguments and result come out of each dialect as the conventions' own encoding gives them."""
    if shape in BARE_VALUE:  # a lone argument's name is not on the span: nothing can restore it
        arguments = {**arguments, "n": 1, "o": 2}
    expected = _read("gen_ai", arguments, result)
    assert expected == _read(shape, arguments, result)
    assert encode(arguments) == expected[0]


@pytest.mark.parametrize("shape", sorted(ENCODERS))
@settings(max_examples=EXAMPLES)
@given(first=ARGUMENTS, second=ARGUMENTS)
def test_different_arguments_stay_different(shape: str, first: dict[str, Any], second: dict[str, Any]) -> None:
    """No dialect's unwrapping makes two different calls equal."""
    if shape in BARE_VALUE:
        first, second = {**first, "n": 1, "o": 2}, {**second, "n": 1, "o": 2}
    same = encode(first) == encode(second)
    assert same == (_read(shape, first, "ok")[0] == _read(shape, second, "ok")[0])


@pytest.mark.parametrize("shape", sorted(ENCODERS))
def test_call_ids_never_enter_a_value(shape: str) -> None:
    """The same call under another id has the same arguments and result."""
    spans = [ENCODERS[shape]("lookup_order", {"a": 1}, {"b": [2]}, call_id) for call_id in ("call_0001", "call_0002")]
    readings = [dialects.read(span) for span in spans]
    assert [{"a": 1}, {"a": 1}] == [reading and reading.arguments.value for reading in readings]
    assert [{"b": [2]}, {"b": [2]}] == [reading and reading.result.value for reading in readings]


@pytest.mark.parametrize("shape", sorted(CONVENTIONS))
def test_name_outcome_and_id_are_read(shape: str) -> None:
    """Each shape gives the application's tool name, a good ending, and the id where it carries one."""
    reading = dialects.read(CONVENTIONS[shape]("lookup_order", {"a": 1}, "done", "call_0001"))
    assert reading is not None
    assert (Role.TOOL, "lookup_order", Outcome.OK) == (reading.role, reading.tool, reading.outcome)
    assert (None if shape in WITHOUT_CALL_ID else "call_0001") == reading.call_id
