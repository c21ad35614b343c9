"""Reading policy files: what is taken, and what every kind of mistake is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from otel_loopguard.errors import MissingExtraError, PolicyError
from otel_loopguard.model import Effect, Pattern
from otel_loopguard.policy import ContentRule, Ladder, Mode, Scope, default, load, load_file

POLICIES = Path(__file__).parent.parent / "fixtures" / "policies"
HEAD = "version: 1\npolicy: p\npolicy_version: 1\n"


def problems(text: str) -> tuple[str, ...]:
    """What is wrong with a policy."""
    with pytest.raises(PolicyError) as caught:
        load(text, source="f.yaml")
    return caught.value.problems


def only(text: str) -> str:
    """The one thing that is wrong with a policy."""
    found = problems(text)
    assert len(found) == 1, found
    return found[0]


def in_tool(body: str) -> str:
    """A policy with one tool `t` in line 5, whose keys are written in flow style."""
    return f"{HEAD}tools:\n  t: {body}\n"


@pytest.mark.parametrize("path", sorted(POLICIES.glob("cases/*.yaml")), ids=lambda path: path.stem)
def test_every_case_policy_loads(path: Path) -> None:
    """The least that owners declare is accepted, and named by the file's own label."""
    assert f"case-{path.stem.lower()}@1" == load_file(path).label


def test_the_design_example_loads_whole() -> None:
    """Every key of the format stands in one file and arrives where it belongs."""
    policy = load_file(POLICIES / "every_key.yaml")
    assert "support-agent@7" == policy.label
    assert (Mode.OBSERVE, Scope.RUN, ContentRule.DROP_ALL) == (policy.mode, policy.scope, policy.content)
    assert (Ladder.DENY, Ladder.STOP) == policy.actions
    assert ("tenant.id",) == policy.identity
    assert frozenset({"think"}) == policy.noop_tools
    assert ("429", "503", "TimeoutError") == policy.errors.transient
    poller = policy.contract("get_export_status")
    assert Pattern.POLLING is poller.pattern
    assert poller.polling is not None
    assert (60, 900, 5, 10) == (
        poller.polling.max_polls,
        poller.polling.deadline_s,
        poller.polling.min_interval_s,
        poller.polling.max_unchanged,
    )
    assert Pattern.PAGINATED is policy.contract("search_cases").pattern
    assert ("global", 86400) == (
        policy.contract("send_digest").business_scope,
        policy.contract("send_digest").business_ttl_s,
    )
    assert "run" == policy.contract("roll_dice").parallel
    assert 3 == policy.contract("paid_search").max_calls
    reader = policy.contract("read_lines").range
    assert reader is not None
    assert "from" == reader.start.text
    assert policy.contract("think").noop
    assert Effect.WRITE is policy.contract("issue_refund").effect


def test_the_default_needs_no_file() -> None:
    """Nothing declared: the thresholds of the contract, every tool undeclared."""
    policy = default()
    assert "default@1" == policy.label
    assert Mode.OBSERVE is policy.mode
    contract = policy.contract("anything")
    assert (False, False, 2, 7, 8, None) == (
        contract.declared,
        contract.noop,
        contract.allowed_repeats,
        contract.undeclared_allowed_repeats,
        contract.window,
        contract.max_calls,
    )
    assert (Effect.UNKNOWN, Pattern.PLAIN) == (contract.effect, contract.pattern)


def test_contracts_are_cached_within_bounds() -> None:
    """One name gives one object; a flood of names from outside does not grow the cache for ever."""
    policy = default()
    first = policy.contract("a")
    assert first is policy.contract("a")
    for number in range(5000):
        policy.contract(f"tool {number}")
    assert first.digest8 == policy.contract("a").digest8
    assert len(policy._cache) <= 1024  # noqa: SLF001 - the bound is not visible from outside


