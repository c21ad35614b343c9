"""The records and enumerations that every other module speaks in.

Invariants: no record here holds content. Arguments, results, error texts and messages exist only in
`Span` (what was received) and in `dialects.reading` (what a dialect read); `facts` turns both into the
records below, and from there on only digests, enumerations, counts, times and checked names are left, and, inside
one process, keyed hashes of words (`Sketch`).
All records are frozen; `msgspec` gives them constructors, equality and encodings. Most of what is known of a span is
encoded as arrays, for the disk that replay keeps it on: nobody else reads it in this form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeAlias

import msgspec

Value: TypeAlias = Any
"""An attribute value as OTLP can carry it: str, bool, int, float, bytes, None, list or dict of these."""

SpanKey: TypeAlias = tuple[str, str]
"""(trace id, 32 lower-case hex; span id, 16 lower-case hex)."""


class Word(StrEnum):
    """An enumeration of words. A member hashes as its text does, in C; `Enum`'s own hash is a call in Python."""

    __hash__ = str.__hash__


class Unknown(Word):
    """Why there is no digest (DESIGN 2, `call.unknown`)."""

    NOT_CAPTURED = "not_captured"
    REDACTED = "redacted"
    TRUNCATED = "truncated"
    DROPPED = "dropped"
    UNPARSABLE = "unparsable"
    EXCLUDED = "excluded"
    SCHEMA_NOT_ARGUMENTS = "schema_not_arguments"
    NOT_CONFIGURED = "not_configured"


class Role(Word):
    """What a span is, as far as judging a run goes."""

    TOOL = "tool"
    AGENT = "agent"
    WORKFLOW = "workflow"
    CHAT = "chat"
    TURN = "turn"
    HANDOFF = "handoff"
    DECISION = "decision"
    RUN_END = "run_end"
    SETUP = "setup"
    """Makes an agent (`create_agent`) and holds no run."""
    OTHER = "other"


class Layer(Word):
    """Which side of one tool call a tool span shows; outermost first."""

    HOST = "host"
    CLIENT = "client"
    SERVER = "server"


class NotACall(Word):
    """Why a span typed as a tool is not a tool call."""

    MERGED = "merged"
    HANDOFF = "handoff"
    FINAL_ANSWER = "final_answer"
    WRAPPER = "wrapper"


class Effect(Word):
    """What a tool does to the world, as declared."""

    READ = "read"
    WRITE = "write"
    UNKNOWN = "unknown"


class Pattern(Word):
    """How repeats of a tool are to be read, as declared."""

    PLAIN = "plain"
    POLLING = "polling"
    PAGINATED = "paginated"


class Outcome(Word):
    """How one call ended."""

    OK = "ok"
    ERROR = "error"
    DENIED = "denied"
    UNKNOWN = "unknown"


_DENIED: Final = Outcome.DENIED


class ErrorCategory(Word):
    """What kind of failure; `unknown` unless explicit."""

    TRANSIENT = "transient"
    VALIDATION = "validation"
    NOT_FOUND = "not_found"
    PERMISSION = "permission"
    BUSINESS = "business"
    UNKNOWN = "unknown"


class ResultClass(Word):
    """What a result amounts to (DESIGN 6). `silence` ('' or null) is kept apart from `empty` ([] or {})."""

    CONTENT = "content"
    ACK = "ack"
    EMPTY = "empty"
    SILENCE = "silence"
    NOT_FOUND = "not_found"
    ERROR = "error"


class DeniedBy(Word):
    """Who refused to dispatch a call."""

    GUARD = "guard"
    OTHER = "other"


class Progress(Word):
    """How a call's result compares with the last equal call's (DESIGN 2, `progress`)."""

    FIRST = "first"
    ADVANCED = "advanced"
    UNCHANGED = "unchanged"
    UNKNOWN = "unknown"


