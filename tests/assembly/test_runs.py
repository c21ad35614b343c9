"""From spans to runs: identity, turns, order, gaps, endings."""

from __future__ import annotations

import random

import pytest

from otel_loopguard import policy
from otel_loopguard.assembly import assemble
from otel_loopguard.model import (
    Action,
    DecisionFacts,
    Duplicates,
    Effect,
    Finish,
    Flag,
    NotACall,
    Outcome,
    Role,
    Run,
    SpanFacts,
    TerminationReason,
)
from tests.assembly.build import OTHER_TRACE, agent, chat, digest, key, not_a_call, span, tool

DEFAULT = policy.default()


def runs_of(*spans: SpanFacts) -> tuple[Run, ...]:
    """The runs, checked to be the same for shuffled and repeated spans (duplicates aside)."""
    expected = assemble(spans, DEFAULT)
    shuffled = list(spans)
    random.Random(7).shuffle(shuffled)
    assert assemble(shuffled, DEFAULT) == expected
    again = assemble([*shuffled, *shuffled], DEFAULT)
    assert [(r.run_id, r.calls, r.flags, r.termination) for r in again] == [
        (r.run_id, r.calls, r.flags, r.termination) for r in expected
    ]
    return expected


def one_run(*spans: SpanFacts) -> Run:
    """The only run."""
    (run,) = runs_of(*spans)
    return run


def turns(run: Run) -> list[int]:
    """Turn numbers in call order."""
    return [call.turn for call in run.calls]


# --- identity ------------------------------------------------------------------------------------------


def test_two_outermost_agents_in_one_trace_are_two_runs() -> None:
    """A request that asks two agents has two runs; the first bears the trace's name."""
    first, second = runs_of(
        span("http", 0, 99),
        agent("one", 1, 40, parent="http"),
        tool("a", 2, 3, parent="one"),
        agent("two", 41, 90, parent="http"),
        tool("b", 42, 43, parent="two"),
    )
    assert (first.run_id, len(first.calls), len(second.calls)) == (first.trace_ids[0], 1, 1)
    assert second.run_id.startswith(first.run_id + ":")


def test_sub_agents_belong_to_the_run_of_the_outermost_agent() -> None:
    """A hand-over or a sub-agent is not a new run."""
    run = one_run(
        span("flow", 0, 99, role=Role.WORKFLOW),
        agent("one", 1, 40, parent="flow", agent_name="A"),
        tool("a", 2, 3, parent="one"),
        agent("two", 41, 90, parent="flow", agent_name="B"),
        tool("b", 42, 43, parent="two"),
    )
    assert [call.agent for call in run.calls] == ["A", "B"]


def test_tool_spans_without_any_agent_join_by_conversation() -> None:
    """Tool spans that are roots of their own traces are one run, and the verdict says how that was known."""
    spans = [tool(f"t{n}", n * 10, n * 10 + 5, trace_id=f"{n:032x}", conversation="conv") for n in range(1, 7)]
    run = one_run(*spans)
    assert (len(run.calls), len(run.trace_ids), Flag.ORPHAN_ROOTS in run.flags) == (6, 6, True)


def test_a_conversation_does_not_join_two_agent_runs() -> None:
    """Two runs of one conversation stay two runs: frameworks give all of a user's runs one id."""
    found = runs_of(
        agent("one", 0, 9, conversation="conv"),
        tool("a", 1, 2, parent="one", conversation="conv"),
        agent("two", 20, 29, trace_id=OTHER_TRACE, conversation="conv"),
        tool("b", 21, 22, parent="two", trace_id=OTHER_TRACE, conversation="conv"),
    )
    assert [len(run.calls) for run in found] == [1, 1]


def test_a_tool_span_whose_parents_are_lost_stays_in_the_traces_run() -> None:
    """A lost span in between must not make a run of its own."""
    run = one_run(agent("one", 0, 99), tool("a", 1, 2, parent="one"), tool("b", 3, 4, parent="lost"))
    assert (len(run.calls), Flag.NO_ROOT in run.flags) == (2, True)