def test_json_is_read_like_yaml() -> None:
    """One policy in both notations is one policy."""
    yaml_text = HEAD + "tools: {t: {effect: read, ignore_args: [a.b], defaults: {x: 1.0}}}\n"
    json_text = (
        '{"version": 1, "policy": "p", "policy_version": 1,\n "tools":'
        ' {"t": {"effect": "read", "ignore_args": ["a.b"], "defaults": {"x": 1}}}}'
    )
    assert load(yaml_text).digest8 == load(json_text).digest8


def test_words_that_old_yaml_takes_for_booleans_are_names() -> None:
    """`on`, `yes` and dates are text, and keys are always text: an argument may be called so."""
    policy = load(HEAD + "tools:\n  on: {ignore_args: [on, yes]}\n  2026-01-01: {}\n  7: {}\nnoop_tools: [no]\n")
    assert {"on", "2026-01-01", "7", "no"} == set(policy.tools)
    assert {"x": 1} == policy.contract("on").arguments({"on": True, "yes": False, "x": 1})
    assert "p@2026-01-01" == load("version: 1\npolicy: p\npolicy_version: 2026-01-01").label
    assert "p@1.10" == load("version: 1\npolicy: p\npolicy_version: 1.10").label


def test_all_problems_come_at_once_in_order() -> None:
    """One run of the loader tells everything, by line."""
    found = problems(
        "version: 2\npolicy: a b\ntols: {}\ntools:\n  x: {efect: read, polling: {max_polls: 0}}\n"
        "  y: {effect: write, polling: {}}\n"
    )
    expected = [
        "f.yaml:1:1: the key `policy_version` is missing",
        "f.yaml:1:10: version: 2 is not a version",
        'f.yaml:2:9: policy: "a b" is not allowed',
        "f.yaml:3:1: tols: unknown key; did you mean `tools`?",
        "f.yaml:5:7: tools.x.efect: unknown key; did you mean `effect`?",
        "f.yaml:5:41: tools.x.polling.max_polls: 0 is out of range",
        "f.yaml:6:31: tools.y.polling: a repeated write never counts as progress",
    ]
    assert expected == [line[: len(start)] for line, start in zip(found, expected, strict=True)]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", "f.yaml:1:1", "empty"),
        (" \n# only a comment\n", "f.yaml:1:1", "no policy"),
        ("just text", "f.yaml:1:1", "a table of keys is expected"),
        ("- 1\n", "f.yaml:1:1", "a table of keys is expected"),
        (HEAD + "mode: observe\n\tscope: run", "f.yaml:5:1", "tab"),
        (HEAD + "mode: a: b", "f.yaml:4:8", "colon"),
        (HEAD + "tools: {", "f.yaml:5:1", "not YAML"),
        (HEAD + "mode: observe\nmode: enforce", "f.yaml:5:1", "already stands in line 4"),
        (HEAD + "tools:\n  t: {effect: read,\n    effect: write}", "f.yaml:6:5", "already stands in line 5"),
        (HEAD + "tools: &x {}", "f.yaml:4:8", "anchors"),
        (HEAD + "tools: *x", "f.yaml:4:8", "anchors"),
        (HEAD + "policy_version: !!str 1", "f.yaml:4:17", "tags"),
        (HEAD + "--- \nversion: 1", "f.yaml:4:1", "second document"),
        (HEAD + "? [a]\n: 1", "f.yaml:4:3", "key must be plain text"),
        (HEAD + 'tools: {"a\\u0000b": *x}', "f.yaml:4:", "anchors"),
        ("\n\n  \x01", "f.yaml:3:3", "control character"),
        (HEAD + "tools: " + "[" * 40 + "]" * 40, "f.yaml:4:31", "levels deep"),
        (HEAD + "# \x00", "f.yaml:4:3", "control character"),
        (HEAD + "# \ud800", "f.yaml:1:1", "UTF-8"),
        (HEAD + "x: [" + "1," * 60_000 + "]", "f.yaml:4:", "more than 50000 values"),
        ("#" * 1_100_000, "f.yaml:1:1", "at most 1048576"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_text_that_is_no_document(text: str, place: str, words: str) -> None:
    """Empty, malformed, multiplying and oversized documents are refused with a place."""
    found = problems(text)
    assert any(line.startswith(place) and words in line for line in found), found


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("{", "f.yaml:1:2", "a key in double quotes"),
        ("{version: 1}", "f.yaml:1:2", "a key in double quotes"),
        ('{"a": 1,}', "f.yaml:1:9", "a key in double quotes"),
        ('{"a" 1}', "f.yaml:1:6", "colon"),
        ('{"a": 1 "b": 2}', "f.yaml:1:9", "comma"),
        ('{"a": tru}', "f.yaml:1:7", "value is expected"),
        ('{"a": "x}', "f.yaml:1:7", "not closed"),
        ('{"a": "\\ud800"}', "f.yaml:1:", "surrogate"),
        ('{"a": 1e999}', "f.yaml:1:7", "too large"),
        ('{"a": ' + "9" * 5000 + "}", "f.yaml:1:7", "at most 40"),
        ('{"a": 1}\n x', "f.yaml:2:2", "more text"),
        ('{"a": ' + "[" * 100_000, "f.yaml:1:", "levels deep"),
        ('{"a": 1,\n "a": 2}', "f.yaml:2:2", "already stands in line 1"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_text_that_is_no_json(text: str, place: str, words: str) -> None:
    """The same for JSON, which is read without a YAML library."""
    found = problems(text)
    assert any(line.startswith(place) and words in line for line in found), found


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("mode: observ", 'mode: "observ" is not one of observe, enforce; did you mean `observe`?'),
        ("unattended: yes", 'unattended: true or false is expected, this is "yes"'),
        ("unattended: 1", "true or false is expected"),
        ("defaults: {allowed_repeats: 0}", "defaults.allowed_repeats: 0 is out of range; use 1 to 1000"),
        ("defaults: {allowed_repeats: 1001}", "out of range"),
        ("defaults: {allowed_repeats: 2.5}", "a whole number is expected, this is 2.5"),
        ("defaults: {allowed_repeats: true}", "a whole number is expected"),
        ('defaults: {allowed_repeats: "2"}', 'a whole number is expected, this is "2"'),
        ("defaults: {allowed_repeats: 010}", 'a whole number is expected, this is "010"'),
        ("defaults: {allowed_repeats: 1_0}", "a whole number is expected"),
        ("defaults: {allowed_repeats: " + "9" * 5000 + "}", "a whole number is expected"),
        ("defaults: {window: 1}", "use 2 to 64"),
        ("defaults: {max_calls: 0}", "use 1 to 1000000"),
        ("actions: [stop, deny]", "actions: the steps are out of order"),
        ("actions: []", "1 to 200 entries are expected, not 0"),
        ("actions: [deny, deny]", 'actions[1]: "deny" stands twice'),
        ("noop_tools: think", "a list is expected"),
        ("noop_tools: [null]", "text is expected, this is null"),
        ("noop_tools: [true]", 'put it in quotes: "true"'),
        ("noop_tools: ['']", "text of 1 to 256 characters is expected, not 0"),
        ("tools:", "tools: a table of keys is expected"),
        ("tools: {t: 1}", "tools.t: a table of keys is expected"),
        ('tools: {"": {}}', "a tool name has 1 to 256 characters"),
        ("errors: {transient: 429}", "errors.transient: a list is expected, this is a single value; write [429]"),
        ("identity: [[a]]", "identity[0]: text is expected, this is a list"),
    ],
)
def test_a_wrong_value_is_named_with_its_key(line: str, words: str) -> None:
    """Types, ranges, choices and lists."""
    assert words in only(HEAD + line)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{polling: {}, pagination: {items: a}}", "t.pagination: a tool is a poller or a pager"),
        ("{effect: write, polling: {}}", "t.polling: a repeated write never counts as progress"),
        ("{effect: write, pagination: {items: a}}", "t.pagination: a repeated write"),
        ("{effect: write, progress: [{path: a, rule: changes}]}", "t.progress: a repeated write"),
        ("{effect: write, range: {key: a, start: b}}", "t.range: a repeated write"),
        ("{business_key: [a]}", "t.business_key: this holds for writes only; add `effect: write`"),
        ("{effect: read, idempotency_key: k}", "t.idempotency_key: this holds for writes only"),
        ("{effect: write, business_scope: global}", "t.business_scope: this bounds a business key"),
        ("{effect: write, business_ttl_s: 5}", "t.business_ttl_s: this bounds a business key"),
        ("{effect: write, unknown_outcome: allow_same_key}", "add `idempotency_key"),
        ("{polling: {terminal: [done]}}", "t.polling.terminal: terminal states need a state"),
        (
            "{polling: {state: s, terminal: [null]}}",
            "terminal[0]: text, a number, true or false is expected, this is null",
        ),
        ("{polling: {state: s, terminal: [[a]]}}", "true or false is expected, this is a list"),
        ("{polling: {deadline_s: 4, min_interval_s: 5}}", "t.polling.deadline_s: the deadline ends before"),
        ("{polling: {deadline_s: 0}}", "a deadline of 0 seconds"),
        ("{polling: {max_polls: 5, max_unchanged: 6}}", "t.polling.max_unchanged: this can never be reached"),
        ("{pagination: {}}", "t.pagination: a pager needs `cursor`, `items` or both"),
        ("{range: {key: a}}", "t.range: the key `start` is missing"),
        ("{progress: []}", "1 to 16 entries are expected, not 0"),
        ("{progress: [{rule: changes}]}", "t.progress[0]: one of `path` and `callable` is needed"),
        ("{progress: [{path: a, callable: b, rule: changes}]}", "one of `path` and `callable`"),
        ("{progress: [{path: a}]}", "one of `rule`, `in_order` and `reaches` is needed"),
        ("{progress: [{path: a, rule: changes, reaches: [b]}]}", "and only one"),
        ("{progress: [{path: a, rule: increase}]}", "did you mean `increases`?"),
        ("{progress: [{path: a, in_order: []}]}", "1 to 200 entries"),
        ("{progress: [{callable: x, rule: changes}]}", "functions are not available here"),
        ("{ignore_args: [cursor], pagination: {cursor: cursor}}", "`pagination.cursor` needs this argument"),
        ("{ignore_args: [a], identity_args: [a.b]}", "t.ignore_args[0]: `identity_args` needs this argument"),
        ("{effect: write, ignore_args: [a], business_key: [a]}", "`business_key` needs this argument"),
        ("{ignore_args: [a], path_args: [a]}", "`path_args` needs this argument"),
        ("{ignore_args: [a], defaults: {a: 1}}", "`defaults` needs this argument"),
        ("{ignore_args: [f], range: {key: a, start: f}}", "`range.start` needs this argument"),
        ("{ignore_args: ['a[0]']}", 't.ignore_args[0]: "a[0]" cannot be used: a path to remove'),
        ("{ignore_result: ['max(a)']}", "use names joined by dots"),
        ("{ignore_result: ['a..b']}", "use names joined by dots"),
        ("{polling: {state: 'a['}}", "not a JMESPath expression"),
        ("{polling: {state: 'to_string(@)'}}", "the function to_string() is not allowed"),
        ("{polling: {state: '[@,@]|[@,@]'}}", "the expression is too large"),
        (r"{ignore_result_regex: '(a)\1'}", "no back references"),
        ("{ignore_result_regex: '(?=a)'}", "t.ignore_result_regex[0]:"),
        ("{ignore_result_regex: [a, 'b*']}", "t.ignore_result_regex[1]:"),
        ("{ignore_result_regex: '('}", "missing )"),
        ("{ignore_result_regex: 'a{5000}'}", "invalid repetition size"),
    ],
)
def test_keys_that_contradict_each_other(body: str, words: str) -> None:
    """What can never have an effect, or says two things at once, is an error with a way out."""
    assert words in only(in_tool(body))


