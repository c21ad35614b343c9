"""Failures told apart, and what short texts amount to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from otel_loopguard.model import ErrorCategory
from otel_loopguard.policy import ErrorRules
from otel_loopguard.policy.error_rules import first_line

RULES = ErrorRules()

ERROR_TEXTS = [
    "Error: user not found",
    "ERROR:\nNo replacement was performed",
    "error: something went wrong",
    "Error executing query: Table 'shops' doesn't exist",
    "Error 404",
    "Error: 404",
    "HTTP error 503",
    "Error executing tool get_options: 2 validation errors for get_options",
    "An error occurred while reading the file",
    "Internal server error: try again",
    "Syntax error: unexpected token",
    "ValueError: invalid literal",
    "sqlite3.OperationalError: no such table: boats",
    "KeyError('id')",
    "TimeoutError",
    "Traceback (most recent call last):\n  File ...\nKeyError: 'id'",
    "Exception: boom",
    "Failed to open the file",
    "failed",
    "Failed: the disk is full",
    "Request failed with status code 500",
    "Tool execution failed",
    "Request timed out",
    "invalid characters in expression",
    "Invalid order id",
    "Connection refused",
    "connect ECONNREFUSED: connection refused",
    "Cannot open the file",
    "Could not connect to the server",
    "Unable to reach the host",
    "No such file or directory",
    "bash: ponyc: command not found",
    "/bin/sh: 1: cd: can't cd to /data/x\nmake: *** [build] Error 2",
    "strings: 'flash.img': No such file",
    "/data/files/*: cannot open `/data/files/*' (No such file or directory)",
    "grep: invalid option -- 't'\nUsage: grep [OPTION]...",
    "Tool x generated an exception: Unknown tool",
    "Error: none of the files match",
    "fatal: not a git repository",
    "XMLSyntaxError: mismatched tag",
    "\n  \n Error: user not found \r\nsee the log",
]

NOT_ERROR_TEXTS = [
    "",
    "   \n  ",
    "ok",
    "2 failed",
    "0 failed, 12 passed",
    "failed: 0, passed: 12",
    "Failed: 3, passed: 9",
    "1 failed, 3 passed in 0.2s",
    "12 tests failed",
    "Tests failed: 2",
    "Build failed",
    "no errors found",
    "No errors.",
    "0 errors, 0 warnings",
    "Errors: 0",
    "errors: none",
    "error: null",
    "Error: none",
    "completed without errors",
    "finished with no exceptions",
    "Error handling guide",
    "Error codes of the device",
    "Error rate: 0.1%",
    "error rate 12 %",
    "Standard error: 0.05 (n=20)",
    "Mean absolute error: 0.12",
    "The margin of error is 3 points",
    "Exceptional service award",
    "Failure modes of concrete bridges",
    "Invalid votes: 312",
    "Users cannot delete their own account; ask an administrator.",
    "The treasure was never found and cannot be found.",
    "Refused classification ratings in film",
    "She could not have known that the letter was lost.",
    '{"error": "not found"}',
    "[Error: x]",
    "level kept",
    "29:DECL(pattern);",
    "He threw himself into exceptional work",
    "x" * 2001,
    "Error: " + "x" * 2000,
]


@pytest.mark.parametrize("text", ERROR_TEXTS)
def test_a_text_that_says_a_call_failed_is_an_error(text: str) -> None:
    """The first line of a short text is enough to know a failure that no status tells."""
    assert RULES.is_error_text(text)


@pytest.mark.parametrize("text", NOT_ERROR_TEXTS)
def test_a_text_that_only_names_errors_is_none(text: str) -> None:
    """Counts, titles, prose, JSON and long text are answers: reading them as failures would make them look equal."""
    assert not RULES.is_error_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "No results",
        "no results found",
        "no match",
        "No matches found for your query",
        "Not found",
        "File not found: a.txt",
        "0 results",
        "Nothing found",
        "Could not find that page, please try again.",
        "Record 17 does not exist",
        "No matching documents",
    ],
)
def test_a_short_text_that_found_nothing(text: str) -> None:
    """Short texts of the built-in list are `not_found`."""
    assert RULES.is_not_found(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no errors found",
        "no problems",
        "No files were changed",
        "found 3 matches",
        '{"m": "not found"}',
        '  {"m": "not found"}',
        '["not found"]',
        "the answer is 17\nnot found",
        "not found" * 30,
    ],
)
def test_a_text_that_found_something_or_says_much(text: str) -> None:
    """Other texts, JSON and long ones are not `not_found`."""
    assert not RULES.is_not_found(text)


def test_the_owner_adds_words_for_nothing_found() -> None:
    """The policy's list comes on top of the built-in one and ignores letter case."""
    rules = ErrorRules(not_found=("rien", "leer"))
    assert rules.is_not_found("RIEN")
    assert not rules.is_not_found("Ergebnis: 17")
    assert not rules.is_not_found('["leer"]')
    assert rules.is_not_found("leer" + " " * 196)
    assert not rules.is_not_found("leer" + " " * 197)
    assert rules.is_not_found("Ergebnis: LEER")
    assert rules.is_not_found("no results")
    assert not RULES.is_not_found("Ergebnis: LEER")


