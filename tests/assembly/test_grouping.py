"""Which version of a span is kept, what is counted, and which traces are looked at together."""

from __future__ import annotations

import itertools

from otel_loopguard import policy
from otel_loopguard.assembly.grouping import Grouper, one_version
from otel_loopguard.model import Outcome
from tests.assembly.build import OTHER_TRACE, agent, chat, key, tool
from tests.replaying import replay_items


def test_identical_copies_are_counted_and_left_out() -> None:
    """A batch that was sent three times holds each span once."""
    versions = one_version([tool("a", 0, 9)] * 3)
    assert (len(versions.spans), versions.identical, versions.conflicting) == (1, {key("a"): 2}, {})


def test_the_ended_version_wins_in_any_order() -> None:
    """An unfinished export and the finished span are one call, with the finished one's facts."""
    unfinished, finished = tool("a", 0, None, result=None, outcome=Outcome.UNKNOWN), tool("a", 0, 9)
    for order in itertools.permutations((unfinished, finished, finished)):
        versions = one_version(order)
        assert (versions.spans[key("a")], versions.revised) == (finished, frozenset({key("a")}))
        assert versions.identical == {key("a"): 1}


def test_of_two_ended_versions_the_one_with_a_result_wins() -> None:
    """A result that was added later is not lost."""
    for order in itertools.permutations((tool("a", 0, 9, result=None), tool("a", 0, 9))):
        versions = one_version(order)
        assert versions.spans[key("a")] == tool("a", 0, 9)
        assert versions.conflicting == {key("a"): 1}


def test_traces_that_a_run_id_names_are_one_group() -> None:
    """An application that names its run may spread it over traces."""
    grouper = Grouper()
    nodes = [
        grouper.add(tool("a", 0, 1, run_id="job-1")),
        grouper.add(tool("b", 0, 1, trace_id=OTHER_TRACE)),
        grouper.add(tool("c", 0, 1, trace_id="3" * 32)),
        grouper.add(tool("d", 0, 1, trace_id=OTHER_TRACE, run_id="job-1")),
    ]
    groups = [grouper.group(node) for node in nodes]
    assert (groups[0] == groups[1] == groups[3], groups[2] == groups[0]) == (True, False)


def test_a_link_and_a_tool_spans_conversation_join_traces() -> None:
    """Halves of a call, and tool spans that are roots of their own traces, are looked at together."""
    grouper = Grouper()
    one = grouper.add(tool("a", 0, 1, conversation="c"))
    two = grouper.add(tool("b", 0, 1, trace_id=OTHER_TRACE, conversation="c"))
    three = grouper.add(tool("c", 0, 1, trace_id="3" * 32, links=((OTHER_TRACE, "x"),)))
    assert len({grouper.group(node) for node in (one, two, three)}) == 1


def test_a_write_whose_key_holds_everywhere_joins_runs() -> None:
    """They are judged in the order of their starts; a key that holds for less joins nothing."""
    owned = policy.load(
        '{"version": 1, "policy": "p", "policy_version": "1", "tools": {'
        '"pay": {"effect": "write", "business_key": ["order"], "business_scope": "global"}, '
        '"note": {"effect": "write", "business_key": ["order"], "business_scope": "conversation"}}}'
    )
    grouper = Grouper(owned)

    def written(name: str, trace_id: str, digest: str) -> int:
        call = {"business_digest": digest * 32}
        return grouper.add(tool("a", 0, 1, tool_name=name, trace_id=trace_id * 32, call=call))

    nodes = [written("pay", "1", "b"), written("pay", "2", "b"), written("pay", "3", "c")]
    nodes += [written("note", "4", "d"), written("note", "5", "d")]
    groups = [grouper.group(node) for node in nodes]
    assert (groups[0], 4) == (groups[1], len(set(groups)))


def test_under_scope_conversation_agents_join_by_their_conversation() -> None:
    """Most frameworks put the id on the agent's span only."""
    spans = [
        span
        for number in (1, 2, 3)
        for span in (
            agent("a", 0, 9, trace_id=f"{number:032x}", conversation="c"),
            tool("t", 1, 2, parent="a", trace_id=f"{number:032x}"),
        )
    ]
    wide = policy.load('{"version": 1, "policy": "p", "policy_version": "1", "scope": "conversation"}')
    (report,) = replay_items(spans, wide)
    assert (len(report.calls), len(report.verdict.trace_ids)) == (3, 3)
    assert len(replay_items(spans, policy.default())) == 3


def test_a_conversation_that_joins_no_traces_is_no_run() -> None:
    """That of a model response: tool spans below it are of their trace's run, or one run would be in two groups."""
    spans = [
        span
        for number in (1, 2)
        for span in (
            chat("c", 0, 9, trace_id=f"{number:032x}", conversation="c"),
            tool("t", 1, 2, parent="c", trace_id=f"{number:032x}"),
        )
    ]
    assert [f"{number:032x}" for number in (1, 2)] == [
        report.verdict.run_id for report in replay_items(spans, policy.default())
    ]


def test_a_tool_span_is_of_the_conversation_of_the_one_above_it() -> None:
    """Both join its traces, so that they are one run."""
    outer = tool("a", 0, 9, conversation="c")
    (report,) = replay_items([outer, tool("b", 1, 2, parent="a", tool_name="inner")], policy.default())
    assert ("c", 2) == (report.verdict.run_id, len(report.calls))