class Finish(Word):
    """Why a model response ended, as far as the span says it."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    OTHER = "other"


class TerminationReason(Word):
    """How a run ended, from explicit evidence only."""

    FINAL_ANSWER = "final_answer"
    LOOP_GUARD = "loop_guard"
    TURN_LIMIT = "turn_limit"
    DEADLINE = "deadline"
    TOOL_ERROR = "tool_error"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class Severity(Word):
    """What a finding claims: `loop` and `suspect` about repeating; the others carry their own outcome."""

    LOOP = "loop"
    SUSPECT = "suspect"
    REPORT = "report"
    BUDGET = "budget"
    DUPLICATE_WRITE = "duplicate_write"
    INDETERMINATE_WRITE = "indeterminate_write"
    OUTAGE = "outage"


class Basis(Word):
    """What a finding rests on."""

    DIGEST = "digest"
    LIKENESS = "likeness"


class Kind(Word):
    """Every finding kind of DESIGN 6; a kind without a module in `detectors` is not built yet."""

    EXACT_REPEAT = "exact_repeat"
    ERROR_REPEAT = "error_repeat"
    INTERLEAVED_REPEAT = "interleaved_repeat"
    CYCLE = "cycle"
    HANDOFF_CYCLE = "handoff_cycle"
    SAME_RESULT = "same_result"
    NEAR_REPEAT = "near_repeat"
    NEAR_RESULT = "near_result"
    ARGS_REPEAT = "args_repeat"
    STALLED_POLL = "stalled_poll"
    POLL_BUDGET = "poll_budget"
    PAGINATION_STALL = "pagination_stall"
    DUPLICATE_WRITE = "duplicate_write"
    DENIED_REPEAT = "denied_repeat"
    RELAPSE = "relapse"
    NO_PROGRESS = "no_progress"
    ERROR_CASCADE = "error_cascade"
    NO_NEW_COVERAGE = "no_new_coverage"
    BUDGET = "budget"
    OUTAGE = "outage"
    PARALLEL_DUPLICATE = "parallel_duplicate"


class Action(Word):
    """A guard's answer for one proposed call."""

    ALLOW = "allow"
    WARN = "warn"
    SHARE = "share"
    DENY = "deny"
    STOP = "stop"


class RunOutcome(Word):
    """The one outcome of a verdict: the first that applies, in this order (DESIGN 8)."""

    LOOP = "loop"
    DUPLICATE_WRITE = "duplicate_write"
    INDETERMINATE_WRITE = "indeterminate_write"
    BUDGET_EXCEEDED = "budget_exceeded"
    OUTAGE = "outage"
    SUSPECT = "suspect"
    UNSCORABLE = "unscorable"
    INCOMPLETE = "incomplete"
    CLEAN = "clean"


class Flag(Word):
    """What a reader of a verdict must know beside its outcome."""

    ORPHAN_ROOTS = "orphan_roots"
    NO_ROOT = "no_root"
    OPEN_SPANS = "open_spans"
    SPAN_REVISED = "span_revised"
    CLOCK_SKEW = "clock_skew"
    ORDER_UNCERTAIN = "order_uncertain"
    SAMPLED = "sampled"
    KEY_CHANGED = "key_changed"
    POLICY_MISMATCH = "policy_mismatch"
    NO_ARGUMENTS = "no_arguments"
    REDACTED_ARGUMENTS = "redacted_arguments"
    TRUNCATED_ARGUMENTS = "truncated_arguments"
    DROPPED_ATTRIBUTES = "dropped_attributes"
    UNPARSABLE_ARGUMENTS = "unparsable_arguments"
    SCHEMA_NOT_ARGUMENTS = "schema_not_arguments"
    NO_RESULTS = "no_results"
    REQUESTED_NOT_SEEN = "requested_not_seen"
    REQUESTED_NOT_DISPATCHED = "requested_not_dispatched"
    SEQUENCE_GAP = "sequence_gap"
    GAP_IN_FINDING = "gap_in_finding"
    PRODUCER_NOT_CLOSED = "producer_not_closed"
    RUN_LIMIT = "run_limit"
    NO_TOOL_SPANS = "no_tool_spans"
    CONFLICTING_COPIES = "conflicting_copies"
    BAD_ATTRIBUTES = "bad_attributes"
    FINDINGS_DROPPED = "findings_dropped"


# --- What is received -------------------------------------------------------------------------------


class SpanEvent(msgspec.Struct, frozen=True, gc=False):
    """One event of a span: its name and attributes, content included."""

    name: str
    attributes: Mapping[str, Value]
    time_ns: int = 0


