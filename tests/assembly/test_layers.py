"""One call, one count: which spans show the same call, and what is known of it."""

from __future__ import annotations

from otel_loopguard.assembly.layers import one_call, same_calls
from otel_loopguard.assembly.tree import Tree
from otel_loopguard.model import CallFacts, ErrorCategory, Layer, Outcome, ResultClass, SpanFacts, Unknown
from tests.assembly.build import OTHER_TRACE, agent, digest, key, tool


def grouped(*spans: SpanFacts) -> list[list[str]]:
    """Names of the spans of each call, outermost first."""
    tree = Tree({(s.trace_id, s.span_id): s for s in spans})
    tools = [s for s in spans if s.call is not None]
    return sorted(
        [bytes.fromhex(s.span_id).rstrip(b"\0").decode() for s in same.spans] for same in same_calls(tools, tree)
    )


def merged(*spans: SpanFacts) -> CallFacts:
    """The facts of the one call that the spans show."""
    tree = Tree({(s.trace_id, s.span_id): s for s in spans})
    (same,) = same_calls([s for s in spans if s.call is not None], tree)
    return one_call(same)


def test_a_tool_span_nested_in_one_of_the_same_tool_is_the_same_call() -> None:
    """An instrumentation around a framework that emits its own span shows each call twice."""
    spans = (tool("outer", 0, 9, tool_name="bot.lookup"), tool("inner", 1, 8, parent="outer"))
    assert grouped(*spans) == [["outer", "inner"]]


def test_a_different_tool_called_by_a_tool_is_a_call_of_its_own() -> None:
    """A tool that runs other tools runs them for real."""
    assert grouped(tool("code", 0, 9, tool_name="run_code"), tool("inner", 1, 8, parent="code")) == [
        ["code"],
        ["inner"],
    ]


def test_an_agent_between_two_tool_spans_keeps_them_apart() -> None:
    """A sub-agent behind a tool may use a tool of the same name."""
    spans = (
        tool("ask", 0, 9, tool_name="lookup"),
        agent("sub", 1, 8, parent="ask"),
        tool("inner", 2, 7, parent="sub"),
    )
    assert grouped(*spans) == [["ask"], ["inner"]]


def test_client_and_server_spans_below_a_host_span_are_one_call() -> None:
    """Host, MCP client and MCP server show one call three times."""
    spans = (
        tool("host", 0, 9, tool_name="mcp__orders__lookup"),
        tool("client", 1, 8, parent="host", layer=Layer.CLIENT),
        tool("server", 2, 7, parent="client", layer=Layer.SERVER),
    )
    assert grouped(*spans) == [["host", "client", "server"]]


def test_a_server_span_beside_its_host_span_is_the_same_call() -> None:
    """Some hosts leave the MCP server's span beside their own, within its time."""
    spans = (
        tool("host", 0, 9, tool_name="mcp__orders__lookup"),
        tool("server", 2, 7, layer=Layer.SERVER),
        tool("later", 20, 29, tool_name="mcp__orders__lookup"),
        tool("server2", 21, 22, layer=Layer.SERVER),
    )
    assert grouped(*spans) == [["host", "server"], ["later", "server2"]]


def test_two_parallel_hosts_each_take_one_server_span() -> None:
    """Overlapping calls of one tool must not both claim the same server span."""
    spans = (
        tool("host1", 0, 20, tool_name="lookup", args="1"),
        tool("host2", 1, 21, tool_name="lookup", args="2"),
        tool("srv1", 2, 18, layer=Layer.SERVER),
        tool("srv2", 3, 19, layer=Layer.SERVER),
    )
    assert [len(names) for names in grouped(*spans)] == [2, 2]


def test_a_link_joins_the_two_halves_of_a_call_across_traces() -> None:
    """Agent side and server side of one call in two traces."""
    spans = (
        tool("host", 0, 9),
        tool("server", 1, 8, trace_id=OTHER_TRACE, layer=Layer.SERVER, links=(key("host"),)),
    )
    assert grouped(*spans) == [["host", "server"]]


def test_copies_under_new_span_ids_are_one_call() -> None:
    """Equal call id, start and end in one trace: the same call, re-identified on its way."""
    spans = tuple(tool(name, 0, 9, call_id="c1") for name in ("one", "two", "three"))
    tree = Tree({(s.trace_id, s.span_id): s for s in spans})
    (same,) = same_calls(spans, tree)
    assert (len(same.spans), same.reidentified) == (3, 2)


def test_an_equal_call_id_alone_joins_nothing() -> None:
    """Call ids are reused: by resumed runs, and by models that number their calls anew."""
    assert grouped(tool("one", 0, 9, call_id="c1"), tool("two", 20, 29, call_id="c1")) == [["one"], ["two"]]


def test_gaps_of_the_outer_span_are_filled_from_the_inner_one() -> None:
    """The call id is often on the inner span only, the arguments on the outer one only."""
    facts = merged(
        tool("outer", 0, 9, args="x", result=None), tool("inner", 1, 8, parent="outer", args=None, call_id="c1")
    )
    assert (facts.call_id, facts.call_digest is not None, facts.result_digest is not None) == ("c1", True, True)