@pytest.mark.parametrize(
    "text",
    ["ok", "OK.", "Done!", "stored", "applied", "✅ Saved", "note stored", "Transfer successful", "Saved successfully",
     "Successfully saved file", "Your thought has been logged.", "200 OK", "okay", "File created."],
)  # fmt: skip
def test_a_bare_acknowledgement(text: str) -> None:
    """A text that says no more than that it was done."""
    assert RULES.is_ack(text)


@pytest.mark.parametrize(
    "text",
    ["", "not ok", "not saved", "nothing was saved", "created or exists", "done part1", "level kept", "use metric",
     "all passed", "id=7; saved", "already deleted", "2 failed", "failed", "pending", "running", "queued",
     "the new note file has been saved now stored",
     "The contract was created in 1907 and has been stored"],
)  # fmt: skip
def test_a_text_that_says_more_than_done(text: str) -> None:
    """States, denials and content are no acknowledgements."""
    assert not RULES.is_ack(text)


@pytest.mark.parametrize(
    "text",
    ["Clicked Next", "clicked", "Scrolled down 500 pixels", "Pressed key Tab", "slept 10 s", "toggled", "typed 'hello'",
     "Undid last change", "Waited for 10 seconds.", "Clicked element [12]", "OK, clicked Next", "Done: toggled",
     "Moved forward 10", "Opened the page", "done, restarted worker", "Successfully transferred to worker",
     "Pressed the keys a b c d e"],
)  # fmt: skip
def test_an_action_in_the_past_tense_is_an_acknowledgement(text: str) -> None:
    """A tool that says what it was told to do says no more than "ok"."""
    assert RULES.is_ack(text)


@pytest.mark.parametrize(
    "text",
    ["shipped", "delivered", "closed", "started", "enabled", "Sent to Ana", "Set to 21", "Transferred to courier",
     "Updated 5 minutes ago", "Closed Sunday", "not clicked", "failed to click", "Clicked but nothing happened",
     "Clicked Next: 3 results", "Clicked Next. Page 3 is open", "Clicked. Page opened", "Clicked 14 times",
     "Scrolled 3 of 9", "scrolled 3 9", "Waited 10 s, still pending", "Waited until it was ready", "timed out",
     "Volume up", "United Airlines", "Expected 3 rows", "Typed\nhello", "Moved house",
     "Pressed the keys a b c d e f"],
)  # fmt: skip
def test_a_state_is_no_acknowledgement(text: str) -> None:
    """A participle that may be the state of a thing asked about is an answer, and so is what came of an action."""
    assert not RULES.is_ack(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Access denied by shield. Reference hidden.", ErrorCategory.PERMISSION),
        ("denied: needs approval, none available", ErrorCategory.PERMISSION),
        ("Permission denied (publickey)", ErrorCategory.PERMISSION),
        ("user is not authorized to do this", ErrorCategory.PERMISSION),
        ("Error: order not found", ErrorCategory.NOT_FOUND),
        ("open a.txt: no such file or directory", ErrorCategory.NOT_FOUND),
        ("Table 'x' doesn't exist", ErrorCategory.NOT_FOUND),
        ("arguments must be an object", ErrorCategory.VALIDATION),
        ("got an unexpected keyword argument 'email'", ErrorCategory.VALIDATION),
        ("2 validation errors for options", ErrorCategory.VALIDATION),
        ("Invalid argument: count", ErrorCategory.VALIDATION),
        ("12:01:11 connect to box port 22: timed out (try 37)", ErrorCategory.UNKNOWN),
        ("service temporarily unavailable, 503", ErrorCategory.UNKNOWN),
        ("token expired", ErrorCategory.PERMISSION),
        ("all good\npermission denied", ErrorCategory.UNKNOWN),
        ("", ErrorCategory.UNKNOWN),
    ],
)
def test_the_category_of_an_error_text(text: str, expected: ErrorCategory) -> None:
    """Narrow lists on the first line; a time-out or an outage is never transient by itself (C03)."""
    assert expected is RULES.categorise(error_type=None, text=text)


@pytest.mark.parametrize(
    ("error_type", "status", "expected"),
    [
        ("PermissionError", None, ErrorCategory.PERMISSION),
        ("builtins.FileNotFoundError", None, ErrorCategory.NOT_FOUND),
        ("NOT_FOUND", None, ErrorCategory.NOT_FOUND),
        ("pydantic_core.ValidationError", None, ErrorCategory.VALIDATION),
        ("INVALID_ARGUMENT", None, ErrorCategory.VALIDATION),
        ("404", None, ErrorCategory.NOT_FOUND),
        ("ToolError", 403, ErrorCategory.PERMISSION),
        ("ToolError", 422, ErrorCategory.VALIDATION),
        ("429", None, ErrorCategory.UNKNOWN),
        ("TimeoutError", 503, ErrorCategory.UNKNOWN),
        (None, None, ErrorCategory.UNKNOWN),
    ],
)
def test_the_category_of_a_type_or_status(error_type: str | None, status: int | None, expected: ErrorCategory) -> None:
    """Types and codes say what they say; none is transient unless declared."""
    assert expected is RULES.categorise(error_type=error_type, text=None, status=status)