class Span(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One received span, content included; only `dialects` and `facts` read it, and nothing keeps it.

    Ids are lower-case hex of full length. Times are Unix nanoseconds; `end_ns` is None while a span is open.
    `kind` and `status_code` are the OTLP numbers (kind 0-5; status 0 unset, 1 ok, 2 error).
    """

    trace_id: str
    span_id: str
    parent_id: str | None = None
    name: str = ""
    kind: int = 0
    scope: str = ""
    start_ns: int = 0
    end_ns: int | None = None
    status_code: int = 0
    status_message: str = ""
    attributes: Mapping[str, Value] = {}
    events: Sequence[SpanEvent] = ()
    links: Sequence[SpanKey] = ()
    resource: Mapping[str, Value] = {}
    trace_state: str = ""
    dropped_attributes: int = 0
    dropped_events: int = 0


class CallRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One received call record (DESIGN 9), content included: a tool call written down by an application.

    Each field is as the record carries it; `result_missing` also covers a record without any result key.
    """

    run_id: str
    sequence: int
    tool: str
    turn: int | str | None = None
    call_id: str | None = None
    arguments: Value = None
    result: Value = None
    result_missing: bool = False
    error: Value = None
    """None or False: no error. True: an error whose text is the result. Text: the error's message."""
    ts: float | None = None
    """Seconds; only differences count."""
    agent: str | None = None
    user_turn: int | str | None = None
    session: str | None = None
    task: str | None = None
    attempt: int | str | None = None
    tenant: str | None = None
    key_id: str | None = None
    effect: str | None = None
    dispatched: bool | None = None
    denied: bool = False
    concurrent: bool = False
    after_compaction: bool = False


class BadInput(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One piece of input that could not be read: where it stood and why, never what it held."""

    source: str
    line: int | None
    """Line from 1; None for input that has no lines."""
    reason: str


# --- What is known, without content -------------------------------------------------------------------


class Mark(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What one declared progress rule saw in one call: a number, a position, a count or a digest.

    `value` is None where the rule's path was absent or of the wrong type: unknown, never progress.
    """

    rule: str
    """The rule's label in findings, such as `version increases`."""
    value: float | int | str | tuple[int, ...] | None


class Extent(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What part of something one call of a ranged reader asked for: from `start`, up to `end` or to the end (None)."""

    of: str
    """Digest of what is read."""
    start: float
    end: float | None


class Signals(msgspec.Struct, frozen=True, gc=False, array_like=True, kw_only=True):
    """Everything a tool's contract makes of one call's content, for comparing with the calls before it.

    Numbers are the tool's own (a version, a count); all else is keyed digests, cut to 64 bits for items.
    """

    marks: tuple[Mark, ...] = ()
    state: str | None = None
    terminal: bool | None = None
    cursor: str | None = None
    """Digest of the cursor that this page leads to; None where the page names none."""
    items: tuple[int, ...] | None = None
    extent: Extent | None = None


class Sketch(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What is kept of a text for telling how alike two are; made and compared by `likeness`, in one process only.

    Words are kept as the hashes that this process gives them (keyed, 64 bits each): no attribute ever holds one.
    """

    hashes: bytes
    """At most 256 hashes of distinct words in the order of the text, 8 bytes each.

    The lowest bit is 1 for a word that holds a digit.
    """
    level: int = 0
    """Of the distinct words one in 2 ** `level` was kept."""
    distinct: int = 0
    words: int = 0
    """Words counted, repeats included."""
    length: int = 0
    """Characters of the whole text."""
    numbers: bytes = b""
    """The first numbers of the text, at most 16, in order, hidden; 8 bytes each (`likeness.numbers_of`)."""


class Likenesses(msgspec.Struct, frozen=True, gc=False, array_like=True, kw_only=True):
    """What can be compared by likeness of one call; it stays in this process, only counts made of it leave."""

    arguments: Sketch | None = None
    """All words of the arguments; None where none of them is free text."""
    frame: str | None = None
    """Keyed digest of the arguments with a constant in place of each free text."""
    identity: str | None = None
    """Keyed digest of the declared `identity_args`."""
    result: Sketch | None = None
    """Of a text result, of an error's text, and of any result where the arguments hold free text."""
    result_is_text: bool = False
    values: tuple[int, ...] = ()
    """Of a call that failed or found nothing: one hash for each argument, as `likeness.values_of` makes them."""


class CallFacts(msgspec.Struct, frozen=True, gc=False, array_like=True, kw_only=True):
    """What is known of one tool call itself: what a span's `loopguard.*` attributes hold.

    Digests are 32 lower-case hex characters; equal digests mean equal calls only within equal
    (key_id, key scope value, contract). `call_digest` and `call_unknown` exclude each other.
    """

    tool: str
    call_id: str | None = None
    call_digest: str | None = None
    call_unknown: Unknown | None = None
    result_digest: str | None = None
    result_unknown: Unknown | None = None
    result_class: ResultClass | None = None
    outcome: Outcome = Outcome.UNKNOWN
    error_category: ErrorCategory | None = None
    error_type: str | None = None
    denied_by: DeniedBy | None = None
    dispatched: bool | None = None
    """False where the record says that the call never reached the tool; None where nothing says so."""
    effect: Effect = Effect.UNKNOWN
    pattern: Pattern = Pattern.PLAIN
    contract: str | None = None
    key_id: str | None = None
    policy: str | None = None
    state_digest: str | None = None
    idempotency_digest: str | None = None
    business_digest: str | None = None
    error_digest: str | None = None
    """Of a failure's text, equal across tools."""
    signals: Signals | None = None
    progress: Progress | None = None
    """As the producer computed it; None where the content was here and `signals` decides."""
    progress_rule: str | None = None
    terminal: bool | None = None
    new_items: int | None = None
    covered: bool | None = None
    """Whether a ranged reader had read all of this before, as the producer computed it."""
    repeat_count: int | None = None
    result_words: int | None = None
    """Words of a text result, 64 for any more; None for a result that is no text, or not known."""
    likenesses: Likenesses | None = None
    """None where nothing of the call is free text, or the content was not here; the counts below were then made
    where it was. None there: not measured."""
    near_repeat_count: int | None = None
    """How many calls in a row, this one included, put the same thing in other words; 1: this one is the first."""
    near_repeat_alike: int | None = None
    """How many of them, up to this one, came in consecutive rounds with the same answer or alike failures."""
    near_result_count: int | None = None
    """How many calls equal to this one gave text alike to the first's, this one included; 1: it is the first."""
    near_result_alike: int | None = None
    """Likeness of this call's text to that first one's in per cent, rounded down."""
    result_moving: bool | None = None
    """True where these texts grow, or a number in them goes one way, so that they show progress."""
    same_result_item: bool | None = None
    """Of a call that failed or found nothing with the same words as its tool's call before it: True where it asks for
    the next of many things, as it differs from that one in one short value only, which none before it had."""


class ChatFacts(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What is known of one model response. `requested` is in the response's order and may be empty."""

    requested: tuple[str, ...] | None = None
    """Call ids asked for; None where the span does not say."""
    requested_calls: int | None = None
    """How many calls were asked for, where that much is known."""
    finish: Finish | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    model: str | None = None


class DecisionFacts(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One guard decision other than `allow`."""

    call_id: str | None
    action: Action
    enforced: bool
    reason: str | None = None
    tool: str | None = None
    call_digest: str | None = None


class SpanFacts(msgspec.Struct, frozen=True, gc=False, array_like=True, kw_only=True):
    """What is known of one span: where it stands, what it is, and the facts of that role.

    `trace_id` is empty for a call record, whose place is given by `run_id` and `sequence` alone.
    """

    trace_id: str
    span_id: str
    parent_id: str | None = None
    start_ns: int = 0
    end_ns: int | None = None
    role: Role = Role.OTHER
    dialect: str | None = None
    links: tuple[SpanKey, ...] = ()
    service: str | None = None
    release: str | None = None
    host: str | None = None
    """Clock domain: a digest of the resource's instance, host or process attributes."""
    layer: Layer = Layer.HOST
    not_a_call: NotACall | None = None
    agent: str | None = None
    """On agent spans its own name; on others the calling agent's, where the span says it."""
    run_id: str | None = None
    conversation: str | None = None
    """Digest of the conversation, session or thread id."""
    task: str | None = None
    user_turn: str | None = None
    attempt: str | None = None
    turn: str | None = None
    """The framework's own turn, step or cycle id for this span; unique within one agent span."""
    after_compaction: bool = False
    concurrent: bool = False
    producer: str | None = None
    sequence: int | None = None
    started: int | None = None
    call: CallFacts | None = None
    chat: ChatFacts | None = None
    decision: DecisionFacts | None = None
    termination: TerminationReason | None = None
    final_answer: bool | None = None
    """True where an answer to the user was seen, False where the span says there was none."""
    run_calls: int | None = None
    failed: bool = False
    sampled: bool = False
    dropped_attributes: bool = False
    bad_attributes: bool = False
    """A `loopguard.*` attribute did not have its contract's shape and was left out."""


class ToolCall(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One tool call in its place in a run: what the tracker observes.

    `number` counts calls from 1 in the run's order. `turn` counts turns from 1: calls with equal `turn` are
    siblings and come one after another. `user_turn` counts user turns from 1.
    """

    number: int
    turn: int
    agent: str
    user_turn: int = 1
    attempt: str | None = None
    session: str | None = None
    task: str | None = None
    facts: CallFacts
    start_ns: int = 0
    end_ns: int | None = None
    tokens: int = 0
    """Tokens of the model response that asked for this call, on its first call; 0 on the others or unknown."""
    keys: tuple[SpanKey, ...] = ()
    """The spans that showed this call, outermost first; empty for a call record."""

    @property
    def executed(self) -> bool:
        """True unless the call was denied or is known not to have reached its tool."""
        return self.facts.outcome is not _DENIED and self.facts.dispatched is not False


class Duplicates(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Spans that were not counted, and why."""

    identical: int = 0
    conflicting: int = 0
    reidentified: int = 0
    layered: int = 0


class PlacedDecision(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A guard decision and the number of the call it was about, or of the last call before it."""

    decision: DecisionFacts
    call: int | None
    after_call: int
    """How many calls of the run came before the decision."""


class Run(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One assembled run: its calls in order and what its spans say about themselves.

    `calls` may be empty. `gaps` holds call numbers after which a numbered call is missing (0: before the first).
    """

    run_id: str
    calls: tuple[ToolCall, ...] = ()
    decisions: tuple[PlacedDecision, ...] = ()
    trace_ids: tuple[str, ...] = ()
    service: str | None = None
    release: str | None = None
    agent: str | None = None
    model: str | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    flags: frozenset[Flag] = frozenset()
    gaps: tuple[int, ...] = ()
    missing_sequences: tuple[int, ...] = ()
    requested_unseen: int = 0
    """Calls that a model response asked for and that no span shows, without an ending that explains it."""
    scorable_without_calls: bool = False
    """True where model responses were seen and none of them asked for a call."""
    termination: TerminationReason = TerminationReason.UNKNOWN
    final_answer: bool = False
    duplicates: Duplicates = Duplicates()


# --- What is claimed ----------------------------------------------------------------------------------


class Finding(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What one detector claims about one stretch of calls.

    `calls` are call numbers (from 1, ascending); `first_call` and `at_call` are the stretch's first call and
    the call with which the claim became true; `count` is the stretch's last count.
    """

    kind: Kind
    severity: Severity
    basis: Basis = Basis.DIGEST
    tool: str
    agent: str
    count: int
    period: int | None = None
    first_call: int
    at_call: int
    call_ids: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    calls: tuple[int, ...] = ()
    rule: str | None = None
    """The declared rule or bound that decided, where one did."""


class Decision(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A guard's answer for one proposed call.

    `reason` is the kind of the finding that the call would complete (None: none), `count` how often it would
    then have come. `enforced` is False for a prediction.
    """

    action: Action
    enforced: bool = False
    reason: Kind | None = None
    count: int = 0


class GuardEntry(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One decision in a verdict; `call` is the call's number, or None where no call was seen for it."""

    call_id: str | None
    call: int | None
    action: Action
    enforced: bool
    reason: str | None = None


class Verdict(
    msgspec.Struct, frozen=True, gc=False, kw_only=True, rename={"started_ns": "started", "ended_ns": "ended"}
):
    """What is said of one run: separate fields, and one `outcome` derived from them (DESIGN 8)."""

    run_id: str
    outcome: RunOutcome
    first_loop_call: int | None = None
    trace_ids: tuple[str, ...] = ()
    service: str | None = None
    release: str | None = None
    agent: str | None = None
    model: str | None = None
    policy: str | None = None
    key_ids: tuple[str, ...] = ()
    started_ns: int | None = None
    """Earliest start in Unix nanoseconds, `started` in JSON; None where no time is known."""
    ended_ns: int | None = None
    """Latest end in Unix nanoseconds, `ended` in JSON."""
    revision: int = 1
    final: bool = True
    stalled_repeat: bool = False
    cycle: bool = False
    progress_observed: bool = False
    calls: int = 0
    distinct_calls: int = 0
    distinct_digests: int = 0
    turns: int = 0
    new_items_observed: bool | None = None
    poll_budget_exhausted: bool = False
    terminal_state: bool | None = None
    finding_created: int | None = None
    dispatch_denied: int | None = None
    terminal_response_emitted: int | None = None
    checkpoints_in_order: bool | None = None
    guard_expected_at: int | None = None
    guard_fired_at: int | None = None
    guard_on_time: bool | None = None
    executions_after_finding: int = 0
    executions_after_denial: int = 0
    side_effects_after_denial: int = 0
    termination_reason: TerminationReason = TerminationReason.UNKNOWN
    wasted_calls: int = 0
    wasted_ms: float = 0.0
    wasted_tokens: int = 0
    findings: tuple[Finding, ...] = ()
    guard: tuple[GuardEntry, ...] = ()
    flags: tuple[Flag, ...] = ()
    unknown_calls: dict[str, int] = {}
    """Calls without a digest, counted by reason."""
    missing_sequences: tuple[int, ...] = ()
    duplicates: Duplicates = Duplicates()