def test_arguments_that_only_the_inner_span_has_bring_their_digests() -> None:
    """With the arguments come what is digested of them, and the reason why they were missing goes."""
    facts = merged(
        tool("outer", 0, 9, args=None, call={"call_unknown": Unknown.NOT_CAPTURED}),
        tool(
            "inner",
            1,
            8,
            parent="outer",
            args="x",
            call={"business_digest": digest("b"), "idempotency_digest": digest("i")},
        ),
    )
    assert (digest("lookupx"), None, digest("b"), digest("i")) == (
        facts.call_digest,
        facts.call_unknown,
        facts.business_digest,
        facts.idempotency_digest,
    )


def test_an_error_on_any_layer_is_an_error_of_the_call() -> None:
    """Hosts report a handled error as success; the inner span knows better."""
    facts = merged(
        tool("outer", 0, 9, outcome=Outcome.OK, call={"result_class": ResultClass.CONTENT}),
        tool(
            "inner",
            1,
            8,
            parent="outer",
            outcome=Outcome.ERROR,
            call={"error_category": ErrorCategory.PERMISSION, "error_type": "Denied"},
        ),
    )
    assert (facts.outcome, facts.result_class, facts.error_category, facts.error_type) == (
        Outcome.ERROR,
        ResultClass.ERROR,
        ErrorCategory.PERMISSION,
        "Denied",
    )


def test_a_ring_of_parents_ends() -> None:
    """Hostile parents that point at each other are climbed once."""
    spans = (tool("a", 0, 9, parent="b", tool_name="x"), tool("b", 1, 8, parent="a", tool_name="y"))
    assert grouped(*spans) == [["a"], ["b"]]


def test_as_many_server_spans_as_can_be_find_a_host() -> None:
    """Intervals that lie crosswise: each server span fits some host, and the nearest is not always the right one."""
    spans = (
        tool("host1", 0, 10, args="1"),
        tool("host2", 2, 30, args="2"),
        tool("srv1", 3, 9, layer=Layer.SERVER),
        tool("srv2", 4, 25, layer=Layer.SERVER),
    )
    assert grouped(*spans) == [["host1", "srv1"], ["host2", "srv2"]]


def test_a_host_span_that_never_ended_holds_what_started_in_it() -> None:
    """A host that was killed has no end; the server's span still shows its call."""
    spans = (tool("host", 0, None), tool("srv", 3, 9, layer=Layer.SERVER))
    assert grouped(*spans) == [["host", "srv"]]


def test_many_hosts_and_servers_of_one_tool_are_matched_in_one_go() -> None:
    """Twenty thousand spans of one tool in one trace: each server span is in its own host's time."""
    number = 10_000
    hosts = [tool(f"h{n}", n * 10, n * 10 + 9, args=str(n)) for n in range(number)]
    servers = [tool(f"s{n}", n * 10 + 1, n * 10 + 2, layer=Layer.SERVER) for n in range(number)]
    found = same_calls([*servers, *hosts], Tree({(s.trace_id, s.span_id): s for s in (*hosts, *servers)}))
    assert [len(same.spans) for same in found] == [2] * number
    assert all(same.spans[1].start_ns == same.spans[0].start_ns + 1_000_000 for same in found)


def test_two_instrumentations_beside_each_other_show_each_call_once() -> None:
    """Sibling spans of one call in two dialects, without a call id; a second equal call stays a second call."""
    spans = (
        tool("gen1", 0, 9, dialect="genai"),
        tool("oi1", 1, 8, dialect="openinference"),
        tool("gen2", 20, 29, dialect="genai"),
        tool("oi2", 21, 28, dialect="openinference"),
    )
    assert grouped(*spans) == [["gen1", "oi1"], ["gen2", "oi2"]]


def test_equal_siblings_of_one_dialect_stay_two_calls() -> None:
    """Two equal calls of one response overlap, too."""
    assert grouped(tool("one", 0, 9, dialect="genai"), tool("two", 1, 8, dialect="genai")) == [["one"], ["two"]]


def test_different_calls_in_two_dialects_stay_apart() -> None:
    """A framework's own tool span and another library's of another call may overlap."""
    spans = (tool("one", 0, 9, args="1", dialect="genai"), tool("two", 1, 8, args="2", dialect="openinference"))
    assert grouped(*spans) == [["one"], ["two"]]


def test_a_span_below_one_that_was_over_is_a_call_of_its_own() -> None:
    """A context that nobody detached makes each call the parent of the next: nested by id, not in time."""
    calls = (tool("a", 0, 9), tool("b", 9, 12, parent="a"), tool("c", 20, 21, parent="b"))
    assert grouped(*calls) == [["a"], ["b"], ["c"]]
    assert grouped(tool("a", 0, 9), tool("b", 8, 12, parent="a")) == [["a", "b"]], "it began within, and ended late"
    assert grouped(tool("a", 0, None), tool("b", 8, 12, parent="a")) == [["a", "b"]], "which is still open"
