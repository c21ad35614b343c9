"""Finds out from OpenTelemetry spans that an AI agent is stuck repeating tool calls.

Nothing is imported here, so that a process pays only for the parts it uses. Begin with `policy` (what the owner
declares), `files` (reading spans and call records) and `replay` (verdicts); `model` holds the vocabulary.
"""