@pytest.mark.parametrize("error_type", ["EOF", "abc", "0404", "40", "4040", "a.b", "", "1e5"])
def test_a_type_that_is_no_status_code(error_type: str) -> None:
    """Only three digits are a code: a short name, or more digits, says nothing and breaks nothing."""
    assert ErrorCategory.UNKNOWN is RULES.categorise(error_type=error_type, text=None)


def test_a_status_code_stands_before_type_and_text() -> None:
    """The status is the surest; then the type; then the first line, however much blank space stands before it."""
    assert ErrorCategory.PERMISSION is RULES.categorise(error_type="NOT_FOUND", text="invalid argument: n", status=403)
    assert ErrorCategory.NOT_FOUND is RULES.categorise(error_type="NOT_FOUND", text="permission denied", status=599)
    assert ErrorCategory.PERMISSION is RULES.categorise(error_type="X", text=" " * 2_000 + "permission denied")


@pytest.mark.parametrize(
    ("judge", "text", "most"),
    [
        (RULES.is_error_text, "Error: user not found\n", 2_000),
        (RULES.is_error_text, "Connection refused\n", 300),
        (RULES.is_not_found, "no results\n", 200),
        (RULES.is_ack, " saved", 48),
    ],
)
def test_up_to_which_length_a_text_is_judged(judge: Callable[[str], bool], text: str, most: int) -> None:
    """At the bound a text may still say so; one character more and it is content."""
    padding = "x" * (most - len(text))
    told = padding + text if judge == RULES.is_ack else text + padding
    assert (most, True) == (len(told), judge(told))
    assert not judge("x" + told if judge == RULES.is_ack else told + "x")


def test_how_many_words_an_acknowledgement_has() -> None:
    """Six words may still be no more than that it was done."""
    assert RULES.is_ack("your two new notes got saved")
    assert not RULES.is_ack("your two very new notes got saved")


def test_what_the_first_line_is() -> None:
    """Blank lines before it and blanks around it do not count, and neither does what lies past its bound."""
    assert "a b" == first_line("\n \n  a b \t\nc\nd")
    assert "x" * 300 == first_line("x" * 301)
    assert "" == first_line(" \n ")


def test_transient_is_what_the_owner_declares() -> None:
    """Digits match a code exactly, other entries a type exactly or text inside the message."""
    rules = ErrorRules(transient=("429", "TimeoutError", "try again later"))
    transient = ErrorCategory.TRANSIENT
    assert transient is rules.categorise(error_type="429", text=None)
    assert transient is rules.categorise(error_type="HTTPError", text=None, status=429)
    assert transient is rules.categorise(error_type="asyncio.TimeoutError", text=None)
    assert transient is rules.categorise(error_type=None, text="Busy, Try Again Later.")
    assert transient is rules.categorise(error_type=None, text="not found; try again later")
    assert transient is ErrorRules(transient=("Try Again",)).categorise(error_type=None, text="please TRY AGAIN")
    assert transient is ErrorRules(transient=("4290",)).categorise(error_type="4290", text=None)
    assert transient is ErrorRules(transient=("a.TimeoutError",)).categorise(error_type="a.TimeoutError", text=None)
    assert transient is not rules.categorise(error_type=None, text="429 rows were invalid")
    assert transient is not rules.categorise(error_type="4290", text=None)
    assert transient is not rules.categorise(error_type="MyTimeoutErrorish", text=None)


def test_no_text_costs_more_than_its_first_line() -> None:
    """A megabyte of text is looked at only at its start."""
    text = ": " * 150 + "a" * 1_000_000
    assert not RULES.is_error_text(text)
    assert not RULES.is_not_found(text)
    assert not RULES.is_ack(text)
    assert ErrorCategory.UNKNOWN is RULES.categorise(error_type=None, text=text)


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("429", ErrorCategory.TRANSIENT),
        ("429 Too Many Requests", ErrorCategory.TRANSIENT),
        ("HTTP 429", ErrorCategory.TRANSIENT),
        ("HTTP/1.1 429 Too Many Requests", ErrorCategory.TRANSIENT),
        ("Error code: 429 - rate limited", ErrorCategory.TRANSIENT),
        ("Request failed with status code 429", ErrorCategory.TRANSIENT),
        ("429 rows were invalid", ErrorCategory.UNKNOWN),
        ("order 429 is late", ErrorCategory.UNKNOWN),
        ("status 4290", ErrorCategory.UNKNOWN),
        ("404 Not Found", ErrorCategory.NOT_FOUND),
    ],
)
def test_a_status_code_that_a_text_names(text: str, category: ErrorCategory) -> None:
    """Call records and status messages have no place for a code but their text."""
    assert category is ErrorRules(transient=("429",)).categorise(error_type=None, text=text)
