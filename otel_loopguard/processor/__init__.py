"""What runs inside the application: digests tool calls and removes content before anything leaves the process.

Invariants: nothing of ours raises into the application; what could not be done is counted.
"""
