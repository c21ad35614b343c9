"""The scorer's own web page: runs, one run as a timeline, tools, releases and health, each with its JSON beside it.

Invariants: everything that comes from outside is escaped; no script or style stands in a page, and no page asks another
host for anything. Pages only read.
"""
