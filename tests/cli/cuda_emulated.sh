#!/bin/bash
# Commands on the CUDA backend from end to end, on the emulator: the checks of verify, and a sweep in parts as gpu_check.sh
# makes it, with ceilings measured, steps traced and what is absent said.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

emulated=$(dirname "$KVBENCH")/tests/cuda/kvbench-emulated
if [ ! -x "$emulated" ]; then
    skip 'commands on the emulator' 'it is built where the CUDA toolkit is (make check)'
    finish
fi

if [ -z "${KVBENCH_SANITIZED:-}" ]; then # it takes long
    run 0 'verify' "$emulated" verify --model tests/golden/qwen3 --backend cuda --kv bf16
    out '^19 checks, 0 failed'
fi

cat >"$WORK/parts.json" <<'END'
{"name": "parts", "model": "tests/golden/qwen3/config.json", "backend": "cuda", "hardware": "auto", "weights": ["bf16"],
 "compute": "bf16", "decode": {"batch": [1, 20], "context": [65], "kv": ["bf16", "int8"], "block": [64]},
 "prefill": {"batch": [1], "tokens": [64], "block": [64]}, "samples": 3, "seconds": 1, "budget_s": 45}
END
part() { # WHAT KEYS
    run 0 "a sweep in parts: $1" "$emulated" sweep "$WORK/parts.json" --out "$WORK/results" --resume --filter "$2" --quiet
}
part 'decode' 'decode/.*/kv-bf16'
part 'int8 KV' 'decode/.*/kv-int8'
part 'prefill' prefill
rows=$(cut -d, -f1 "$WORK/results/parts.csv" | sort | tr '\n' ' ')
is 'all parts are in one result' "$rows" "decode/b1/c65/bf16/kv-bf16/blk64 decode/b1/c65/bf16/kv-int8/blk64 \
decode/b20/c65/bf16/kv-bf16/blk64 decode/b20/c65/bf16/kv-int8/blk64 key prefill/b1/p64/bf16/kv-bf16/blk64 "
is 'the device has its ceilings' "$(grep -c '"title":[[:space:]]*"emulated GPU"' "$WORK/results/ceilings-cuda0.json")" 1
is 'each says how it was traced' "$(grep -c 'traces: launches one by one, by events' "$WORK/results/parts.csv")" 5
is 'operations are named by kernels' "$(cut -d, -f10 "$WORK/results/parts.ops.csv" | sort -u | grep -cxE 'attn|linear|qkv|gate\+up\+act|add\+norm')" 5
finish