def test_an_agent_in_another_trace_that_links_to_a_tool_span_is_part_of_its_run() -> None:
    """A sub-agent in another service is inside the call that started it."""
    run = one_run(
        agent("host", 0, 99),
        tool("ask", 1, 90, parent="host", tool_name="ask"),
        agent("sub", 2, 80, trace_id=OTHER_TRACE, links=(key("ask"),)),
        tool("a", 3, 4, parent="sub", trace_id=OTHER_TRACE),
    )
    assert (len(run.calls), len(run.trace_ids)) == (2, 2)


def test_an_explicit_run_id_outranks_everything() -> None:
    """The application's own name for a run joins traces and splits them."""
    found = runs_of(
        agent("one", 0, 9, run_id="job"),
        tool("a", 1, 2, parent="one"),
        agent("two", 20, 29, trace_id=OTHER_TRACE, run_id="job"),
        tool("b", 21, 22, parent="two", trace_id=OTHER_TRACE),
    )
    assert [(run.run_id, len(run.calls)) for run in found] == [("job", 2)]


def test_a_run_id_on_tool_spans_only_names_the_agents_run_too() -> None:
    """The processor leaves the run id on tool spans; the agent above is not a run without calls beside it."""
    run = one_run(
        agent("one", 0, 9), chat("c", 1, 2, parent="one", tokens=5), tool("a", 3, 4, parent="one", run_id="job")
    )
    assert (run.run_id, run.agent, [call.tokens for call in run.calls]) == ("job", "A", [5])


def test_two_run_ids_below_one_agent_are_two_runs() -> None:
    """A batch driver that names each of its runs is no third run."""
    found = runs_of(
        agent("one", 0, 9), tool("a", 1, 2, parent="one", run_id="j1"), tool("b", 3, 4, parent="one", run_id="j2")
    )
    assert [run.run_id for run in found] == ["j1", "j2"]


def test_a_lost_parent_keeps_a_named_run_together() -> None:
    """Tool spans whose parents are lost belong to the run that the trace's agent names."""
    run = one_run(agent("one", 0, 9, run_id="job"), tool("a", 1, 2, parent="one"), tool("b", 3, 4, parent="lost"))
    assert (run.run_id, len(run.calls)) == ("job", 2)


def test_links_that_go_round_end() -> None:
    """Two runs that link to each other's tool spans are one run or two, but they are read."""
    found = assemble(
        [
            agent("one", 0, 9, links=(key("b", OTHER_TRACE),)),
            tool("a", 1, 2, parent="one"),
            agent("two", 0, 9, trace_id=OTHER_TRACE, links=(key("a"),)),
            tool("b", 1, 2, parent="two", trace_id=OTHER_TRACE),
        ],
        DEFAULT,
    )
    assert sum(len(run.calls) for run in found) == 2


def test_making_an_agent_is_no_run() -> None:
    """`create_agent` traces hold no run."""
    assert runs_of(span("setup", 0, 1, role=Role.SETUP)) == ()


def test_model_responses_outside_any_agent_are_no_run() -> None:
    """A plain model call is nobody's run."""
    assert runs_of(chat("c", 0, 1)) == ()


# --- turns ----------------------------------------------------------------------------------------------


def test_calls_below_one_turn_span_are_siblings() -> None:
    """The framework's turn span decides."""
    run = one_run(
        agent("one", 0, 99),
        span("turn1", 1, 20, parent="one", role=Role.TURN),
        tool("a", 2, 9, parent="turn1", args="1"),
        tool("b", 10, 12, parent="turn1", args="2"),
        span("turn2", 21, 40, parent="one", role=Role.TURN),
        tool("c", 22, 30, parent="turn2", args="1"),
    )
    assert turns(run) == [1, 1, 2]


def test_a_step_number_on_the_tool_span_decides() -> None:
    """Parallel calls of one step have parents of their own but one step number."""
    run = one_run(
        agent("one", 0, 99),
        tool("a", 2, 9, parent="one", turn="2", args="1"),
        tool("b", 3, 8, parent="one", turn="2", args="2"),
        tool("c", 20, 30, parent="one", turn="4"),
    )
    assert turns(run) == [1, 1, 2]


