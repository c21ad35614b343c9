"""The span processor: what a tool call was leaves the process as digests and flags, and its content stays.

Invariants: content is taken off a span before anything is computed of it, so that a failure leaves a span with too
little on it and never with too much. Nothing of ours is raised into the application (`boundary`), nothing blocks, and
nothing grows without bound. Spans that no dialect knows, and that hold nothing of ours, pass untouched.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from otel_loopguard import attributes as attr
from otel_loopguard import dialects
from otel_loopguard import policy as policies
from otel_loopguard.content import Cleaner
from otel_loopguard.detectors.recent import Recent
from otel_loopguard.dialects import Reading
from otel_loopguard.dialects.own import SCHEMA_VERSION
from otel_loopguard.digest import Digester, Key, Keyring, NameKind, checked_name
from otel_loopguard.facts import FactsReader
from otel_loopguard.keys import ephemeral_key, load_key
from otel_loopguard.model import Role, SpanFacts, Unknown, Value
from otel_loopguard.model import Span as Received
from otel_loopguard.policy import ContentRule
from otel_loopguard.processor import sdk
from otel_loopguard.processor.boundary import GuardedSpanProcessor
from otel_loopguard.processor.cleaning import clean_again, clean_known, clean_unknown
from otel_loopguard.processor.counting import READABLE, Counts, Tallies, emit, instruments
from otel_loopguard.processor.finding import FindingEvent, event_of
from otel_loopguard.processor.live import MAX_TRACES, Above, LiveRuns, above, is_layer, with_layers
from otel_loopguard.processor.naming import names_of
from otel_loopguard.processor.nodes import Node, Nodes
from otel_loopguard.processor.proof import prove
from otel_loopguard.processor.received import UNREADABLE, received, with_cuts_marked, with_lost_kind
from otel_loopguard.processor.remedies import remedy_for
from otel_loopguard.writing import of_call, of_place

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.trace import ReadableSpan, Span

    from otel_loopguard.policy import Policy
    from otel_loopguard.processor.policy_watch import PolicyWatch

_LOGGER: Final = logging.getLogger("otel_loopguard")
_CHAT: Final = Role.CHAT
_CONTAINERS: Final = (Role.AGENT, Role.WORKFLOW)
_OTHER: Final = Role.OTHER
_TOOL: Final = Role.TOOL
_NAMES: Final = frozenset(dialects.BY_NAME)
_SCOPES: Final = frozenset(dialects.BY_SCOPE)
_NOTHING: Final[Mapping[str, Value]] = {}
_ADVISED: Final = 3
"""Instrumentations for which the line at shutdown says what to set."""
_NOT_CONFIGURED: Final[Mapping[str, Value]] = {
    attr.SCHEMA: SCHEMA_VERSION,
    attr.CALL_UNKNOWN: Unknown.NOT_CONFIGURED.value,
}
_Said: TypeAlias = "tuple[Mapping[str, Value], Sequence[FindingEvent]]"


class _Settings:
    """What one policy makes of spans."""

    def __init__(self, policy: Policy, keyring: Keyring, content: ContentRule | None) -> None:
        self.policy = policy
        self.cleaner = Cleaner(policy.content if content is None else content)
        self.reader = FactsReader(policy, keyring.for_trace)


class LoopGuardSpanProcessor(GuardedSpanProcessor):
    """Puts digests and progress flags on tool spans, and takes content off all spans of agents.

    Add it to a provider like any other: `provider.add_span_processor(LoopGuardSpanProcessor())`; whether exporters
    were registered before or after makes no difference.

    Args:
        policy: what the owner declares of tools; None for the default policy.
        keys: for digests; None to look where `keys.load_key` looks, which makes one up if there is none.
        content: what is removed; None for what the policy says.
        meter_provider: where counters go; None for the global one.
        logger_provider: where `loopguard.finding` events go; None for the global one.
        on_finding: called with each finding, on the thread that ended the span; what it raises is counted.
        remove_only: take content off and compute nothing: tool spans say `not_configured`.
        watch: asked as spans start whether the policy file has changed; what it finds goes to `set_policy`.

    Raises:
        KeyConfigError: the key that is configured cannot be used.
        SdkError: what the installed SDK's exporters would get is not clean (`proof`).

    Thread safety: any thread. A process that forks goes on in both: the child under another producer's name.
    """

    def __init__(
        self,
        *,
        policy: Policy | None = None,
        keys: Keyring | Key | None = None,
        content: ContentRule | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        on_finding: Callable[[FindingEvent], None] | None = None,
        remove_only: bool = False,
        watch: PolicyWatch | None = None,
        _is_probe: bool = False,
    ) -> None:
        super().__init__(_LOGGER)
        if remove_only:
            keys = keys or ephemeral_key()
        elif keys is None:
            keys = load_key(os.environ)
        self._keyring = keys if isinstance(keys, Keyring) else Keyring(keys)
        self._content = content
        self._settings = _Settings(policy or policies.default(), self._keyring, content)
        self._remove_only = remove_only
        self._watch = watch
        if watch is not None:
            watch.changed = self.set_policy
        self._logger_provider, self._on_finding = logger_provider, on_finding
        self._nodes, self._live, self._tallies = Nodes(), LiveRuns(), Tallies()
        self._traces: Recent[int, _Settings] = Recent(MAX_TRACES)
        self._lock = threading.RLock()
        self._ended = self._warned = False
        if _is_probe:
            return
        prove(lambda: LoopGuardSpanProcessor(keys=ephemeral_key(), content=ContentRule.DROP_ALL, _is_probe=True))
        self.boundary.run("meter", instruments, meter_provider, self._counts, lambda: self._tallies, otherwise=None)
        if hasattr(os, "register_at_fork"):
            renew = weakref.WeakMethod(self._renew)
            os.register_at_fork(after_in_child=lambda: (found := renew()) and found())
        rule = self._settings.cleaner.rule
        self.boundary.run(
            "log", lambda: _say_what_is_removed(rule, self._keyring, remove_only=remove_only), otherwise=None
        )

    # --- the application's side -----------------------------------------------------------------------------

    @property
    def counts(self) -> Counts:
        """What it has seen and done so far."""
        return self._counts()

    @property
    def policy(self) -> Policy:
        """The policy for runs that begin from now on."""
        return self._settings.policy

    @property
    def content(self) -> ContentRule:
        """What is removed from the spans of traces that begin from now on."""
        return self._settings.cleaner.rule

    @property
    def keyring(self) -> Keyring:
        """The keys that digests are made with."""
        return self._keyring

    def set_policy(self, policy: Policy) -> None:
        """Uses another policy for traces that begin from now on; a trace keeps the one that it began with."""
        self._settings = _Settings(policy, self._keyring, self._content)

    def shutdown(self) -> None:
        """Says in one line what could not be compared, if anything."""
        if not self._ended:
            self._ended = True
            self.boundary.run("summary", self._summarise, otherwise=None)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's
        """Has nothing to flush."""
        return True

    # --- the SDK's side ---------------------------------------------------------------------------------------

    def started(self, span: Span) -> None:
        """Takes note of a span that starts."""
        if self._watch is not None:
            self._watch.look()
        self._nodes.start(span)

    def ending(self, span: ReadableSpan) -> None:
        """Cleans a span that is ending, and says of a tool call what it was."""
        if sdk.is_plain(span, self._settings.cleaner.plain, _NAMES, _SCOPES):
            parent, context = span.parent, span.context
            is_root = parent is None or parent[2]
            # A root says how many calls there were of its trace, if any.
            closes = is_root and context is not None and self._live.numbers(context[0]) is not None
            if not closes and self._nodes.pass_over(span):
                return
        self._look_at(span)

    def ended(self, span: ReadableSpan) -> None:
        """Does what `ending` does where that was not called: something wraps this processor and hides it."""
        if self._nodes.is_done(span):
            return
        cleaner = self._settings.cleaner
        attributes = sdk.mapping_of(span)
        node = self._nodes.of(span)
        if node.cleaned is None:
            for key in attributes:
                cleaner.kind_of(key)  # a key that was never asked about is not known to be plain
            is_plain = sdk.is_plain(span, cleaner.plain, _NAMES, _SCOPES)
            if not is_plain and (attributes or sdk.has_text(span)):
                self._note_late()
            self._look_at(span)
            node.cleaned = _NOTHING
            return
        # Another processor put other things on it since, of what it kept.
        cleaner = (self._traces.peek(node.trace_id) or self._settings).cleaner
        if clean_again(span, node, cleaner, names_of(self._keyring, f"{node.trace_id:032x}")):
            self._note_late()

    def _look_at(self, span: ReadableSpan) -> None:
        node = self._nodes.of(span)
        if node.cleaned is not None:
            return  # added twice to a provider, or called by both names
        node.cleaned = _NOTHING  # whatever comes of it, once is enough
        self._process(span, node, sdk.mapping_of(span))
        node.end(sdk.left_on(span), span.end_time)

    def emptied(self, span: ReadableSpan) -> None:
        """Leaves nothing on a span that could not be dealt with."""
        sdk.put_attributes(span, {})
        sdk.put_events(span, ())
        sdk.put_links(span, [sdk.same_link(link, _NOTHING) for link in span.links])
        sdk.put_name(span, "unreadable")
        sdk.drop_status_text(span)

    # --- one span -----------------------------------------------------------------------------------------------

    def _process(self, span: ReadableSpan, node: Node, attributes: Mapping[str, Value]) -> None:
        bare = sdk.is_bare(span)
        limit = sdk.length_limit(span)
        given = attributes if limit is None else with_cuts_marked(attributes, limit)
        told = received(span, given, bare=bare)
        checked = names_of(self._keyring, told.trace_id)
        settings = self._traces.peek(node.trace_id) or self._settings
        reading: Reading | None = UNREADABLE
        reading = self.boundary.run("dialect", dialects.read, told, otherwise=reading)
        reading = with_lost_kind(reading, told, settings.cleaner.rule, limit)
        if reading is None:
            if clean_unknown(span, node, settings.cleaner, checked):
                self._note_cleaned()
            self._close(span, node)
            return
        settings = self._begun(node.trace_id)
        # Content first: whatever fails after this, none of it is left.
        if clean_known(span, node, settings.cleaner, reading, checked, bare=bare):
            self._note_cleaned()
        node.settle(reading, told.scope, checked)
        node.mark(tool=reading.role is _TOOL)
        if reading is UNREADABLE:
            self._close(span, node)
            return
        kept = sdk.mapping_of(span)
        if attr.PRODUCER_ID in kept:
            return
        said: _Said | None = None
        if not self._remove_only:
            said = self.boundary.run("facts", self._say, span, node, told, reading, settings, otherwise=None)
        if said is None:
            is_call = reading.role is Role.TOOL and reading.not_a_call is None
            said = (_NOT_CONFIGURED if is_call else {}, ())
            if is_call:
                self._note_call(Unknown.NOT_CONFIGURED.value, told.scope)
        written, events = said
        if written:
            sdk.put_attributes(span, {**kept, **written})
        for event in events:
            self._tell(event, span)

    def _begun(self, trace_id: int) -> _Settings:
        """Returns what a trace began with: a policy that comes in its midst is for the next one."""
        traces = self._traces
        settings = traces.latest.get(trace_id) or traces.promote(trace_id)
        if settings is None:
            settings = self._settings
            traces.add(trace_id, settings)
        return settings

    def _say(self, span: ReadableSpan, node: Node, told: Received, reading: Reading, settings: _Settings) -> _Said:
        """Returns the attributes that say what a span was, and the findings that became true with it."""
        facts = settings.reader.of_reading(told, reading)
        written = of_place(facts)
        events: Sequence[FindingEvent] = ()
        if facts.role is not _OTHER:
            up = above(node, reading, told.scope)
            named = _agent_namer(self._keyring.for_trace(told.trace_id))
            if facts.call is not None:
                events = self._say_call(span, node, facts, up, named, settings.policy, written)
            elif facts.role is _CHAT:
                self.boundary.run("run", self._live.answer, node, facts, up, settings.policy, named, otherwise=None)
            elif facts.role in _CONTAINERS:
                self._live.end(node)
        if facts.role in _CONTAINERS or span.parent is None or span.parent.is_remote:
            written |= self._closing(node)
        if written:
            written[attr.SCHEMA] = SCHEMA_VERSION
        return written, events

    def _say_call(
        self,
        span: ReadableSpan,
        node: Node,
        facts: SpanFacts,
        up: Above,
        named: Callable[[str], str],
        policy: Policy,
        written: dict[str, Value],
    ) -> Sequence[FindingEvent]:
        call = facts.call
        if call is None:
            return ()
        written[attr.CALL_STARTED] = node.started
        if up.tool is not None and is_layer(facts, up.tool):
            up.tool.hold(facts, *node.layers)
            written |= of_call(call, None)
            return ()
        whole = with_layers(facts, node.layers)
        known = call if whole.call is None else whole.call
        scope = span.instrumentation_scope
        self._note_call(known.call_unknown or READABLE, "" if scope is None else scope.name)
        seen = self.boundary.run("detectors", self._live.observe, node, whole, up, policy, named, otherwise=None)
        written |= of_call(call, None if seen is None else seen.observation)
        context = span.context
        if context is not None and context.trace_flags.sampled:
            written[attr.PRODUCER_ID], written[attr.CALL_SEQUENCE] = self._live.number(node.trace_id)
        if seen is None:
            return ()
        events = [event_of(found, facts, known) for found in seen.findings]
        for found, late in seen.waited:
            if late.call is not None:
                events.append(event_of(found, late, late.call))
        return events

    def _close(self, span: ReadableSpan, node: Node) -> None:
        """Says on a local root that no dialect reads how many calls this process made of its trace, if any."""
        if span.parent is None or span.parent.is_remote:
            closing = self._closing(node)
            if closing:
                sdk.put_attributes(span, {**sdk.mapping_of(span), **closing, attr.SCHEMA: SCHEMA_VERSION})

    def _closing(self, node: Node) -> dict[str, Value]:
        numbers = self._live.numbers(node.trace_id)
        return {} if numbers is None else {attr.PRODUCER_ID: numbers[0], attr.RUN_CALLS: numbers[1]}

    # --- counting and telling -----------------------------------------------------------------------------------

    def _tell(self, event: FindingEvent, span: ReadableSpan) -> None:
        with self._lock:
            self._tallies.found(event)
        context = span.get_span_context()
        if context is not None:
            self.boundary.run("event", emit, self._logger_provider, event, context, span.end_time or 0, otherwise=None)
        if self._on_finding is not None:
            self.boundary.run("on_finding", self._on_finding, event, otherwise=None)

    def _note_call(self, reason: str, scope: str) -> None:
        with self._lock:
            self._tallies.calls[reason] += 1
            if reason:
                self._tallies.note_scope(scope)

    def _note_cleaned(self) -> None:
        with self._lock:
            self._tallies.cleaned += 1

    def _note_late(self) -> None:
        with self._lock:
            self._tallies.late += 1
        if not self._warned:
            self._warned = True
            self.boundary.run(
                "log",
                _LOGGER.warning,
                "content was still on a span in on_end, where exporters registered earlier may have seen it: something "
                "wraps this processor without passing on _on_ending. Add it to the SDK's provider itself: "
                "otel_loopguard.install(provider)",
                otherwise=None,
            )

    def _counts(self) -> Counts:
        with self._lock:
            tallies = self._tallies
            findings: Counter[str] = Counter()
            for (kind, _, _), number in tallies.findings.items():
                findings[kind] += number
            return Counts(
                tool_calls=tallies.calls.total(),
                unreadable={reason: number for reason, number in tallies.calls.items() if reason},
                findings=dict(findings),
                cleaned_spans=tallies.cleaned,
                late_spans=tallies.late,
                forgotten_runs=self._live.evicted,
                forgotten_spans=self._nodes.forgotten,
                failures=dict(self.boundary.failures),
            )

    def _summarise(self) -> None:
        counts = self._counts()
        unreadable = sum(counts.unreadable.values())
        if unreadable and not self._remove_only:
            worst = max(counts.unreadable, key=lambda reason: counts.unreadable[reason])
            commonest = [scope for scope, _ in self._tallies.scopes.most_common(_ADVISED)]
            advice = [remedy for remedy in map(remedy_for, commonest) if remedy is not None]
            _LOGGER.warning(
                "%d tool calls, %d without readable arguments (mostly %s): %s",
                counts.tool_calls,
                unreadable,
                worst,
                "; ".join(dict.fromkeys(advice)) or "run `otel-loopguard doctor` where the application runs",
            )

    def _renew(self) -> None:
        self._lock = threading.RLock()
        self._live.renew()


def _agent_namer(digester: Digester) -> Callable[[str], str]:
    return lambda text: checked_name(text, digester, kind=NameKind.OTHER)


def _say_what_is_removed(rule: ContentRule, keyring: Keyring, *, remove_only: bool) -> None:
    removed = {
        ContentRule.DROP_ALL: "all content is removed from spans of agents, models and tools",
        ContentRule.DROP_TOOL: "content is removed from tool spans only; models' and agents' spans keep theirs",
        ContentRule.KEEP: "no content is removed",
    }[rule]
    if remove_only:
        _LOGGER.info("nothing is digested (not configured); %s", removed)  # who asked for it said why
        return
    if keyring.ephemeral:
        removed += "; the digest key was made up and dies with this process"
    _LOGGER.info("key %s; %s", keyring.key_id, removed)