def test_a_noop_tool_does_nothing() -> None:
    """A tool that is listed as a no-op cannot also be a write or a poller."""
    found = problems(HEAD + "noop_tools: [t]\ntools: {t: {effect: write, max_calls: 3}}")
    assert 2 == len(found)
    assert "tools.t.effect: this tool stands in noop_tools" in found[0]


def test_a_problem_is_told_once() -> None:
    """A key that could not be read causes no further complaint about its tool."""
    assert "is not one of" in only(in_tool("{effect: wirte, business_key: [a]}"))


def test_very_many_problems_are_counted() -> None:
    """A hundred are listed, the rest are a number."""
    found = problems(HEAD + "tools: {" + ", ".join(f"t{n}: {{x: 1}}" for n in range(300)) + "}")
    assert 101 == len(found)
    assert "200 more problems" in found[-1]


def test_messages_hold_no_control_characters() -> None:
    """What a file says is shown on one line, cut and without escapes."""
    line = only(HEAD + '"\\u001b[31m' + "x" * 300 + '": 1')
    assert line.isprintable()
    assert len(line) < 400


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, a folder and other encodings are policy errors that name the file."""
    for name, raw, words in [
        ("missing.yaml", None, "cannot be read"),
        ("utf16.yaml", HEAD.encode("utf-16"), "not UTF-8"),
        ("latin.yaml", b"version: 1\n# \xe9\n", ":2:1: the file is not UTF-8"),
    ]:
        if raw is not None:
            (tmp_path / name).write_bytes(raw)
        with pytest.raises(PolicyError, match=name) as caught:
            load_file(tmp_path / name)
        assert words in str(caught.value)
    with pytest.raises(PolicyError, match="cannot be read"):
        load_file(tmp_path)
    with pytest.raises(PolicyError, match="not a path"):
        load_file("a\x00b")


def test_a_byte_order_mark_and_windows_lines_are_fine(tmp_path: Path) -> None:
    """Editors add them."""
    path = tmp_path / "p.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + HEAD.replace("\n", "\r\n").encode())
    assert "p@1" == load_file(path).label


_WITHOUT = """
import sys
for name in ("yaml", "jmespath", "re2"):
    sys.modules[name] = None
