"""Runs that are stuck in shapes that simple rules do not find."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from tests.probes.probe import LOOP, SEEN, Probe, Row, call, each, fail, tools

ARTICLE: Final = (
    "Returns are accepted within thirty days of delivery if the goods are unused and in their original packaging; "
    "refunds go to the card that was charged, and take up to ten working days after the parcel has reached us."
)
NOTES: Final = (
    "Plan: find the contract of customer 88, compare its terms with the price list of last year, then write to the "
    "customer. Open questions: which price list applies, and who signs. Nothing else has been decided so far, and the "
    "terms of the old contract are still missing from the archive that the sales team keeps on the shared drive."
)
_PATHS: Final = (
    "src/a.py",
    "./src/a.py",
    "src//a.py",
    "src/../src/a.py",
    "src/./a.py",
    "././src/a.py",
    "src///a.py",
    "./src//a.py",
    "src/b/../a.py",
)
_QUERY: Final = ("refund", "policy", "europe", "winter", "sale", "boots", "red", "size")
_ASKED: Final = (
    "how do I return damaged goods",
    "how can I return goods that are damaged",
    "how do I return goods damaged on the way",
    "how do I return my damaged goods",
    "how can I return damaged goods please",
    "return damaged goods how do I",
    "how do I return some damaged goods",
)


def _rounds(rounds: int, *rows: Row) -> list[Row]:
    return [row for _ in range(rounds) for row in rows]


def _repeats() -> list[Probe]:
    return [
        Probe(
            "alternating_with_a_third",
            "Two calls alternate with the same answers; a third one between them brings something else each time.",
            [
                row
                for at in range(5)
                for row in (
                    call("search", {"q": "contract 88"}, {"hits": ["C-88"]}),
                    call("open", {"id": "C-88"}, {"state": "archived"}),
                    call("news", {"page": at}, {"headline": f"headline {at * 13}"}),
                )
            ],
            tools(search="{effect: read}", open="{effect: read}", news="{effect: read}"),
            SEEN,
            ("interleaved_repeat",),
            8,
        ),
        Probe(
            "split_over_agents",
            "Three agents ask the same, in turn, and each gets the same answer: the run goes round.",
            [
                call("search", {"q": "contract 88"}, {"hits": ["C-88", "C-89"]}, agent=agent)
                for _ in range(4)
                for agent in ("plan", "code", "review")
            ],
            None,
            SEEN,
            (),
            12,
        ),
        Probe(
            "handover_ping_pong",
            "Two agents hand the same task to each other.",
            _rounds(
                5,
                call("delegate", {"to": "code", "task": "T-1"}, {"handed": "T-1"}, agent="plan"),
                call("delegate", {"to": "plan", "task": "T-1"}, {"handed": "T-1"}, agent="code"),
            ),
            None,
            LOOP,
            ("handoff_cycle",),
            6,
        ),
        Probe(
            "search_open_back",
            "Search, open, back, and thinking in between: nothing but thoughts is new.",
            [
                row
                for at in range(5)
                for row in (
                    call("search", {"q": "garden chair"}, {"hits": ["G1", "G2"]}),
                    call("think", {"thought": f"thought number {at}"}, ""),
                    call("open", {"id": "G1"}, {"price": 20}),
                    call("think", {"thought": f"other thought number {at}"}, ""),
                    call("back", {}, {"page": "results"}),
                )
            ],
            None,
            LOOP,
            ("cycle",),
            15,
        ),
        Probe(
            "two_pages_to_and_fro",
            "Page one, page two, page one, page two.",
            _rounds(5, call("page", {"n": 1}, {"rows": [1, 2]}), call("page", {"n": 2}, {"rows": [3, 4]})),
            None,
            LOOP,
            ("cycle",),
            6,
        ),
        Probe(
            "create_and_delete",
            "A file is made and removed again and again.",
            _rounds(
                5,
                call("create_file", {"path": "a.txt"}, {"created": "a.txt"}),
                call("delete_file", {"path": "a.txt"}, {"deleted": "a.txt"}),
            ),
            None,
            LOOP,
            ("cycle",),
            6,
        ),
        Probe(
            "toggle",
            "A switch is set and unset, with nothing between.",
            [call("set_switch", {"on": at % 2 == 0}, "done") for at in range(12)],
            tools(set_switch="{effect: write}"),
            LOOP,
            ("cycle",),
            6,
        ),
        Probe(
            "rereading_notes",
            "The agent's own notes are read again after every search that found nothing.",
            [
                row
                for at in range(9)
                for row in (
                    call("read_notes", {}, NOTES),
                    call("search_archive", {"box": at}, "no results"),
                )
            ],
            None,
            SEEN,
            ("interleaved_repeat", "same_result"),
            16,
        ),
        Probe(
            "relapse",
            "Found at three; the agent looks at one other thing, and comes back to the same call with the same answer.",
            [
                *_rounds(3, call("get_order", {"id": 7}, {"status": "delivered", "version": 7})),
                call("get_policy", {"name": "refund"}, {"days": 30}),
                *_rounds(2, call("get_order", {"id": 7}, {"status": "delivered", "version": 7})),
            ],
            None,
            LOOP,
            ("relapse",),
            5,
        ),
        Probe(
            "tests_after_empty_edits",
            "Edits that change nothing, and the tests after each of them.",
            _rounds(
                5,
                call("edit", {"path": "app.py", "old": "x", "new": "x"}, "No changes were made to the file."),
                call("run_tests", {}, "3 failed, 12 passed"),
            ),
            None,
            LOOP,
            ("cycle", "interleaved_repeat"),
            6,
        ),
        Probe(
            "one_step_of_five_differs",
            "Rounds of five calls, one of which differs in each round.",
            [
                row
                for at in range(5)
                for row in (
                    call("open", {"id": "A"}, {"state": "new"}),
                    call("open", {"id": "B"}, {"state": "old"}),
                    call("note", {"text": f"seen {at}"}, ""),
                    call("open", {"id": "C"}, {"state": "gone"}),
                    call("open", {"id": "D"}, {"state": "held"}),
                )
            ],
            None,
            SEEN,
            (),
            20,
        ),
    ]


def _answers() -> list[Probe]:
    rate = (
        "Offer of the minute {at}: the house recommends {tip}. Exchange desk of the north hall. We buy and sell notes "
        "of all countries at fair rates and without hidden fees. The desk is open daily from eight to eight, on "
        "holidays until noon. Rates are shown on the board beside the entrance. Please have your passport ready, and "
        "count your notes before you leave the desk."
    )
    tips = ("tea", "soup", "cake", "bread", "juice", "salad", "beans", "rice")
    return [
        Probe(
            "volatile_id",
            "The same order in the same state, with a fresh request id in each answer.",
            [
                call(
                    "get_order",
                    {"id": 7},
                    {
                        "request_id": f"{at * 7919 % 9973:04x}",
                        "order": 7,
                        "status": "delivered",
                        "carrier": "north post",
                        "items": ["garden chair", "table"],
                        "paid": True,
                    },
                )
                for at in range(1, 13)
            ],
            None,
            SEEN,
            ("args_repeat",),
            10,
        ),
        Probe(
            "volatile_id_declared",
            "The same where the owner declared the id as nothing that counts.",
            [call("get_order", {"id": 7}, {"request_id": f"r{at}", "status": "delivered"}) for at in range(5)],
            tools(get_order="{effect: read, ignore_result: [request_id]}"),
            LOOP,
            ("exact_repeat",),
            3,
        ),
        Probe(
            "board_with_offers",
            "One page is opened again and again; all that changes is an advertisement.",
            [call("open_page", {"url": "https://desk.example"}, rate.format(at=7, tip=tip)) for tip in tips],
            None,
            LOOP,
            ("near_result",),
            4,
        ),
        Probe(
            "reworded_same_answer",
            "One question in other words, and the same article each time.",
            [call("search_help", {"question": asked}, ARTICLE) for asked in _ASKED],
            None,
            LOOP,
            ("near_repeat",),
            5,
        ),
        Probe(
            "reworded_not_found",
            "One question in other words, and never anything found.",
            [call("search_help", {"question": asked}, "No results found.") for asked in _ASKED],
            None,
            LOOP,
            ("same_result", "near_repeat"),
            4,
        ),
        Probe(
            "growing_query",
            "A word is added to the query each time; nothing is ever found.",
            [
                call(
                    "search",
                    {"query": " ".join(_QUERY[:words])},
                    "no matches",
                )
                for words in range(2, 9)
            ],
            None,
            LOOP,
            ("same_result", "near_repeat"),
            5,
        ),
        Probe(
            "reordered_same_answer",
            "One question, its words in another order or spelling, and the same article each time.",
            [
                call("search_help", {"question": asked}, ARTICLE)
                for asked in (
                    "return damaged goods",
                    "damaged goods return",
                    "Goods, damaged: return?",
                    "return, return damaged goods",
                    "goods return damaged",
                )
            ],
            None,
            LOOP,
            ("near_repeat",),
            4,
        ),
        Probe(
            "page_that_does_not_turn",
            "Next is clicked again and again, and the tool says that it was clicked.",
            [call("click", {"text": "Next"}, "Clicked Next")] * 7,
            None,
            LOOP,
            ("exact_repeat",),
            5,
        ),
        Probe(
            "status_asked_for",
            "A participle alone is the state of what was asked about, and no acknowledgement.",
            [call("get_order", {"id": 7}, "shipped")] * 4,
            None,
            LOOP,
            ("exact_repeat",),
            3,
        ),
        Probe(
            "batch_begins_again",
            "Names are looked up one by one, in vain, and then the same names again.",
            [call("whois", {"domain": f"{name}.example"}, "No match for domain.") for name in "abcdefabcdef"],
            None,
            LOOP,
            ("same_result",),
            7,
        ),
        Probe(
            "polite_retries",
            "A colleague has said no; the agent asks again, more politely each time.",
            [
                call(
                    "ask_colleague",
                    {"message": f"{manner} send me the report of last quarter so that I can go on"},
                    "I am sorry, I cannot share that report with anybody outside the finance team, as I have told you.",
                )
                for manner in (
                    "Please",
                    "Could you please",
                    "Kindly please",
                    "Please do",
                    "Would you please",
                    "Pretty please",
                )
            ],
            None,
            SEEN,
            ("near_repeat",),
            5,
        ),
        Probe(
            "order_of_a_list",
            "The same labels in another order, and the same article each time.",
            [
                call("search_labels", {"labels": list(labels)}, ARTICLE)
                for labels in itertools.islice(itertools.permutations("abcd"), 10)
            ],
            None,
            SEEN,
            ("same_result",),
            8,
        ),
        Probe(
            "spelling_of_a_query",
            "Capitals and spaces change, the answer does not.",
            [
                call("search", {"q": query}, "No results found.")
                for query in ("Refund  policy", "refund policy", "REFUND POLICY", "refund policy ", "Refund Policy")
            ],
            None,
            SEEN,
            ("same_result",),
            4,
        ),
        Probe(
            "paths_of_one_file",
            "One file by nine spellings of its path.",
            [call("read_file", {"path": path}, NOTES) for path in _PATHS],
            None,
            SEEN,
            ("same_result",),
            8,
        ),
        Probe(
            "paths_of_one_file_declared",
            "The same where the owner declared the argument as a path.",
            [call("read_file", {"path": path}, NOTES) for path in _PATHS],
            tools(read_file="{effect: read, path_args: [path]}"),
            LOOP,
            ("exact_repeat",),
            3,
        ),
        Probe(
            "edits_that_change_nothing",
            "Every edit is another one, and none changes anything.",
            [
                call("edit", {"path": "app.py", "old": f"line {at}", "new": f"line {at} "}, "No changes were made.")
                for at in range(7)
            ],
            None,
            SEEN,
            ("same_result",),
            6,
        ),
    ]


def _failures() -> list[Probe]:
    quotes = ("cat 'a b.txt'", 'cat "a b.txt"', "cat a\\ b.txt", "cat 'a b.txt' ", "cat ./'a b.txt'")
    return [
        Probe(
            "error_with_a_clock",
            "The same call fails the same way; the error's text has a clock and a process number.",
            [
                fail("run", {"command": "make"}, f"[10:00:{at:02d}] pid {4000 + 7 * at}: connection to db-7 was lost")
                for at in range(5)
            ],
            None,
            LOOP,
            ("error_repeat",),
            3,
        ),
        Probe(
            "error_text_with_a_clock",
            "The same where the tool gives the error as its result.",
            [
                call(
                    "run",
                    {"command": "make"},
                    f"Error: connection to db-7 was lost at 10:0{at % 7}, process {7919 * at % 997}",
                )
                for at in range(12)
            ],
            None,
            SEEN,
            (),
            10,
        ),
        Probe(
            "error_text_with_a_clock_declared",
            "The same where the owner said that a text that reads like an error is one.",
            [call("run", {"command": "make"}, f"Error: connection to db-7 was lost at 10:0{at}") for at in range(5)],
            'version: 1\npolicy: probe\npolicy_version: "1"\nerrors: {in_band: true}\n',
            LOOP,
            ("error_repeat",),
            3,
        ),
        Probe(
            "spelling_of_a_command",
            "One command by its quotes; the file is not there, whatever they are.",
            [call("shell", {"command": text}, "cat: 'a b.txt': No such file or directory") for text in quotes],
            None,
            LOOP,
            ("same_result",),
            4,
        ),
        Probe(
            "priority_guessed",
            "One field is guessed at, and the complaint is always the same.",
            [
                fail("create_ticket", {"title": "Chair", "priority": guess}, "validation: priority must be from 1 to 5")
                for guess in ("high", "High", "HIGH", "urgent", "top", "p1")
            ],
            None,
            LOOP,
            ("same_result",),
            4,
        ),
        Probe(
            "longer_timeouts",
            "The timeout is raised each time, and the command never ends.",
            [fail("shell", {"command": "make", "timeout": 30 * at}, "the command timed out") for at in range(1, 8)],
            None,
            SEEN,
            ("same_result",),
            5,
        ),
        Probe(
            "permission_once_more",
            "One closed folder is tried again and again.",
            _rounds(4, fail("list_folder", {"path": "/vault"}, "permission denied")),
            None,
            LOOP,
            ("error_repeat",),
            3,
        ),
        Probe(
            "database_is_down",
            "Every tool fails with the same words, and the agent tries one after the other.",
            [
                fail(tool, {"id": at}, "connection refused: db.internal port 5432")
                for at, tool in enumerate(("get_user", "get_order", "get_cart", "find_user", "list_orders", "get_user"))
            ],
            None,
            SEEN,
            ("error_cascade",),
            5,
        ),
        Probe(
            "outage",
            "The owner said what is transient: this is an outage, and no loop.",
            _rounds(6, fail("fetch", {"url": "https://shop.example/api"}, "503 Service Unavailable")),
            'version: 1\npolicy: probe\npolicy_version: "1"\nerrors: {transient: [service unavailable]}\n',
            ("outage",),
            ("outage",),
            4,
        ),
        Probe(
            "refused_by_a_person",
            "A person has refused the call twice; the agent proposes it again.",
            _rounds(4, call("delete_folder", {"path": "/data"}, None, denied=True)),
            None,
            LOOP,
            ("denied_repeat",),
            3,
        ),
        Probe(
            "second_refund",
            "The same refund with a fresh request key: a second payment, whatever the answer says.",
            [
                call("issue_refund", {"order_id": "A12", "amount": 20, "request_key": key}, {"refund": number})
                for number, key in enumerate(("k1", "k2"))
            ],
            tools(issue_refund="{effect: write, business_key: [order_id, amount], idempotency_key: request_key}"),
            ("duplicate_write",),
            ("duplicate_write",),
            2,
        ),
        Probe(
            "rereading_lines",
            "Lines that were read before are read again in other slices.",
            each(
                "read_lines",
                [
                    (
                        {"path": "big.txt", "from": start, "count": count},
                        f"{count} lines from {start}: {'word ' * start}",
                    )
                    for start, count in ((0, 100), (0, 50), (10, 40), (20, 60), (5, 15), (50, 50), (30, 20), (1, 99))
                ],
            ),
            tools(read_lines="{effect: read, range: {key: path, start: from, length: count}}"),
            SEEN,
            ("no_new_coverage",),
            6,
        ),
    ]


def probes() -> Sequence[Probe]:
    """Every stuck probe."""
    return (*_repeats(), *_answers(), *_failures())
