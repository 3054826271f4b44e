#!/bin/bash
# Verdicts, traces and the doctor from the outside. Nothing here depends on how quiet the machine is: tools/tamper.sh does.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

tiny=(--model tests/golden/qwen3 --samples 3 --seconds 0.1 --quiet)
run 0 'a model that sits in caches is not called limited by main memory' "$KVBENCH" run "${tiny[@]}" --context 64 -p 0 --json
out '"codes":.*cache-resident'
out '"page_faults":'
out '"absent":'
run 4 '--fail-on' "$KVBENCH" run "${tiny[@]}" --context 64 -p 0 --fail-on over-bound,cache-resident
err '1 of 1 points.*--fail-on.*cache-resident.*stay in caches'
one_err
run 0 '--fail-on a code no point has' "$KVBENCH" run "${tiny[@]}" --context 64 -p 0 --fail-on over-bound
run 2 '--fail-on a code there is not' "$KVBENCH" run "${tiny[@]}" --fail-on loud
err "unknown code 'loud'.*contended"
one_err

mkdir "$WORK/r"
echo '{"name": "t", "model": "tests/golden/qwen3", "samples": 3, "seconds": 0.1, "hardware": "h100-sxm",
  "decode": {"context": [8, 24]}}' >"$WORK/t.json"
run 0 'a traced point' "$KVBENCH" sweep "$WORK/t.json" --out "$WORK/r" --trace c24 --quiet
grep -q '"cat": "span"' "$WORK/r/t.trace.json" || complain 'no span in it'
grep -q '"context": 24' "$WORK/r/t.trace.json" || complain 'another point'
if command -v python3 >/dev/null; then
    run 0 'its trace is JSON, with three steps and what each span moves' python3 -c '
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
steps = [e for e in events if e.get("cat") == "step"]
spans = [e for e in events if e.get("cat") == "span"]
assert len(steps) == 3 and len(spans) > 30
assert all(e["args"]["weight_bytes"] >= 0 and e["args"]["flops"] >= 0 and e["args"]["kernel"] for e in spans)
assert any(e["args"]["kv_read_bytes"] > 0 for e in spans) and all(e["dur"] >= 0 for e in steps + spans)' "$WORK/r/t.trace.json"
else
    skip 'the trace read by another program' 'python3 is not installed'
fi
run 2 'a trace of several points' "$KVBENCH" sweep "$WORK/t.json" --out "$WORK/r" --trace decode --dry-run
err "'decode' fits 2 points"
one_err
run 0 'a new sweep' "$KVBENCH" sweep "$WORK/t.json" --out "$WORK/r" --quiet
is 'moves the old trace away' "$(cd "$WORK/r" && find . -name '*.trace.json' | sed 's/-[0-9TZ]*\././')" './old/t.trace.json'

run 0 'kvbench doctor' "$KVBENCH" doctor
out '^hardware counters'
out 'ok, .* could be better, .* prevent something'
mkdir -p "$WORK/root/sys/kernel/mm/transparent_hugepage"
echo 'always madvise [never]' >"$WORK/root/sys/kernel/mm/transparent_hugepage/enabled"
run 0 'kvbench doctor on a machine made up' "$KVBENCH" doctor --root "$WORK/root"
out '^transparent huge pages *could be better *never'
out 'mend: echo madvise'
run 0 'kvbench doctor --json' "$KVBENCH" doctor --json
out '"subject":.*"CPU governor"'
run 0 'what measuring costs' "$KVBENCH" doctor --harness --model tests/golden/qwen3
out 'measuring costs .* us'
out 'tracing costs'
finish