def test_the_response_that_names_the_call_id_decides() -> None:
    """A response that ends after its first call started still asked for it."""
    run = one_run(
        agent("one", 0, 99),
        chat("c1", 1, 20, parent="one", requested=("x", "y")),
        tool("a", 5, 9, parent="one", call_id="x", args="1"),
        tool("b", 21, 25, parent="one", call_id="y", args="2"),
        chat("c2", 30, 40, parent="one", requested=("z",)),
        tool("c", 41, 45, parent="one", call_id="z"),
    )
    assert turns(run) == [1, 1, 2]


def test_else_the_response_that_ended_last_decides() -> None:
    """Calls between two responses were asked for by the first."""
    run = one_run(
        agent("one", 0, 99),
        chat("c1", 1, 2, parent="one"),
        tool("a", 3, 9, parent="one", args="1"),
        tool("b", 4, 9, parent="one", args="2"),
        chat("c2", 10, 11, parent="one"),
        tool("c", 12, 15, parent="one"),
    )
    assert turns(run) == [1, 1, 2]


def test_without_responses_overlap_decides() -> None:
    """Calls that overlap in time were asked for together; calls one after another were not."""
    run = one_run(
        agent("one", 0, 99),
        tool("a", 1, 9, parent="one", args="1"),
        tool("b", 5, 12, parent="one", args="2"),
        tool("c", 12, 15, parent="one"),
    )
    assert turns(run) == [1, 1, 2]


def test_more_calls_than_a_response_asked_for_are_turns_of_their_own() -> None:
    """A lost response must not make a sequence look like siblings, or a loop would be counted once."""
    run = one_run(
        agent("one", 0, 99),
        chat("c1", 1, 2, parent="one", requested_calls=1),
        tool("a", 3, 4, parent="one"),
        tool("b", 5, 6, parent="one"),
        tool("c", 7, 8, parent="one"),
    )
    assert turns(run) == [1, 2, 3]


def test_another_agents_response_gives_no_turn() -> None:
    """Turns are an agent's own: a response of B between two calls of A's one turn does not split it."""
    run = one_run(
        agent("flow", 0, 99, agent_name=None),
        agent("one", 1, 98, parent="flow", agent_name="A"),
        agent("two", 1, 98, parent="flow", agent_name="B"),
        chat("c1", 2, 3, parent="one"),
        tool("a", 4, 5, parent="one", args="1"),
        chat("c2", 6, 7, parent="two"),
        tool("b", 8, 9, parent="one", args="2"),
    )
    assert turns(run) == [1, 1]


def test_agents_of_one_name_that_overlap_are_kept_apart() -> None:
    """Three workers of one name that read one file each do not repeat each other."""
    run = one_run(
        agent("boss", 0, 99, agent_name="boss"),
        *(agent(f"w{n}", n, 90, parent="boss", agent_name="worker") for n in (1, 2, 3)),
        *(tool(f"t{n}", 10 + n, 20, parent=f"w{n}") for n in (1, 2, 3)),
    )
    assert sorted(call.agent for call in run.calls) == ["worker", "worker#2", "worker#3"]


def test_an_agent_that_gets_the_work_back_is_the_same_agent() -> None:
    """A → B → A under one workflow: the second A goes on where the first stopped."""
    run = one_run(
        span("flow", 0, 99, role=Role.WORKFLOW),
        agent("a1", 1, 10, parent="flow", agent_name="A"),
        tool("x", 2, 3, parent="a1"),
        agent("b1", 11, 20, parent="flow", agent_name="B"),
        agent("a2", 21, 30, parent="flow", agent_name="A"),
        tool("y", 22, 23, parent="a2"),
    )
    assert [call.agent for call in run.calls] == ["A", "A"]


# --- order ----------------------------------------------------------------------------------------------