from otel_loopguard.errors import MissingExtraError
from otel_loopguard.policy import default, load
head = '{"version": 1, "policy": "p", "policy_version": 1, "tools": {"t": {%s}}}'
assert default().contract("t").allowed_repeats == 2
policy = load(head % '"ignore_result": ["a[].b"], "progress": [{"path": "v[0].n", "rule": "increases"}]')
assert policy.contract("t").result({"a": [{"b": 1}]}) == {"a": [{}]}
for body in ('"ignore_result_regex": "x"', '"polling": {"state": "max(a)"}'):
    try:
        load(head % body)
    except MissingExtraError as error:
        assert 'pip install "otel-loopguard[policy]"' in str(error)
    else:
        raise SystemExit(body)
try:
    load("version: 1")
except MissingExtraError as error:
    assert "PyYAML" in str(error)
else:
    raise SystemExit("yaml")
print("fine")
"""


def test_json_policies_and_the_default_need_no_extra() -> None:
    """Without PyYAML, jmespath and google-re2 all works that needs none of them; the rest names the extra."""
    done = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True, check=False)  # noqa: S603
    assert ("fine\n", 0) == (done.stdout, done.returncode), done.stderr


def test_the_missing_extra_error_is_ours() -> None:
    """Callers catch one base class."""
    assert issubclass(MissingExtraError, Exception)
    assert "LoopGuardError" in {base.__name__ for base in MissingExtraError.__mro__}


@pytest.mark.parametrize("text", ["3901ad72" * 8, "'3901ad72'", "- 3901ad72", "3901"])
def test_a_file_that_is_no_policy_is_not_shown(text: str) -> None:
    """It may be anything, the digest key among others."""
    with pytest.raises(PolicyError) as raised:
        load(text, source="f.yaml")
    assert "3901" not in str(raised.value)
