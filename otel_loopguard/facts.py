"""Turns one received span or call record into facts that hold no content.

Invariants: what leaves this module holds digests, enumerations, counts, times and checked names only; equal
content gives equal digests whatever dialect carried it. Pure: no clock, no I/O, no state but bounded caches
of names. It does not raise on any span or record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from otel_loopguard import dialects
from otel_loopguard.canonical import CanonicalError, at_top
from otel_loopguard.classify import classify
from otel_loopguard.dialects import payload
from otel_loopguard.dialects.own import OwnAttributes, read_own
from otel_loopguard.dialects.reading import NOT_CAPTURED, Content, Reading
from otel_loopguard.digest import Digester, NameKind, checked_name
from otel_loopguard.model import (
    CallFacts,
    CallRecord,
    ChatFacts,
    DeniedBy,
    Effect,
    ErrorCategory,
    Outcome,
    ResultClass,
    Role,
    Signals,
    Span,
    SpanFacts,
    Value,
)
from otel_loopguard.policy import Policy, ToolContract

MAX_CACHED_NAMES: Final = 4096
"""Names remembered as checked; past this the cache is emptied (names come from outside)."""

RECORD_TRACE: Final = ""
"""`SpanFacts.trace_id` of a call record."""

_HOST_KEYS: Final = ("service.instance.id", "host.id", "host.name", "process.pid")
_RECORD_TENANT_NAMES: Final = ("tenant.id", "tenant")


class FactsReader:
    """Reads spans and call records under one policy and one way to find keys.

    Args:
        policy: the owner's policy, or `policy.default()`.
        digester_for: gives the digester for a trace id or run id; `Keyring.for_trace`, or a function that
            always gives the environment's digester where equal calls must match across traces.

    Thread safety: none needed for correctness of results; the caches are plain dicts.
    """

    def __init__(self, policy: Policy, digester_for: Callable[[str], Digester]) -> None:
        self._policy = policy
        self._digester_for = digester_for
        self._names: dict[tuple[str, NameKind, str], str] = {}
        self._resources: dict[int, tuple[Mapping[str, Value], _Resource]] = {}

    # --- spans ------------------------------------------------------------------------------------------

    def of_span(self, span: Span) -> SpanFacts:
        """Returns the facts of one span; spans that tell nothing of a run come back with role OTHER.

        Args:
            span: as received; content is read and dropped.

        Returns:
            Facts with `call` on tool spans, `chat` on chat spans, `decision` on decision spans.
        """
        reading = dialects.read(span)
        if reading is None or reading.role is Role.OTHER:
            return SpanFacts(
                trace_id=span.trace_id,
                span_id=span.span_id,
                parent_id=span.parent_id,
                start_ns=span.start_ns,
                end_ns=span.end_ns,
                dialect=None if reading is None else reading.dialect,
            )
        own = read_own(span.attributes)
        digester = self._digester_for(own.run_id or span.trace_id)
        resource = self._resource(span.resource, digester)
        is_call = reading.role is Role.TOOL and reading.not_a_call is None
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
            not_a_call=reading.not_a_call,
            agent=self._name(own.agent_id or reading.agent, NameKind.OTHER, digester),
            run_id=own.run_id,
            conversation=digester.conversation(reading.conversation) if reading.conversation else None,
            turn=self._name(own.turn_id or reading.turn, NameKind.OTHER, digester),
            producer=own.producer,
            sequence=own.sequence,
            started=own.started,
            call=self._call(span, reading, own, digester) if is_call else None,
            chat=self._chat(reading.chat, own, digester),
            decision=reading.decision,
            termination=own.termination or reading.termination,
            final_answer=reading.final_answer if own.terminal_response is None else own.terminal_response,
            run_calls=own.run_calls,
            failed=reading.outcome is Outcome.ERROR,
            sampled=_is_sampled(span.trace_state),
            dropped_attributes=span.dropped_attributes > 0,
            bad_attributes=own.malformed,
        )

    def _call(self, span: Span, reading: Reading, own: OwnAttributes, digester: Digester) -> CallFacts:
        identity = self._identity(span)
        contract = self._policy.contract(reading.tool or "")
        outcome = Outcome.DENIED if reading.denied else reading.outcome
        if outcome is Outcome.UNKNOWN and span.end_ns is not None:
            outcome = Outcome.OK
        facts = self._digest(
            _Draft(
                tool=reading.tool or "",
                call_id=reading.call_id,
                arguments=reading.arguments,
                result=reading.result,
                outcome=outcome,
                error_type=reading.error_type,
                error_text=reading.error_text,
                error_category=reading.error_category,
                denied_by=DeniedBy.OTHER if reading.denied else None,
                dispatched=None,
                effect=reading.effect,
            ),
            contract,
            digester,
            identity,
        )
        return own.over(facts) if own.present else facts

    def _identity(self, span: Span) -> dict[str, Value] | None:
        names = self._policy.identity
        if not names:
            return None
        found = {name: span.attributes.get(name, span.resource.get(name)) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    def _chat(self, chat: ChatFacts | None, own: OwnAttributes, digester: Digester) -> ChatFacts | None:
        requested = own.requested_call_ids
        if chat is None:
            return None
        if requested is None:
            requested = chat.requested
        return ChatFacts(
            requested=None
            if requested is None
            else tuple(self._name(call_id, NameKind.TOOL, digester) or "" for call_id in requested),
            requested_calls=chat.requested_calls,
            finish=chat.finish,
            input_tokens=chat.input_tokens,
            output_tokens=chat.output_tokens,
            model=self._name(chat.model, NameKind.OTHER, digester),
        )

    # --- call records -----------------------------------------------------------------------------------

    def of_record(self, record: CallRecord) -> SpanFacts:
        """Returns the facts of one call record, in the place its run id and sequence give it."""
        digester = self._digester_for(record.run_id)
        contract = self._policy.contract(record.tool)
        failed = record.error not in (None, False)
        missing = record.result_missing
        result = NOT_CAPTURED if missing else payload.content(record.result)
        error_text = record.error if isinstance(record.error, str) else None
        if failed and error_text is None and isinstance(record.result, str):
            error_text = record.result
        identity = {
            name: record.tenant for name in self._policy.identity if name in _RECORD_TENANT_NAMES and record.tenant
        }
        outcome = Outcome.ERROR if failed else Outcome.UNKNOWN if missing else Outcome.OK
        call = self._digest(
            _Draft(
                tool=record.tool,
                call_id=record.call_id,
                arguments=payload.content(record.arguments, arguments=True),
                result=result,
                outcome=Outcome.DENIED if record.denied else outcome,
                error_type=None,
                error_text=error_text,
                error_category=None,
                denied_by=DeniedBy.OTHER if record.denied else None,
                dispatched=record.dispatched,
                effect=record.effect,
            ),
            contract,
            digester,
            identity or None,
            key_id=record.key_id,
        )
        start_ns = 0 if record.ts is None else int(record.ts * 1e9)
        return SpanFacts(
            trace_id=RECORD_TRACE,
            span_id="",
            start_ns=start_ns,
            end_ns=start_ns,
            role=Role.TOOL,
            dialect="call_record",
            agent=self._name(record.agent, NameKind.OTHER, digester),
            run_id=self._name(record.run_id, NameKind.OTHER, digester),
            conversation=None if record.session is None else digester.conversation(record.session),
            task=None if record.task is None else digester.conversation(record.task),
            user_turn=None if record.user_turn is None else str(record.user_turn),
            attempt=None if record.attempt is None else str(record.attempt),
            turn=None if record.turn is None else self._name(str(record.turn), NameKind.OTHER, digester),
            after_compaction=record.after_compaction,
            concurrent=record.concurrent,
            sequence=record.sequence,
            call=call,
        )

    # --- shared -------------------------------------------------------------------------------------------

    def _digest(
        self,
        draft: _Draft,
        contract: ToolContract,
        digester: Digester,
        identity: dict[str, Value] | None,
        *,
        key_id: str | None = None,
    ) -> CallFacts:
        effect = contract.effect
        if effect is Effect.UNKNOWN and draft.effect in (Effect.READ.value, Effect.WRITE.value):
            effect = Effect(draft.effect)
        arguments, call_unknown, call_digest = draft.arguments, draft.arguments.unknown, None
        business = idempotency = None
        if call_unknown is None:
            try:
                normal = at_top(contract.arguments(arguments.value))
                call_digest = digester.call(draft.tool, normal, identity=identity)
                business = _digest_of(contract.business(arguments.value), draft.tool, digester.business)
                idempotency = _digest_of(contract.idempotency(arguments.value), draft.tool, digester.idempotency)
            except CanonicalError as error:
                call_digest, call_unknown = None, error.reason
        result, result_unknown, result_digest = draft.result, draft.result.unknown, None
        if result_unknown is None:
            try:
                result_digest = digester.result(draft.tool, contract.result(result.value))
            except CanonicalError as error:
                result_unknown = error.reason
        result_class, category = self._classes(draft, effect, known=result_unknown is None)
        if result_class is ResultClass.ERROR and draft.outcome is Outcome.OK and self._policy.errors.in_band:
            draft.outcome = Outcome.ERROR
        return CallFacts(
            tool=self._name(draft.tool, NameKind.TOOL, digester) or "",
            call_id=self._name(draft.call_id, NameKind.OTHER, digester),
            call_digest=call_digest,
            call_unknown=call_unknown,
            result_digest=result_digest,
            result_unknown=result_unknown,
            result_class=result_class,
            outcome=draft.outcome,
            error_category=category,
            error_type=self._name(draft.error_type, NameKind.ERROR_TYPE, digester),
            denied_by=draft.denied_by,
            dispatched=draft.dispatched,
            effect=effect,
            pattern=contract.pattern,
            contract=contract.digest8,
            key_id=digester.key_id if key_id is None else self._name(key_id, NameKind.OTHER, digester),
            policy=self._policy.label,
            idempotency_digest=idempotency,
            business_digest=business,
            signals=_signals(contract, arguments, result, digester),
        )

    def _classes(
        self, draft: _Draft, effect: Effect, *, known: bool
    ) -> tuple[ResultClass | None, ErrorCategory | None]:
        errors = self._policy.errors
        if draft.outcome is Outcome.DENIED:
            return None, None
        result_class = None
        if draft.outcome is Outcome.ERROR:
            result_class = ResultClass.ERROR
        elif known:
            result_class = classify(draft.result.value, effect=effect, errors=errors)
        if result_class is not ResultClass.ERROR:
            return result_class, None
        if draft.error_category is not None:
            return result_class, draft.error_category
        text = draft.error_text
        if text is None and known and isinstance(draft.result.value, str):
            text = draft.result.value
        return result_class, errors.categorise(error_type=draft.error_type, text=text)

    def _name(self, text: str | None, kind: NameKind, digester: Digester) -> str | None:
        if not text:
            return None
        key = (text, kind, digester.key_id)
        known = self._names.get(key)
        if known is None:
            if len(self._names) >= MAX_CACHED_NAMES:
                self._names.clear()
            known = self._names[key] = checked_name(text, digester, kind=kind)
        return known

    def _resource(self, resource: Mapping[str, Value], digester: Digester) -> _Resource:
        # Readers hand the same mapping for all spans of one resource, so its identity is the cache key;
        # the mapping is kept beside the answer, or its id could be given to another one.
        cached = self._resources.get(id(resource))
        if cached is not None and cached[0] is resource:
            return cached[1]
        service, release = resource.get("service.name"), resource.get("service.version")
        host = [str(resource[key]) for key in _HOST_KEYS if resource.get(key) is not None]
        made = _Resource(
            self._name(service, NameKind.OTHER, digester) if isinstance(service, str) else None,
            self._name(release, NameKind.OTHER, digester) if isinstance(release, str) else None,
            digester.name("\x00".join(host)) if host else None,
        )
        if len(self._resources) >= MAX_CACHED_NAMES:
            self._resources.clear()
        self._resources[id(resource)] = (resource, made)
        return made


class _Resource:
    __slots__ = ("host", "release", "service")

    def __init__(self, service: str | None, release: str | None, host: str | None) -> None:
        self.service, self.release, self.host = service, release, host


class _Draft:
    """What a span and a call record have in common before digesting; holds content, lives for one call."""

    __slots__ = (
        "arguments",
        "call_id",
        "denied_by",
        "dispatched",
        "effect",
        "error_category",
        "error_text",
        "error_type",
        "outcome",
        "result",
        "tool",
    )

    def __init__(  # noqa: PLR0913 - one place names every field
        self,
        *,
        tool: str,
        call_id: str | None,
        arguments: Content,
        result: Content,
        outcome: Outcome,
        error_type: str | None,
        error_text: str | None,
        error_category: ErrorCategory | None,
        denied_by: DeniedBy | None,
        dispatched: bool | None,
        effect: str | None,
    ) -> None:
        self.tool, self.call_id, self.arguments, self.result = tool, call_id, arguments, result
        self.outcome, self.error_type, self.error_text = outcome, error_type, error_text
        self.error_category, self.denied_by = error_category, denied_by
        self.dispatched, self.effect = dispatched, effect


def _digest_of(value: Value, tool: str, digest: Callable[[str, Value], str]) -> str | None:
    return None if value is None else digest(tool, value)


def _signals(contract: ToolContract, arguments: Content, result: Content, digester: Digester) -> Signals | None:
    if result.unknown is not None:
        return None
    return contract.signals(None if arguments.unknown is not None else arguments.value, result.value, digester)


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

