"""Every attribute name that this package reads or writes.

One section a namespace. Dialects read their names from here and nowhere else.
"""

from __future__ import annotations

from typing import Final

# --- loopguard.* (contract version 1, DESIGN 2): written by the processor, read by the scorer ----------
SCHEMA: Final = "loopguard.schema"
RUN_ID: Final = "loopguard.run.id"
PRODUCER_ID: Final = "loopguard.producer.id"
CALL_SEQUENCE: Final = "loopguard.call.sequence"
CALL_STARTED: Final = "loopguard.call.started"
TURN_ID: Final = "loopguard.turn.id"
AGENT_ID: Final = "loopguard.agent.id"
CALL_DIGEST: Final = "loopguard.call.digest"
RESULT_DIGEST: Final = "loopguard.result.digest"
STATE_DIGEST: Final = "loopguard.state.digest"
IDEMPOTENCY_DIGEST: Final = "loopguard.idempotency.digest"
BUSINESS_DIGEST: Final = "loopguard.business.digest"
CALL_UNKNOWN: Final = "loopguard.call.unknown"
RESULT_UNKNOWN: Final = "loopguard.result.unknown"
KEY_ID: Final = "loopguard.key.id"
CONTRACT: Final = "loopguard.contract"
POLICY: Final = "loopguard.policy"
TOOL_EFFECT: Final = "loopguard.tool.effect"
TOOL_PATTERN: Final = "loopguard.tool.pattern"
OUTCOME: Final = "loopguard.outcome"
ERROR_CATEGORY: Final = "loopguard.error.category"
RESULT_CLASS: Final = "loopguard.result.class"
DENIED_BY: Final = "loopguard.denied_by"
PROGRESS: Final = "loopguard.progress"
PROGRESS_RULE: Final = "loopguard.progress.rule"
TERMINAL: Final = "loopguard.terminal"
NEW_ITEMS: Final = "loopguard.new_items"
REPEAT_COUNT: Final = "loopguard.repeat.count"
FINDING: Final = "loopguard.finding"
REQUESTED_CALL_IDS: Final = "loopguard.requested_call_ids"
RUN_CALLS: Final = "loopguard.run.calls"
TERMINATION_REASON: Final = "loopguard.termination_reason"
TERMINAL_RESPONSE: Final = "loopguard.terminal_response"
DECISION_ACTION: Final = "loopguard.action"
DECISION_ENFORCED: Final = "loopguard.enforced"
DECISION_REASON: Final = "loopguard.reason"
DECISION_SPAN: Final = "loopguard.decision"
RUN_END_SPAN: Final = "loopguard.run_end"

# --- gen_ai.*, error.*, mcp.* and the frameworks' own dialects (dialects: gen_ai and natives) ---------

# --- OpenInference, OpenLLMetry, logfire, LangSmith (dialects: instrumentation libraries) ---------------