def test_a_producers_own_start_numbers_outrank_its_clock() -> None:
    """A clock that was set back does not turn the order round."""
    run = one_run(
        agent("one", 0, 99),
        tool("a", 20, 21, parent="one", args="first", producer="p", started=1),
        tool("b", 10, 11, parent="one", args="second", producer="p", started=2),
    )
    assert [call.facts.call_digest for call in run.calls] == [digest("lookupfirst"), digest("lookupsecond")]


def test_a_child_that_starts_a_second_before_its_parent_is_flagged() -> None:
    """Clocks that disagree by more than a second are said, not trusted silently."""
    at_limit = one_run(agent("one", 1000, 9000), tool("a", 0, 1, parent="one", host="h2"))
    beyond = one_run(agent("one", 1001, 9000), tool("a", 0, 1, parent="one", host="h2"))
    assert (Flag.CLOCK_SKEW in at_limit.flags, Flag.CLOCK_SKEW in beyond.flags) == (False, True)


def test_a_write_timed_by_a_skewed_clock_makes_the_order_uncertain() -> None:
    """Whether the write lies between the equal calls decides, and no clock can say."""
    spans = (
        agent("one", 5000, 99000, host="h1"),
        tool("a", 6000, 6001, parent="one", host="h1"),
        tool("b", 8000, 8001, parent="one", host="h1"),
        tool("w", 1000, 1001, parent="one", host="h2", tool_name="patch", call={"effect": Effect.WRITE}),
    )
    assert Flag.ORDER_UNCERTAIN in one_run(*spans).flags
    same_clock = one_run(*spans[:3], tool("w", 7000, 7001, parent="one", host="h1", call={"effect": Effect.WRITE}))
    assert Flag.ORDER_UNCERTAIN not in same_clock.flags


# --- what is missing ---------------------------------------------------------------------------------------


def test_a_hole_in_a_producers_numbers_is_named() -> None:
    """Numbers 1, 2, 5 say that 3 and 4 are lost, after the second call."""
    run = one_run(*(tool(f"t{n}", n, n + 1, sequence=n, args=str(n)) for n in (1, 2, 5)))
    assert (run.missing_sequences, run.gaps, Flag.SEQUENCE_GAP in run.flags) == ((3, 4), (2,), True)


def test_numbers_are_each_producers_own() -> None:
    """Two processes both begin at 1."""
    run = one_run(
        *(tool(f"a{n}", n, n + 1, sequence=n, producer="p", args=f"a{n}") for n in (1, 2)),
        *(tool(f"b{n}", n, n + 1, sequence=n, producer="q", args=f"b{n}") for n in (1, 2)),
        span("end1", 9, 9, role=Role.RUN_END, producer="p", run_calls=2),
        span("end2", 9, 9, role=Role.RUN_END, producer="q", run_calls=2),
    )
    assert (run.missing_sequences, run.flags & {Flag.SEQUENCE_GAP, Flag.PRODUCER_NOT_CLOSED}) == ((), frozenset())


def test_a_producer_that_said_how_many_calls_it_gave_shows_a_lost_tail() -> None:
    """The last calls are the likeliest to be lost, and leave no hole."""
    run = one_run(
        tool("a", 1, 2, sequence=1, producer="p"), span("end", 9, 9, role=Role.RUN_END, producer="p", run_calls=3)
    )
    assert run.missing_sequences == (2, 3)


def test_holes_of_several_producers_are_listed_in_order() -> None:
    """Before the first call, between two and after the last, whoever lost them, with a name or without."""
    run = one_run(
        tool("a", 1, 2, sequence=4, producer="q", args="a"),
        tool("b", 3, 4, sequence=1, producer="p", args="b"),
        tool("c", 5, 6, sequence=3, producer="p", args="c"),
        tool("d", 7, 8, sequence=2, args="d"),
        span("end", 9, 9, role=Role.RUN_END, producer="p", run_calls=3),
        span("end again", 9, 9, role=Role.RUN_END, producer="p", run_calls=2),
        span("end of none", 9, 9, role=Role.RUN_END, run_calls=3),
    )
    assert ((1, 1, 2, 2, 3, 3), (0, 2, 4)) == (run.missing_sequences, run.gaps)
    assert {Flag.SEQUENCE_GAP, Flag.PRODUCER_NOT_CLOSED} <= run.flags, "q never closed, though p did"


