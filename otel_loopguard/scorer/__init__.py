"""The scorer: receives OTLP, keeps what it acknowledges, judges runs, and says what it found.

Invariants: nothing is acknowledged that is not on disk; content of a span is digested on arrival and never kept; a
run counts once. Its parts hand each other the records of `records`, and `app` puts them together.
"""
