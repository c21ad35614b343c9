"""Runs that look stuck and are not: what users of loop detectors suffer from, and how real agents work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.probes.probe import Probe, Row, call, each, fail, tools

CITIES: Final = ("Oslo", "Bergen", "Tromsø", "Lisbon", "Quito", "Hanoi", "Perth", "Lagos")
LICENCE: Final = (
    "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated "
    "documentation files, to deal in the software without restriction, including without limitation the rights to "
    "use, copy, modify, merge, publish, distribute, sublicense, and sell copies of the software, and to permit "
    "persons to whom the software is furnished to do so, subject to the following conditions below."
)
_EDITS: Final = ("rename the helper", "pass the locale", "guard against None", "widen the type", "sort the keys", "log")


def _log_line(number: int) -> str:
    events = ("accepted connection from gate", "flushed queue to disk", "rotated session key", "compacted segment file")
    return f"2026-03-02T10:{number // 60:02d}:{number % 60:02d}Z worker {events[number % 4]} number {number}"


def _shown(text: str, *, exit_code: int = 0) -> dict[str, object]:
    """What a shell gives back as a structure."""
    return {"stdout": text, "stderr": "", "exit_code": exit_code}


def _shell_naps(count: int) -> list[Row]:
    look = call("shell", {"command": "gh run view 7"}, _shown("in_progress"))
    return [row for _ in range(count) for row in (call("shell", {"command": "sleep 60"}, _shown("")), look)]


def _waiting() -> list[Probe]:
    progress = [
        call(
            "build_status",
            {"build": 4411},
            f"Build 4411 is running: {3 * at} % done, {at} of 30 targets compiled, nothing has failed so far",
        )
        for at in range(1, 31)
    ]
    report = (
        "Deployment of service checkout to region north is in progress. The rollout controller replaces old replicas "
        "by new ones in small batches and waits until the readiness checks of a batch have passed before it goes on. "
        "So far {done} of 40 replicas are new, {left} are still old, and the step before this one took {took} seconds."
    )
    rollout = [
        call("rollout_status", {"service": "checkout"}, report.format(done=2 * at, left=40 - 2 * at, took=31 + at % 3))
        for at in range(1, 20)
    ]
    states = ["queued"] * 8 + ["running"] * 9 + ["complete"]
    export = [
        call("get_export_status", {"job_id": "J7"}, {"status": state}, ts=10.0 * at) for at, state in enumerate(states)
    ]
    naps = [row for at in range(8) for row in (call("sleep", {"s": 30}), call("job_state", {"job": 9}, "running"))]
    short_naps = [row for _ in range(4) for row in (call("sleep", {"s": 30}), call("job_state", {"job": 9}, "running"))]
    approvals = [call("approval", {"request": "R-12"}, "waiting for a manager", ts=60.0 * at) for at in range(9)]
    return [
        Probe("poll_in_text", "A long poll whose text moves: numbers grow with every answer.", progress),
        Probe("poll_in_long_text", "The same in a text of over fifty words, of which only numbers move.", rollout),
        Probe(
            "poll_declared",
            "An export that stays queued, then running, and completes: waiting is what a poller is for.",
            export,
            tools(get_export_status="{effect: read, polling: {state: status, terminal: [complete]}}"),
        ),
        Probe(
            "sleep_and_poll",
            "The agent sleeps between polls of a declared poller.",
            [*naps, call("job_state", {"job": 9}, "complete")],
            tools(job_state="{effect: read, polling: {}}"),
        ),
        Probe(
            "sleep_and_poll_undeclared",
            "Nobody declared the poller, its answer is constant, and the agent sleeps between: it waits.",
            [*short_naps, call("job_state", {"job": 9}, "complete")],
        ),
        Probe(
            "sleep_that_speaks_and_poll",
            "The sleep tells how long it slept, which is no answer to anything.",
            [
                *[row for _ in range(6) for row in (call("sleep", {"s": 30}, "Slept for 30 seconds."), short_naps[1])],
                call("job_state", {"job": 9}, "complete"),
            ],
        ),
        Probe(
            "sleep_and_poll_in_a_shell",
            "The same through one shell, whose record of a sleep is a structure that says nothing.",
            [*_shell_naps(6), call("shell", {"command": "gh run view 7"}, _shown("completed"))],
        ),
        Probe(
            "edit_test_silent_structure",
            "Every edit is another command that prints nothing, and the test goes on failing: it is being worked on.",
            [
                one
                for n in range(12)
                for one in (
                    call("shell", {"command": f"sed -i 's/a{n}/b/' app.py"}, _shown("")),
                    call("shell", {"command": "pytest -q"}, _shown("1 failed, 20 passed", exit_code=1)),
                )
            ],
        ),
        Probe(
            "wait_undeclared",
            "A wait that says nothing: silence is no evidence of anything.",
            [*[call("wait", {"seconds": 60})] * 12, call("read_mail", {}, {"from": "Ana", "subject": "done"})],
        ),
        Probe(
            "human_approval_pending",
            "A person takes their time; the owner declared the poller.",
            [*approvals, call("approval", {"request": "R-12"}, "approved", ts=600.0)],
            tools(approval="{effect: read, polling: {max_unchanged: 30}}"),
        ),
        Probe(
            "empty_inbox",
            "An inbox that is empty four times and then is not.",
            [*each("check_inbox", [({}, [])] * 4), call("check_inbox", {}, [{"id": 5, "from": "Ana"}])],
        ),
        Probe(
            "heartbeat",
            "A heartbeat between pieces of work that bring something new.",
            [
                row
                for at in range(9)
                for row in (call("heartbeat", {}, "ok"), call("fetch_batch", {"n": at}, {"rows": [at, at * 7 % 5]}))
            ],
        ),
    ]


def _many_items() -> list[Probe]:
    asked = "What is the weather in {} today?"
    told = (
        "The weather in {} today is sunny with light winds from the north, and the local service expects no rain "
        "before the evening, so an umbrella will not be needed."
    )
    alike = (
        "It is sunny today with light winds from the north, and the local service expects no rain before the evening, "
        "so an umbrella will not be needed."
    )
    queued = (
        "The message has been queued, and will be delivered within the next few minutes by the service that sends all "
        "messages of the shop."
    )
    reviewed = (
        "No mistakes were found in this file: it keeps to the rules for style and naming, and needs no change at this "
        "time."
    )
    full = (
        "We are sorry, the house is full at that time; we would be glad to have you as our guest on another day or at "
        "another hour."
    )
    folders = ("app", "lib", "docs", "tests", "tools", "web")
    days = [f"2026-03-{day:02d}" for day in range(2, 9)]
    sentences = ("box", "chair", "lamp", "cup", "vase", "clock", "book")
    german = ("die Kiste", "der Stuhl", "die Lampe", "die Tasse", "die Vase", "die Uhr", "das Buch")
    return [
        Probe(
            "weather_structured",
            "One tool for many cities, with answers that happen to be equal.",
            [call("get_weather", {"city": city}, {"sky": "sunny", "high": 22}) for city in CITIES],
        ),
        Probe(
            "weather_in_words",
            "Questions that differ in one name, and templated answers that differ in it too.",
            [call("ask_weather", {"question": asked.format(city)}, told.format(city)) for city in CITIES],
        ),
        Probe(
            "weather_in_words_same_answer",
            "Questions that differ in one name, all answered with one forecast: other cities, no retry.",
            [call("ask_weather", {"question": asked.format(city)}, alike) for city in CITIES],
        ),
        Probe(
            "messages_to_many",
            "A message to each of eight customers through a tool that takes a sentence, with one acknowledgement.",
            [
                call("notify", {"order": f"Tell {name} that the parcel will be two days late"}, queued)
                for name in ("Ana", "Bo", "Cem", "Dana", "Eli", "Fay", "Gus", "Hana")
            ],
        ),
        Probe(
            "reviews_by_a_helper",
            "A helper reviews file after file, and finds nothing wrong with any.",
            [
                call("delegate", {"task": f"Review the file {name}.py for mistakes in style and naming"}, reviewed)
                for name in ("parse", "walk", "emit", "fold", "load", "save")
            ],
        ),
        Probe(
            "tables_on_other_days",
            "A table is asked for on one day after the other; the house is full on five of them.",
            [
                *[
                    call("restaurant", {"message": f"A table for two on {day} at seven, if you please"}, full)
                    for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
                ],
                call(
                    "restaurant",
                    {"message": "A table for two on Saturday at seven, if you please"},
                    "Yes, we have a table for you on Saturday at seven.",
                ),
            ],
        ),
        Probe(
            "licence_files",
            "Six files with the same text at different paths.",
            [call("read_file", {"path": f"vendor/{name}/LICENSE"}, LICENCE) for name in folders],
        ),
        Probe(
            "batch_of_writes",
            "Thirty rows, each updated once, each answered with true.",
            [call("update_row", {"id": number, "paid": True}, result=True) for number in range(30)],
            tools(update_row="{effect: write}"),
        ),
        Probe(
            "batch_of_writes_undeclared",
            "The same where nobody declared the tool.",
            [call("update_row", {"id": number, "paid": True}, result=True) for number in range(30)],
        ),
        Probe(
            "template_answers",
            "One answer with another name in it each time.",
            [
                call("greet", {"customer": number}, f"Dear {city}, thank you for your order, it will be sent tomorrow.")
                for number, city in enumerate(CITIES)
            ],
        ),
        Probe(
            "map_over_items",
            "A score for each of twelve items; most are alike.",
            [call("score_item", {"item": f"I-{number}"}, {"score": 0, "reasons": []}) for number in range(12)],
        ),
        Probe(
            "calendar_days",
            "Seven days are looked up and nothing is on: seven questions, seven answers.",
            [
                *[call("calendar", {"day": day}, "No events found.") for day in days],
                call("book", {"day": days[0]}, "booked"),
            ],
        ),
        Probe(
            "grep_in_folders",
            "A name is looked for folder by folder; it is in the last one.",
            [
                *[call("grep", {"pattern": "retry_budget", "path": name}, "no matches") for name in folders],
                call("grep", {"pattern": "retry_budget", "path": "plugins"}, "plugins/net.py:12: retry_budget = 3"),
            ],
        ),
        Probe(
            "permission_over_folders",
            "Each of six folders is closed to the agent, and it has to ask each to know that.",
            [fail("list_folder", {"path": name}, "permission denied") for name in folders],
        ),
        Probe(
            "translation",
            "Sentences that differ in one word, each translated.",
            [
                call("translate", {"text": f"The red {noun} stands on the long table.", "to": "de"}, f"Rot ist {word}.")
                for noun, word in zip(sentences, german, strict=True)
            ],
        ),
        Probe(
            "tenants",
            "One job for each tenant, with the same answer.",
            [call("sync_tenant", {"tenant": f"t{number}"}, {"synced": 14, "failed": 0}) for number in range(9)],
        ),
        Probe(
            "dice",
            "Dice are rolled twenty times: equal numbers come, and mean nothing.",
            each(
                "roll_dice", [({}, {"eyes": eyes}) for eyes in (4, 4, 2, 6, 6, 1, 3, 3, 5, 4, 4, 1, 2, 2, 6, 5, 5, 1)]
            ),
        ),
    ]


def _reading() -> list[Probe]:
    chunk = "lines {} to {}: " + "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi "
    folders = ("a", "a/b", "a/b/c", "a/d", "a/e", "f", "f/g")
    tail = [
        call("tail", {"file": "app.log", "lines": 12}, "\n".join(_log_line(2 * at + line) for line in range(12)))
        for at in range(9)
    ]
    growing = [
        call("read_log", {"file": "app.log"}, "\n".join(_log_line(line) for line in range(12 + at))) for at in range(9)
    ]
    board = "The board shows ten ranks of pieces. " + "White holds the centre with pawns and both knights. " * 5
    moves = ("e2 to e4", "g1 to f3", "b1 to c3", "f1 to b5", "castles short", "d2 to d3")
    return [
        Probe(
            "chunks_of_a_file",
            "A file is read a hundred lines at a time.",
            [
                call(
                    "read_lines",
                    {"path": "big.txt", "from": at * 100, "count": 100},
                    chunk.format(at * 100, at * 100 + 99) + f"word{at} line{at * 3}",
                )
                for at in range(12)
            ],
        ),
        Probe(
            "cursor_pages",
            "A listing is followed by its cursors.",
            [
                call("list_cases", {"cursor": f"c{at}"}, {"cases": [{"id": 3 * at + k} for k in range(3)], "next": at})
                for at in range(15)
            ],
        ),
        Probe(
            "offset_pages",
            "A listing by offset, whose last pages are empty.",
            [
                call("list_rows", {"offset": 50 * at, "limit": 50}, [at * 50, at * 50 + 1] if at < 6 else [])
                for at in range(9)
            ],
        ),
        Probe(
            "numbered_pages_alike",
            "Pages by number that show the same sold-out notice, until one does not.",
            [
                *[
                    call("open_page", {"page": number}, "All items on this page are sold out.")
                    for number in range(1, 7)
                ],
                call("open_page", {"page": 7}, "One item left: garden chair, 20 euros."),
            ],
        ),
        Probe(
            "silent_pages",
            "A browser is scrolled; the tool says nothing.",
            [*[call("scroll_down", {"by": "page"})] * 9, call("read_screen", {}, "Terms and conditions, section 12")],
        ),
        Probe(
            "tree_walk",
            "Folders are listed one by one; several are empty and several hold the same one file.",
            [call("list_folder", {"path": path}, ["__init__.py"] if at % 2 else []) for at, path in enumerate(folders)],
        ),
        Probe("moving_log", "A log is read again and has grown by a line each time.", growing),
        Probe("tail_of_a_log", "The last lines of a log, which move on.", tail),
        Probe(
            "three_agents_one_file",
            "Three agents each read the file they all need.",
            [call("read_file", {"path": "BRIEF.md"}, LICENCE, agent=agent) for agent in ("plan", "code", "review")],
        ),
        Probe(
            "three_agents_two_files",
            "Three agents each read the same two files, twice, for their own work.",
            [
                call("read_file", {"path": path}, f"{path}: {LICENCE}", agent=agent)
                for agent in ("plan", "code", "review")
                for path in ("BRIEF.md", "RULES.md")
            ],
        ),
        Probe(
            "sql_exploration",
            "A schema is explored: statements of one shape, each with its own answer.",
            [
                call("query", {"question": f"count of {table} that are not deleted"}, [[number]])
                for table, number in (("orders", 91), ("items", 40), ("users", 12), ("carts", 0), ("notes", 0))
            ],
        ),
        Probe(
            "search_refined",
            "A search is narrowed, and each answer is another.",
            each(
                "search",
                [
                    (
                        {"query": "refund policy for damaged goods"},
                        "Policy 4: damaged goods are replaced within a week.",
                    ),
                    ({"query": "refund policy for damaged goods abroad"}, "Policy 9: abroad, the customer pays first."),
                    (
                        {"query": "refund policy for damaged goods abroad by courier"},
                        "Policy 11: couriers insure them.",
                    ),
                    ({"query": "courier insurance claims for damaged goods abroad"}, "Form 3 is for courier claims."),
                    ({"query": "where to send form 3 for courier claims"}, "Send form 3 to claims, second floor."),
                ],
            ),
        ),
        Probe(
            "game_board",
            "A board is looked at after every move; its description hardly changes.",
            [
                row
                for move in moves
                for row in (
                    call("move", {"move": move}, f"played {move}"),
                    call("board", {}, f"{board} Last move: {move}."),
                )
            ],
        ),
    ]


def _work() -> list[Probe]:
    tests = "3 failed, 12 passed: test_total, test_locale and test_sorting do not pass yet, see the report for details"
    warnings = "warning: unused variable in module {}; consider removing it or giving it a leading underscore. "
    build = "".join(warnings.format(name) for name in ("parse", "walk", "emit", "fold", "load"))
    return [
        Probe(
            "edit_test_constant",
            "Each edit is another one; that the tests fail alike so far is no proof of standing still.",
            _edit_and_test("The file was edited.", tests),
        ),
        Probe(
            "edit_test_json_ack",
            "The same where the editor answers with the same small structure each time.",
            _edit_and_test({"ok": True, "path": "app.py"}, {"failed": 3, "passed": 12}),
        ),
        Probe(
            "edit_test_long_ack",
            "The same where the editor's acknowledgement is a long sentence.",
            _edit_and_test(
                "The file app.py was edited as asked; please check that the change is what you wanted, and edit again "
                "where it is not.",
                tests,
            ),
        ),
        Probe(
            "edit_build_warnings",
            "A build prints the same warnings after every edit, with another duration.",
            [
                row
                for at, edit in enumerate(_EDITS)
                for row in (
                    call("edit", {"path": "app.py", "change": edit}, f"edited, {at + 3} lines changed"),
                    call("build", {}, f"{build} built in {30 + at * 7 % 11} seconds"),
                )
            ],
        ),
        Probe(
            "test_fix_test",
            "Failures go down one by one.",
            [
                row
                for left in range(5, -1, -1)
                for row in (
                    call("run_tests", {}, f"{left} failed, {15 - left} passed"),
                    call("edit", {"path": f"part{left}.py", "change": f"fix {left}"}, "ok"),
                )
            ],
        ),
        Probe(
            "git_status_between_edits",
            "The state of the tree is looked at between edits, and is the same words each time.",
            [
                row
                for edit in _EDITS
                for row in (
                    call("git_status", {}, "On branch main. Changes not staged for commit: modified: app.py"),
                    call("edit", {"path": "app.py", "change": edit}, "edited"),
                )
            ],
            tools(edit="{effect: write}", git_status="{effect: read}"),
        ),
        Probe(
            "check_after_write",
            "Each write is checked by reading back.",
            [
                row
                for number in range(7)
                for row in (
                    call("set_price", {"sku": number, "price": 9}, "ok"),
                    call("get_price", {"sku": number}, {"price": 9}),
                )
            ],
            tools(set_price="{effect: write}", get_price="{effect: read}"),
        ),
        Probe(
            "switch_on_purpose",
            "A flag is set and unset to measure both sides, and each measurement is a new one.",
            [
                row
                for at in range(4)
                for row in (
                    call("set_flag", {"flag": "cache", "on": at % 2 == 0}, "ok"),
                    call("measure", {"requests": 1000}, {"p50_ms": 20 + at * 3, "p99_ms": 81 - at * 5}),
                )
            ],
            tools(set_flag="{effect: write}", measure="{effect: read}"),
        ),
        Probe(
            "backoff_and_recovery",
            "A service is down for a moment; the agent waits longer each time and then goes on.",
            [
                fail("fetch", {"url": "https://shop.example/api"}, "503 Service Unavailable", ts=0.0),
                fail("fetch", {"url": "https://shop.example/api"}, "503 Service Unavailable", ts=2.0),
                fail("fetch", {"url": "https://shop.example/api"}, "503 Service Unavailable", ts=6.0),
                call("fetch", {"url": "https://shop.example/api"}, {"orders": 3}, ts=14.0),
            ],
            'version: 1\npolicy: probe\npolicy_version: "1"\nerrors: {transient: [service unavailable]}\n',
        ),
        Probe(
            "one_retry_then_recovery",
            "Two failures without any declaration, then an answer.",
            [
                fail("fetch", {"url": "https://shop.example/api"}, "503 Service Unavailable"),
                fail("fetch", {"url": "https://shop.example/api"}, "503 Service Unavailable"),
                call("fetch", {"url": "https://shop.example/api"}, {"orders": 3}),
            ],
        ),
        Probe(
            "form_with_other_errors",
            "A form is filled in, and each complaint is about another field.",
            [
                fail("submit", {"name": "Ana"}, "validation: field city is required"),
                fail("submit", {"name": "Ana", "city": "Oslo"}, "validation: field zip is required"),
                fail("submit", {"name": "Ana", "city": "Oslo", "zip": "1"}, "validation: field zip has four digits"),
                fail("submit", {"name": "Ana", "city": "Oslo", "zip": "0150"}, "validation: consent is missing"),
                call("submit", {"name": "Ana", "city": "Oslo", "zip": "0150", "consent": True}, {"id": 88}),
            ],
        ),
        Probe(
            "same_question_of_two_users",
            "Five user turns ask for the same thing: each deserves its own look.",
            [call("get_balance", {"account": "A-1"}, {"balance": 120}, user_turn=turn) for turn in range(1, 6)],
        ),
        Probe(
            "attempts_of_a_job",
            "A scheduled job runs five times in one run, each time from the start.",
            [
                call("check_site", {"url": "https://shop.example"}, "all good, 200 in 31 ms", attempt=at)
                for at in range(1, 6)
            ],
        ),
        Probe(
            "parallel_reads",
            "Eight equal reads of one turn are waste at most, no loop.",
            [call("read_file", {"path": "README.md"}, LICENCE, turn=1) for _ in range(8)],
        ),
        Probe(
            "screen_by_screen",
            "Next is clicked and the screen read, and each screen is another question.",
            [
                row
                for at, city in enumerate(CITIES)
                for row in (call("click", {"button": "next"}, "clicked"), call("read_screen", {}, f"Q{at}: {city}?"))
            ],
        ),
    ]


def _not_there() -> list[Probe]:
    hosts = [fail("ssh", {"host": f"h{at}", "cmd": "uptime"}, "connection timed out") for at in range(1, 5)]
    columns = ("total", "amount", "price", "sum", "cost", "value")
    packages = ("numbers", "lists", "trees", "graphs", "paths", "heaps")
    return [
        Probe(
            "domains_that_are_free",
            "Names are tried one by one: that nobody holds them is the answer looked for.",
            [call("whois", {"domain": f"{name}.example"}, "No match for domain.") for name in CITIES[:6]],
        ),
        Probe(
            "names_that_are_free",
            "The same where the tool fails for a name that nobody holds.",
            [fail("get_user", {"login": f"u{at}"}, "404 not found") for at in range(6)],
        ),
        Probe(
            "files_of_a_project",
            "The file that says how a project is built goes by several names.",
            [
                *[fail("read_file", {"path": path}, "file not found") for path in ("setup.py", "setup.cfg", "tox.ini")],
                fail("read_file", {"path": "Pipfile"}, "file not found"),
                call("read_file", {"path": "pyproject.toml"}, "[project]"),
            ],
        ),
        Probe(
            "programs_that_are_missing",
            "Which of several programs is there? The shell says nothing but that one is not.",
            [
                *[
                    fail("shell", {"command": f"which {name}"}, "exit code 1")
                    for name in ("rg", "ag", "ack", "fd", "ug")
                ],
                call("shell", {"command": "which grep"}, "/usr/bin/grep"),
            ],
        ),
        Probe(
            "hosts_that_are_down",
            "Four hosts of a list do not answer, others do.",
            [*hosts, call("ssh", {"host": "h5", "cmd": "uptime"}, "up 12 days")],
        ),
        Probe(
            "columns_guessed",
            "A column is guessed at, and each complaint names the column that is not there.",
            [
                fail("sql", {"q": f"show {name} of all orders joined with users"}, f"column {name} does not exist")
                for name in columns
            ],
        ),
        Probe(
            "packages_that_are_missing",
            "Packages are tried one after the other, and each failure names its own.",
            [
                fail(
                    "shell",
                    {"command": f"pip install {name} and run the tests again with python"},
                    f"ERROR: could not find a version that satisfies the requirement {name}",
                )
                for name in packages
            ],
        ),
        Probe(
            "key_pressed_on",
            "A key is pressed four times to get to a field; the tool says that it was pressed.",
            [
                *[call("press_key", {"key": "Tab"}, "Pressed key Tab")] * 4,
                call("press_key", {"key": "Enter"}, "Pressed key Enter"),
            ],
        ),
        Probe(
            "scrolled_down",
            "A page is scrolled four times and then read.",
            [
                *[call("scroll", {"by": 500}, "Scrolled down 500 pixels")] * 4,
                call("read_screen", {}, "Terms and conditions, section 12"),
            ],
        ),
    ]


def _edit_and_test(edited: object, tested: object) -> list[Row]:
    return [
        row
        for edit in _EDITS
        for row in (call("edit", {"path": "app.py", "change": edit}, edited), call("run_tests", {}, tested))
    ]


def probes() -> Sequence[Probe]:
    """Every healthy probe."""
    return (*_waiting(), *_many_items(), *_reading(), *_work(), *_not_there())
