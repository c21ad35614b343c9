"""Reads spans of every known dialect: one ordered registry, one function.

Invariants: reading is a pure function of one span and never raises.
"""

from __future__ import annotations
