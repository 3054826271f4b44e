#!/bin/bash
# predict and list: the roofline of any hardware of the catalogue, without measuring.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

run 0 'Llama-3-70B on four H100' \
    "$KVBENCH" predict --model llama-3-70b --hardware h100-sxm --tp 4 --batch 32 --context 8192 --json
out '"roof_ns":'
out '"bound_ns":'
out '"tp":[[:space:]]*4'
run 0 'every point of h100.json' "$KVBENCH" predict configs/h100.json
run 0 'every point of h200.json, as JSON' "$KVBENCH" predict configs/h200.json --json
out '"bound_ns":'
run 0 'flags of llama-bench' "$KVBENCH" predict --model qwen3-0.6b --hardware h100-sxm -p 512,1024 -n 1 -d 128 -b 1,4
run 0 'a row per operation' "$KVBENCH" predict --model qwen3-0.6b --hardware h100-sxm --batch 1 --context 64 --ops
out 'ffn_down'
out 'attn_q\+attn_k\+attn_v +qkv '
out 'qk_norm\+rope\+kv_write'
run 0 'the kernels of a CUDA device for h200.json' "$KVBENCH" predict configs/h200.json --ops
out 'gate\+up\+act'
out 'rope\+kv_write'
run 0 'the kernels of a CPU' "$KVBENCH" predict --model qwen3-0.6b --hardware xeon-8480 --batch 1 --context 64 --ops
out 'norm\+qkv'
run 0 'several models and machines, and a table of them' "$KVBENCH" predict --model smollm2-135m,qwen3-0.6b \
    --hardware h100-sxm,l40s -p 512 -n 64 --out "$WORK/p.csv"
out 'smollm2-135m on H100 SXM'
out 'qwen3-0.6b on L40S.*roof at datasheet'
out 'context 1, 64 steps'
is 'a row per point and machine, and a header' "$(wc -l <"$WORK/p.csv" | tr -d ' ')" 9
run 0 'a batch alone asks for a decode step' "$KVBENCH" predict --model smollm2-135m --hardware h100-sxm --batch 16
out '^decode'
! grep -q '^prefill' "$WORK/out" || complain 'it printed a prefill'
run 0 'k is 1024, and one KV type leaves the other' "$KVBENCH" predict --model smollm2-135m --hardware h100-sxm -c 32k -ctk int8
out 'context 32768 +int8:bf16'
run 2 'an unknown model names the nearest' "$KVBENCH" predict --model llama-3-9b --hardware h100-sxm --context 64
err "'llama-3-9b'.*llama-3-8b"
one_err
run 2 'unknown hardware names the nearest' "$KVBENCH" predict --model llama-3-8b --hardware h100-sxn --context 64
err "'h100-sxn'.*h100-sxm"
one_err
run 3 'ranks that do not divide the heads' "$KVBENCH" predict --model llama-3-8b --hardware h100-sxm --tp 3 --context 64
one_err

run 0 'list models' "$KVBENCH" list models
out '^ *qwen3-0.6b'
out '^name +ok +what$'
run 0 'list only what can be used' "$KVBENCH" list models --supported
! grep -q '  no   ' "$WORK/out" || complain 'it lists what cannot be used'
run 0 'models as data' "$KVBENCH" list models --json
out '"kv_bytes_per_token":[[:space:]]*[0-9]'
run 0 'list hardware' "$KVBENCH" list hardware
out 'TFLOP/s in bf16'
out '^ *h100-sxm'
run 0 'list hardware as JSON' "$KVBENCH" list hardware --json
out '"h100-sxm"'
run 0 'list families' "$KVBENCH" list families
out '^gemma3 .*Gemma3ForCausalLM; GGUF gemma3'
run 0 'list formats' "$KVBENCH" list formats
out '^q4_k .*4.5 bits; GGUF files'
out '^fp8 .*Hugging Face folders'
run 0 'list backends' "$KVBENCH" list backends
out 'cpu'
out 'null'
run 2 'list something else' "$KVBENCH" list planets
err "'planets'"
one_err
finish