def test_a_producer_that_never_closed_is_flagged() -> None:
    """A process that was killed may have made more calls than it exported."""
    assert Flag.PRODUCER_NOT_CLOSED in one_run(tool("a", 1, 2, sequence=1, producer="p")).flags


def test_a_forged_number_does_not_fill_memory() -> None:
    """A sequence of 10^15 lists a bounded number of holes."""
    run = one_run(tool("a", 1, 2, sequence=10**15))
    assert len(run.missing_sequences) == 1000


def test_a_requested_call_that_no_span_shows_is_counted() -> None:
    """Asked for two, saw one, and nothing says that the run was ended in between."""
    run = one_run(
        agent("one", 0, 99),
        chat("c1", 1, 2, parent="one", requested=("x", "y")),
        tool("a", 3, 4, parent="one", call_id="x"),
        chat("c2", 5, 6, parent="one", requested=("z",)),
        tool("b", 7, 8, parent="one", call_id="z"),
    )
    assert (run.requested_unseen, Flag.REQUESTED_NOT_SEEN in run.flags) == (1, True)


def test_a_limit_explains_the_calls_of_the_last_response_only() -> None:
    """A run that a limit ended did not dispatch what it was asked for last."""
    run = one_run(
        agent("one", 0, 99, termination=TerminationReason.TURN_LIMIT),
        chat("c1", 1, 2, parent="one", requested=("x", "lost")),
        tool("a", 3, 4, parent="one", call_id="x"),
        chat("c2", 5, 6, parent="one", requested=("y",)),
    )
    assert (run.requested_unseen, Flag.REQUESTED_NOT_DISPATCHED in run.flags) == (1, True)


def test_spans_without_call_ids_stand_for_requested_ones() -> None:
    """Where tool spans carry no ids, numbers must do."""
    run = one_run(
        agent("one", 0, 99),
        chat("c1", 1, 2, parent="one", requested=("x",)),
        tool("a", 3, 4, parent="one"),
        chat("c2", 5, 6, parent="one", requested=("y",)),
        not_a_call("b", 7, 8, NotACall.HANDOFF, parent="one"),
    )
    assert run.requested_unseen == 0


# --- endings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [True, False])
def test_a_limit_inside_a_tool_call_is_the_sub_agents_not_the_runs(inner: bool) -> None:  # noqa: FBT001 - a parameter
    """A sub-agent that ran into its limit was handled by the agent above."""
    run = one_run(
        agent("one", 0, 99),
        tool("ask", 1, 50, parent="one"),
        agent("sub", 2, 49, parent="ask" if inner else "one", termination=TerminationReason.TURN_LIMIT),
    )
    assert run.termination is (TerminationReason.UNKNOWN if inner else TerminationReason.TURN_LIMIT)


def test_a_last_response_that_stopped_without_asking_is_a_final_answer() -> None:
    """The only sign that is left where no content is recorded."""
    run = one_run(
        agent("one", 0, 99),
        chat("c1", 1, 2, parent="one", finish=Finish.TOOL_CALLS),
        tool("a", 3, 4, parent="one"),
        chat("c2", 5, 6, parent="one", finish=Finish.STOP),
    )
    assert (run.final_answer, run.termination) == (True, TerminationReason.FINAL_ANSWER)


def test_a_stop_before_the_last_call_is_no_final_answer() -> None:
    """An answer that was followed by a call was not the last word."""
    run = one_run(
        agent("one", 0, 99), chat("c1", 1, 2, parent="one", finish=Finish.STOP), tool("a", 3, 4, parent="one")
    )
    assert (run.final_answer, run.termination) == (False, TerminationReason.UNKNOWN)


