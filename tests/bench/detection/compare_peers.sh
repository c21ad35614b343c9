#!/usr/bin/env bash
# Runs the public detectors of peers.py in a throw-away environment and writes what they found to peers.json.
# They are installed without their own dependencies: the detectors need none, and nothing here needs a model.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

python3 -m venv "$work/venv"
for package in runbound==0.11.2 trajectory-fuse==0.3.0 unwedge==0.2.0 loopguard-runtime==0.2.1 agent-budget-guard==0.2.0; do
  "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$package" ||
    echo "not installable: $package" >&2
done
# In an empty folder, so that nothing of this repository can be imported.
(cd "$work" && venv/bin/python "$here/peers.py" "$here/../../fixtures/runs/calls.jsonl") >"$work/peers.json"
python3 -m json.tool --indent 1 "$work/peers.json" >"$here/peers.json"
