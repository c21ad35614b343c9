"""Turns one received span or call record into facts that hold no content.

Invariants: what leaves this module holds digests, enumerations, counts, times, checked names and sketches only; equal
content gives equal digests whatever dialect carried it. Pure: no clock, no I/O, no state but bounded caches
of names. It does not raise on any span or record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from otel_loopguard import dialects
from otel_loopguard.attributes import RUN_CALLS
from otel_loopguard.canonical import CanonicalError
from otel_loopguard.classify import classify
from otel_loopguard.dialects import payload
from otel_loopguard.dialects.own import ABSENT, OwnAttributes, read_own
from otel_loopguard.dialects.reading import NOT_CAPTURED, Reading
from otel_loopguard.digest import NAME_PREFIX, Digester, NameKind, checked_name, looks_like_name
from otel_loopguard.likeness import count_words, framed, sketch_of, values_of
from otel_loopguard.model import (
    CallFacts,
    CallRecord,
    ChatFacts,
    DeniedBy,
    Effect,
    ErrorCategory,
    Likenesses,
    Outcome,
    Pattern,
    ResultClass,
    Role,
    Span,
    SpanFacts,
    Value,
)
from otel_loopguard.policy import BusinessScope, Policy, ToolContract

MAX_CACHED_NAMES: Final = 4096
"""Names remembered as checked; past this the cache is emptied (names come from outside)."""

MOST_WORDS: Final = 64
"""Words counted of a text result: more make no difference to any rule."""

COMPARED_WORDS: Final = 4
"""Fewest words of a text worth comparing: of three words one that differs leaves a likeness of 0.5."""

RECORD_TRACE: Final = ""
"""`SpanFacts.trace_id` of a call record."""

HOST_KEYS: Final = ("service.instance.id", "host.id", "host.name", "process.pid")
"""Keys of a resource that tell one clock from another."""
RECORD_DIALECT: Final = "call_record"

# Members under names of their own: to look one up in its class costs 50 ns, and a span does so a dozen times.
_CLASS_ERROR: Final = ResultClass.ERROR
_CLASS_NOT_FOUND: Final = ResultClass.NOT_FOUND
_DENIED: Final = Outcome.DENIED
_EFFECT_UNKNOWN: Final = Effect.UNKNOWN
_EFFECT_WRITE: Final = Effect.WRITE
_ERROR: Final = Outcome.ERROR
_OK: Final = Outcome.OK
_OTHER: Final = Role.OTHER
_OUTCOME_UNKNOWN: Final = Outcome.UNKNOWN
_PLAIN: Final = Pattern.PLAIN
_TOOL: Final = Role.TOOL
_CALL_ID: Final = NameKind.CALL_ID
_ERROR_TYPE: Final = NameKind.ERROR_TYPE
_OTHER_NAME: Final = NameKind.OTHER
_TOOL_NAME: Final = NameKind.TOOL

_EFFECTS: Final = {Effect.READ.value: Effect.READ, Effect.WRITE.value: Effect.WRITE}
_MAX_NS: Final = 2**63 - 1
"""Times further from 1970 than this (292 years) are taken as this: what is kept on disk has 64 bits."""
_RECORD_TENANT_NAMES: Final = ("tenant.id", "tenant")


class FactsReader:
    """Reads spans and call records under one policy and one way to find keys.

    Args:
        policy: the owner's policy, or `policy.default()`.
        digester_for: gives the digester for a trace id or run id; `Keyring.for_trace`, or a function that
            always gives the environment's digester where equal calls must match across traces.
        sketches: whether calls get `likenesses`, which mean something in this process only.

    Thread safety: none needed for correctness of results; the caches are plain dicts.
    """

    def __init__(self, policy: Policy, digester_for: Callable[[str], Digester], *, sketches: bool = True) -> None:
        self._policy = policy
        self._sketches = sketches
        self._digester_for = digester_for
        self._plain: dict[NameKind, set[str]] = {kind: set() for kind in NameKind}
        """Names that pass as they are, by kind; those that do not are digested anew each time."""
        self._origin: tuple[Mapping[str, Value] | None, _Resource] = (None, _Resource(None, None, None))
        """The last resource; no more are kept, as nothing bounds what its sender writes into one."""
        self._conversation: tuple[Digester | None, str, str] = (None, "", "")
        """The last one and its digest: the spans of a trace come together, and to digest it takes 1 µs."""

    # --- spans ------------------------------------------------------------------------------------------

    def of_span(self, span: Span) -> SpanFacts:
        """Returns the facts of one span; spans that tell nothing of a run come back with role OTHER.

        Args:
            span: as received; content is read and dropped.

        Returns:
            Facts with `call` on tool spans, `chat` on chat spans, `decision` on decision spans.
        """
        reading = dialects.read(span)
        return self.of_reading(span, reading)

    def of_reading(self, span: Span, reading: Reading | None) -> SpanFacts:
        """Returns what `of_span` does of a span that its dialect has read already."""
        if reading is None or reading.role is _OTHER:
            # A root that no dialect knows may still say how many calls its process made of this trace.
            closing = read_own(span.attributes) if RUN_CALLS in span.attributes else None
            return SpanFacts(
                trace_id=span.trace_id,
                span_id=span.span_id,
                parent_id=span.parent_id,
                start_ns=span.start_ns,
                end_ns=span.end_ns,
                dialect=None if reading is None else reading.dialect,
                producer=None if closing is None else closing.producer,
                run_calls=None if closing is None else closing.run_calls,
            )
        own = read_own(span.attributes)
        digester = self._digester_for(own.run_id or span.trace_id)
        resource = self._resource(span.resource, digester)
        not_a_call = reading.not_a_call or own.not_a_call
        is_call = reading.role is _TOOL and not_a_call is None
        if is_call and own is ABSENT:
            # What a tool span has in an application: to name every field there is takes 1 µs.
            return SpanFacts(
                trace_id=span.trace_id,
                span_id=span.span_id,
                parent_id=span.parent_id,
                start_ns=span.start_ns,
                end_ns=span.end_ns,
                role=_TOOL,
                dialect=reading.dialect,
                links=tuple(span.links),
                service=resource.service,
                release=resource.release,
                host=resource.host,
                layer=reading.layer,
                agent=self._name(reading.agent, digester) if reading.agent else None,
                conversation=self._conversation_of(reading.conversation, digester) if reading.conversation else None,
                turn=self._name(reading.turn, digester) if reading.turn else None,
                call=self._call(span, reading, own, digester),
                chat=None if reading.chat is None else self._chat(reading.chat, own, digester),
                decision=reading.decision,
                termination=reading.termination,
                final_answer=reading.final_answer,
                failed=reading.outcome is _ERROR,
                sampled=_is_sampled(span.trace_state) if span.trace_state else False,
                dropped_attributes=span.dropped_attributes > 0,
            )
        return SpanFacts(
            trace_id=span.trace_id,
            span_id=span.span_id,
            parent_id=span.parent_id,
            start_ns=span.start_ns,
            end_ns=span.end_ns,
            role=reading.role,
            dialect=reading.dialect,
            links=tuple(span.links),
            service=resource.service,
            release=resource.release,
            host=resource.host,
            layer=reading.layer,
            not_a_call=not_a_call,
            agent=self._name(own.agent_id or reading.agent, digester),
            run_id=own.run_id,
            conversation=self._conversation_of(reading.conversation, digester) if reading.conversation else None,
            turn=self._name(own.turn_id or reading.turn, digester),
            producer=own.producer,
            sequence=own.sequence,
            started=own.started,
            call=self._call(span, reading, own, digester) if is_call else None,
            chat=self._chat(reading.chat, own, digester),
            decision=reading.decision,
            termination=own.termination or reading.termination,
            final_answer=reading.final_answer if own.terminal_response is None else own.terminal_response,
            run_calls=own.run_calls,
            failed=reading.outcome is _ERROR,
            sampled=_is_sampled(span.trace_state),
            dropped_attributes=span.dropped_attributes > 0,
            bad_attributes=own.malformed,
        )

    def origin(self, resource: Mapping[str, Value]) -> tuple[str | None, str | None, str | None]:
        """Returns `service`, `release` and `host` of all spans of a resource, where one key digests for all traces."""
        made = self._resource(resource, self._digester_for(""))
        return made.service, made.release, made.host

    def _call(self, span: Span, reading: Reading, own: OwnAttributes, digester: Digester) -> CallFacts:
        outcome = _DENIED if reading.denied else reading.outcome
        if outcome is _OUTCOME_UNKNOWN and span.end_ns is not None:
            outcome = _OK
        facts = self._digest(reading, outcome, digester, self._identity(span) if self._policy.identity else None)
        return own.over(facts) if own.present else facts

    def _conversation_of(self, text: str, digester: Digester) -> str:
        last, known, digest = self._conversation
        if last is not digester or known != text:
            digest = digester.conversation(text)
            self._conversation = (digester, text, digest)
        return digest

    def _identity(self, span: Span) -> dict[str, Value]:
        names = self._policy.identity
        found = {name: span.attributes.get(name, span.resource.get(name)) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    def _chat(self, chat: ChatFacts | None, own: OwnAttributes, digester: Digester) -> ChatFacts | None:
        if chat is None:
            return None
        requested = own.requested_call_ids
        if requested is None:
            requested = chat.requested
        return ChatFacts(
            requested=None
            if requested is None
            else tuple(checked_name(call_id, digester, kind=NameKind.CALL_ID) for call_id in requested),
            requested_calls=chat.requested_calls if own.requested_calls is None else own.requested_calls,
            finish=own.finish or chat.finish,
            input_tokens=chat.input_tokens,
            output_tokens=chat.output_tokens,
            model=self._name(chat.model, digester),
        )

    # --- call records -----------------------------------------------------------------------------------

    def of_record(self, record: CallRecord) -> SpanFacts:
        """Returns the facts of one call record, in the place its run id and sequence give it."""
        digester = self._digester_for(record.run_id)
        failed = record.error not in (None, False, "")
        error_text = record.error if isinstance(record.error, str) and record.error else None
        if failed and error_text is None and isinstance(record.result, str):
            error_text = record.result
        identity = {
            name: record.tenant for name in self._policy.identity if name in _RECORD_TENANT_NAMES and record.tenant
        }
        reading = Reading(
            role=Role.TOOL,
            dialect=RECORD_DIALECT,
            tool=record.tool,
            arguments=payload.content(record.arguments, arguments=True),
            result=NOT_CAPTURED if record.result_missing else payload.content(record.result),
            call_id=record.call_id,
            error_text=error_text,
            effect=record.effect,
        )
        outcome = Outcome.ERROR if failed else Outcome.UNKNOWN if record.result_missing else Outcome.OK
        if record.denied:
            outcome = Outcome.DENIED
        call = self._digest(reading, outcome, digester, identity or None)
        if record.dispatched is not None:
            call = msgspec.structs.replace(call, dispatched=record.dispatched)
        if record.key_id is not None:
            call = msgspec.structs.replace(call, key_id=self._name(record.key_id, digester))
        start_ns = 0 if record.ts is None else max(-_MAX_NS, min(_MAX_NS, int(record.ts * 1e9)))
        return SpanFacts(
            trace_id=RECORD_TRACE,
            span_id="",
            start_ns=start_ns,
            end_ns=start_ns,
            role=Role.TOOL,
            dialect=RECORD_DIALECT,
            agent=self._name(record.agent, digester),
            run_id=_run_id(record.run_id, digester),
            conversation=None if record.session is None else digester.conversation(record.session),
            task=None if record.task is None else digester.conversation(record.task),
            user_turn=None if record.user_turn is None else self._name(str(record.user_turn), digester),
            attempt=None if record.attempt is None else self._name(str(record.attempt), digester),
            turn=None if record.turn is None else self._name(str(record.turn), digester),
            after_compaction=record.after_compaction,
            concurrent=record.concurrent,
            sequence=record.sequence,
            call=call,
        )

    # --- shared -------------------------------------------------------------------------------------------

    def _digest(
        self, reading: Reading, outcome: Outcome, digester: Digester, identity: dict[str, Value] | None
    ) -> CallFacts:
        tool = reading.tool or ""
        contract = self._policy.contract(tool)
        effect = contract.effect
        if effect is _EFFECT_UNKNOWN and reading.effect is not None:
            effect = _EFFECTS.get(reading.effect, effect)
        arguments, result = reading.arguments, reading.result
        call_unknown, result_unknown = arguments.unknown, result.unknown
        call_digest = business = idempotency = result_digest = None
        normal = given = call_form = None
        if call_unknown is None:
            try:
                normal = arguments.value if contract.argument_rules is None else contract.arguments(arguments.value)
                call_form = arguments.form if normal is arguments.value else None
                call_digest = digester.call(tool, normal, identity=identity, form=call_form)
                key = contract.business(arguments.value) if contract.effect is _EFFECT_WRITE else None
                if key is not None:
                    business = digester.business(tool, key, beyond_run=contract.business_scope is not BusinessScope.RUN)
                if contract.writes.idempotency is not None:
                    idempotency = _digest_of(contract.idempotency(arguments.value), tool, digester.idempotency)
            except CanonicalError as error:
                call_digest, call_unknown = None, error.reason
        if result_unknown is None:
            try:
                given = result.value
                if contract.ignored_results or contract.ignored_texts:
                    given = contract.result(given)
                result_digest = digester.result(tool, given, form=result.form if given is result.value else None)
            except CanonicalError as error:
                result_unknown = error.reason
        result_class, category = self._classes(reading, outcome, effect, known=result_unknown is None)
        failed = result_class is _CLASS_ERROR
        if failed and outcome is _OK and self._policy.errors.in_band:
            outcome = _ERROR
        text = reading.error_text if failed and reading.error_text is not None else given
        lost = failed or result_class is _CLASS_NOT_FOUND
        return CallFacts(
            tool=tool if tool in self._plain[_TOOL_NAME] else self._name(tool, digester, _TOOL_NAME) or "",
            call_id=None if reading.call_id is None else checked_name(reading.call_id, digester, kind=_CALL_ID),
            call_digest=call_digest,
            call_unknown=call_unknown,
            result_digest=result_digest,
            result_unknown=result_unknown,
            result_class=result_class,
            outcome=outcome,
            error_category=category,
            error_type=None if reading.error_type is None else self._name(reading.error_type, digester, _ERROR_TYPE),
            denied_by=DeniedBy.OTHER if outcome is _DENIED else None,
            effect=effect,
            pattern=contract.pattern,
            contract=contract.digest8,
            key_id=digester.key_id,
            policy=self._policy.label,
            idempotency_digest=idempotency,
            business_digest=business,
            error_digest=_error_digest(reading, contract, digester) if failed else None,
            result_words=count_words(given, MOST_WORDS) if isinstance(given, str) else None,
            likenesses=None
            if outcome is _DENIED or not self._sketches
            else _likenesses(normal, text, contract, digester, lost=lost, form=call_form),
            signals=None
            if result_unknown is not None
            or not (contract.progress or contract.pagination or contract.polling or contract.range)
            else contract.signals(None if call_unknown else arguments.value, result.value, digester),
        )

    def _classes(
        self, reading: Reading, outcome: Outcome, effect: Effect, *, known: bool
    ) -> tuple[ResultClass | None, ErrorCategory | None]:
        errors = self._policy.errors
        if outcome is _DENIED:
            return None, None
        result_class = None
        if outcome is _ERROR:
            result_class = _CLASS_ERROR
        elif known:
            result_class = classify(reading.result.value, tool=reading.tool or "", effect=effect, errors=errors)
        if result_class is not _CLASS_ERROR:
            return result_class, None
        if reading.error_category is not None:
            return result_class, reading.error_category
        text = reading.error_text
        if text is None and known and isinstance(reading.result.value, str):
            text = reading.result.value
        return result_class, errors.categorise(error_type=reading.error_type, text=text)

    def _name(self, text: str | None, digester: Digester, kind: NameKind = _OTHER_NAME) -> str | None:
        if not text:
            return None
        known = self._plain[kind]
        if text in known:
            return text
        checked = checked_name(text, digester, kind=kind)
        if checked is text:
            if len(known) >= MAX_CACHED_NAMES:
                known.clear()
            known.add(text)
        return checked

    def _resource(self, resource: Mapping[str, Value], digester: Digester) -> _Resource:
        # Readers hand the same mapping for all spans of one resource, so that it is known by its identity.
        last, made = self._origin
        if last is resource:
            return made
        service, release = resource.get("service.name"), resource.get("service.version")
        host = [str(resource[key]) for key in HOST_KEYS if resource.get(key) is not None]
        made = _Resource(
            self._name(service, digester) if isinstance(service, str) else None,
            self._name(release, digester) if isinstance(release, str) else None,
            digester.name("\x00".join(host)) if host else None,
        )
        self._origin = (resource, made)
        return made


class _Resource:
    __slots__ = ("host", "release", "service")

    def __init__(self, service: str | None, release: str | None, host: str | None) -> None:
        self.service, self.release, self.host = service, release, host


def _run_id(run_id: str, digester: Digester) -> str:
    """A run id that is no name keeps all 128 bits of its digest: cut to 32, runs of a large file would collide."""
    if looks_like_name(run_id, kind=NameKind.OTHER):
        return run_id
    return NAME_PREFIX + digester.conversation(run_id)


def _digest_of(value: Value, tool: str, digest: Callable[[str, Value], str]) -> str | None:
    return None if value is None else digest(tool, value)


def _digest_or_none(tool: str, value: Value, digester: Digester) -> str | None:
    try:
        return digester.call(tool, value)
    except CanonicalError:
        return None


def _likenesses(
    normal: Value, result: Value, contract: ToolContract, digester: Digester, *, lost: bool, form: bytes | None
) -> Likenesses | None:
    """What of a call can be compared by likeness; None for short values and structures, which is most calls.

    `lost`: it failed or found nothing; `form`: the canonical form of the arguments, where it is known.
    """
    parts = framed(normal, form)
    is_text = isinstance(result, str)
    compared = (
        parts is not None
        or bool(contract.identity_args)
        or (is_text and count_words(result, COMPARED_WORDS) == COMPARED_WORDS)
    )
    if not (compared or lost):
        return None
    if contract.noop or contract.pattern is not _PLAIN:
        return None
    identity = contract.identity(normal) if contract.identity_args else None
    return Likenesses(
        arguments=None if parts is None else parts.wording,
        frame=None if parts is None else _digest_or_none(contract.tool, parts.frame, digester),
        identity=None if identity is None else _digest_or_none(contract.tool, identity, digester),
        result=None if result is None or not compared else sketch_of(result),
        result_is_text=is_text,
        values=values_of(normal) if lost else (),
    )


def _error_digest(reading: Reading, contract: ToolContract, digester: Digester) -> str | None:
    """Digest of a failure's text as the result of no tool, so that one failure is equal whatever tool met it."""
    text = reading.error_text
    if text is None and reading.result.unknown is None and isinstance(reading.result.value, str):
        text = reading.result.value
    if not text:
        return None
    try:
        return digester.result("", contract.result(text))
    except CanonicalError:
        return None


def _is_sampled(trace_state: str) -> bool:
    """True where the trace state carries a sampling threshold other than "keep all" (OTel tracestate `ot=th:`)."""
    if "th:" not in trace_state:
        return False
    for member in trace_state.split(","):
        vendor, _, value = member.strip().partition("=")
        if vendor == "ot":
            for field in value.split(";"):
                name, _, threshold = field.partition(":")
                if name == "th":
                    return threshold.strip("0") != ""
    return False