def test_a_sub_agents_last_word_is_not_the_runs() -> None:
    """What a model said inside a tool call is that tool's business."""
    run = one_run(
        agent("one", 0, 99),
        tool("ask", 1, 50, parent="one"),
        chat("c", 2, 49, parent="ask", requested=(), finish=Finish.STOP),
    )
    assert (False, False) == (run.final_answer, run.scorable_without_calls)


@pytest.mark.parametrize(("start", "answered"), [(4, True), (5, True), (6, False), (7, False)])
def test_a_call_that_starts_when_the_last_response_ended_followed_it(start: int, answered: bool) -> None:  # noqa: FBT001 - a parameter
    """A call that began while the model still spoke was not asked for by it; one that began at its end was."""
    run = one_run(
        agent("one", 0, 99),
        chat("c1", 1, 2, parent="one", finish=Finish.TOOL_CALLS),
        chat("c2", 5, 6, parent="one", finish=Finish.STOP),
        tool("a", start, 9, parent="one"),
        tool("b", 3, 4, parent="one"),
    )
    assert answered is run.final_answer


def test_a_last_response_that_asks_is_no_final_answer() -> None:
    """Some models say `stop` and ask for a call all the same."""
    run = one_run(
        agent("one", 0, 99),
        chat("c1", 1, 2, parent="one", requested=("x",)),
        tool("a", 3, 4, parent="one", call_id="x"),
        chat("c2", 5, 6, parent="one", requested=("y",), finish=Finish.STOP),
    )
    assert (False, 1) == (run.final_answer, run.requested_unseen)


@pytest.mark.parametrize(
    ("requested", "finish", "expected"),
    [((), Finish.STOP, True), ((), None, True), (None, Finish.STOP, True), (None, None, False), (("x",), None, False)],
)
def test_when_a_run_without_calls_can_be_scored(
    requested: tuple[str, ...] | None,
    finish: Finish | None,
    expected: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Every response must be known to have asked for nothing; one alone that is not, and nobody can say."""
    silent = chat("c1", 1, 2, parent="one", requested=(), finish=Finish.STOP)
    other = chat("c2", 3, 4, parent="one", requested=requested, finish=finish)
    assert expected is one_run(agent("one", 0, 99), silent, other).scorable_without_calls


def test_the_last_to_end_speaks_for_the_run() -> None:
    """Of several words on how the run ended the last counts, the application's before any agent's; UNKNOWN is one."""
    turn, deadline = TerminationReason.TURN_LIMIT, TerminationReason.DEADLINE
    first, second = (
        span(name, at, at, parent="one", role=Role.RUN_END, termination=reason)
        for name, at, reason in (("end1", 90, turn), ("end2", 95, deadline))
    )
    outer = agent("one", 0, 99, termination=TerminationReason.CANCELLED)
    assert deadline is one_run(outer, first, second).termination
    silent = span("end3", 97, 97, parent="one", role=Role.RUN_END)
    assert TerminationReason.CANCELLED is one_run(outer, silent).termination
    said = span("note", 98, 98, parent="one", role=Role.HANDOFF, termination=turn)
    assert TerminationReason.UNKNOWN is one_run(agent("one", 0, 99), said).termination
    answered = agent("one", 0, 99, termination=TerminationReason.FINAL_ANSWER)
    assert TerminationReason.UNKNOWN is one_run(answered).termination, "an agent's own word on an answer is no limit"


@pytest.mark.parametrize(
    ("outcomes", "asked_at", "expected"),
    [
        ((Outcome.OK, Outcome.ERROR), None, TerminationReason.TOOL_ERROR),
        ((Outcome.ERROR, Outcome.OK), None, TerminationReason.UNKNOWN),
        ((Outcome.OK, Outcome.OK), None, TerminationReason.UNKNOWN),
        ((Outcome.OK, Outcome.ERROR), 3, TerminationReason.TOOL_ERROR),
        ((Outcome.OK, Outcome.ERROR), 6, TerminationReason.UNKNOWN),
        ((Outcome.OK, Outcome.ERROR), 7, TerminationReason.UNKNOWN),
    ],
)
def test_an_error_of_the_last_call_ended_the_run_unless_a_model_was_asked_after_it(
    outcomes: tuple[Outcome, Outcome], asked_at: int | None, expected: TerminationReason
) -> None:
    """Only where the run's own span failed, its last call did, and nobody got to see that."""
    calls = [
        tool(name, at, at + 1, parent="one", args=name, outcome=outcome)
        for name, at, outcome in zip("ab", (2, 5), outcomes, strict=True)
    ]
    chats = [] if asked_at is None else [chat("c", asked_at, asked_at + 1, parent="one")]
    run = one_run(agent("one", 0, 99, failed=True), agent("sub", 1, 98, parent="one"), *calls, *chats)
    assert expected is run.termination


def test_a_limit_stays_the_reason_where_the_last_call_failed() -> None:
    """What ended the run is what it says, whatever else went wrong."""
    limit = agent("one", 0, 99, termination=TerminationReason.TURN_LIMIT, failed=True)
    failed = tool("a", 1, 2, parent="one", outcome=Outcome.ERROR)
    assert TerminationReason.TURN_LIMIT is one_run(limit, failed).termination
    assert TerminationReason.TOOL_ERROR is one_run(agent("one", 0, 99, failed=True), failed).termination
    assert TerminationReason.UNKNOWN is one_run(agent("one", 0, 99), failed).termination


def test_a_run_end_span_outranks_what_agents_say() -> None:
    """The application's own word on how its run ended."""
    run = one_run(
        agent("one", 0, 99, termination=TerminationReason.TURN_LIMIT),
        span("end", 98, 98, parent="one", role=Role.RUN_END, termination=TerminationReason.LOOP_GUARD),
    )
    assert run.termination is TerminationReason.LOOP_GUARD


def test_an_agent_without_calls_is_a_run_and_says_so() -> None:
    """No tool spans at all is a fact of its own, not a clean run."""
    silent = one_run(agent("one", 0, 99))
    spoke = one_run(agent("one", 0, 99), chat("c", 1, 2, parent="one", requested=(), finish=Finish.STOP))
    assert (Flag.NO_TOOL_SPANS in silent.flags, silent.scorable_without_calls) == (True, False)
    assert spoke.scorable_without_calls


# --- counts ----------------------------------------------------------------------------------------------


def test_duplicates_are_told_apart() -> None:
    """Identical copies, layers and re-identified copies are different faults."""
    spans = (
        tool("a", 0, 9, call_id="c1"),
        tool("a", 0, 9, call_id="c1"),
        tool("copy", 0, 9, call_id="c1"),
        tool("inner", 1, 8, parent="a", args=None),
    )
    (run,) = assemble(spans, DEFAULT)
    assert run.duplicates == Duplicates(identical=1, reidentified=1, layered=1)


def test_tokens_of_a_response_are_counted_once() -> None:
    """Two calls of one response share its tokens."""
    run = one_run(
        agent("one", 0, 99),
        chat("c1", 1, 2, parent="one", tokens=120),
        tool("a", 3, 9, parent="one", args="1"),
        tool("b", 4, 9, parent="one", args="2"),
    )
    assert [call.tokens for call in run.calls] == [120, 0]


def test_a_decision_is_placed_at_the_call_it_was_about() -> None:
    """A denial names the call it refused."""
    decision = DecisionFacts(call_id="x", action=Action.DENY, enforced=True)
    run = one_run(
        agent("one", 0, 99),
        tool("a", 3, 4, parent="one", call_id="x"),
        tool("b", 5, 6, parent="one", call_id="y"),
        span("d", 3, 3, parent="one", role=Role.DECISION, decision=decision),
    )
    assert [(placed.call, placed.after_call) for placed in run.decisions] == [(1, 0)]


def test_a_decision_about_an_unseen_call_is_placed_by_time() -> None:
    """A denied call may leave no span: its decision stands after the calls that started before it."""
    decision = DecisionFacts(call_id="never-seen", action=Action.DENY, enforced=True)
    run = one_run(
        agent("one", 0, 99),
        tool("a", 3, 4, parent="one", call_id="x"),
        span("d", 4, 4, parent="one", role=Role.DECISION, decision=decision),
        tool("b", 5, 6, parent="one", call_id="y"),
    )
    assert [(placed.call, placed.after_call) for placed in run.decisions] == [(None, 1)]


def test_agent_spans_that_follow_one_another_in_a_named_run_are_user_turns() -> None:
    """A run id over four requests of a user: what was asked anew is no repeat."""
    spans = [
        span_
        for n in range(4)
        for span_ in (
            agent(f"a{n}", n * 10, n * 10 + 9, run_id="job", trace_id=f"{n + 1:032x}"),
            tool(f"t{n}", n * 10 + 1, n * 10 + 2, parent=f"a{n}", trace_id=f"{n + 1:032x}"),
        )
    ]
    run = one_run(*spans)
    assert [call.user_turn for call in run.calls] == [1, 2, 3, 4]


def test_agent_spans_that_overlap_are_of_one_user_turn() -> None:
    """Two agents at work on one request at once."""
    run = one_run(
        agent("a", 0, 20, run_id="job"),
        tool("t", 1, 2, parent="a"),
        agent("b", 10, 30, run_id="job", trace_id=OTHER_TRACE),
        tool("u", 11, 12, parent="b", trace_id=OTHER_TRACE),
    )
    assert [call.user_turn for call in run.calls] == [1, 1]


def test_an_undeclared_call_timed_by_a_skewed_clock_makes_the_order_uncertain() -> None:
    """It may lie between the equal calls, and may change what they look at; a declared read cannot."""
    spans = (
        agent("one", 5000, 99000, host="h1"),
        tool("a", 6000, 6001, parent="one", host="h1"),
        tool("b", 8000, 8001, parent="one", host="h1"),
    )
    unknown = tool("p", 1000, 1001, parent="one", host="h2", tool_name="put")
    read = tool("p", 1000, 1001, parent="one", host="h2", tool_name="peek", call={"effect": Effect.READ})
    assert Flag.ORDER_UNCERTAIN in one_run(*spans, unknown).flags
    assert Flag.ORDER_UNCERTAIN not in one_run(*spans, read).flags


def test_an_agent_run_once_per_item_is_a_new_one_each_time() -> None:
    """A batch whose items each have a conversation: what each reads first is no repeat of the others."""
    run = one_run(
        span("flow", 0, 99, role=Role.WORKFLOW),
        *(agent(f"a{n}", n * 10, n * 10 + 9, parent="flow", conversation=f"c{n}") for n in range(3)),
        *(tool(f"t{n}", n * 10 + 1, n * 10 + 2, parent=f"a{n}") for n in range(3)),
    )
    assert [call.agent for call in run.calls] == ["A", "A#2", "A#3"]


def test_runs_of_one_trace_share_their_producers_numbers() -> None:
    """A producer numbers the calls of a trace: what the other run's calls bear is no hole in this one's."""
    first, second = runs_of(
        agent("a", 0, 10),
        agent("b", 20, 30, run_calls=4, producer="p"),
        tool("1", 1, 2, parent="a", sequence=1, producer="p"),
        tool("2", 3, 4, parent="a", sequence=2, producer="p"),
        tool("3", 21, 22, parent="b", sequence=4, producer="p"),
    )
    assert ((3,), (3,)) == (first.missing_sequences, second.missing_sequences), "the lost one may be of either"
    assert Flag.PRODUCER_NOT_CLOSED not in first.flags


def test_a_root_that_no_dialect_knows_closes_its_producer() -> None:
    """The application's own root says how many calls its process made."""
    run = one_run(
        span("root", 0, 9, producer="p", run_calls=2),
        tool("1", 1, 2, parent="root", sequence=1, producer="p"),
    )
    assert ((2,), False) == (run.missing_sequences, Flag.PRODUCER_NOT_CLOSED in run.flags)
