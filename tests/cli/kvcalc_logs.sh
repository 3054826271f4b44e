#!/bin/bash
# kvcalc against engine logs: check, explain; and compare, sweeps, break points, ranks, refusals.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh
CASES=../shared/data/kv_capacity_cases.csv
LOGS=tests/golden/logs

number() { json_number "$1" <"$WORK/out"; }
equals() { [ "$(number "$1")" = "$2" ] || complain "$1 is $(number "$1"), expected $2"; }

if [ -e "$CASES" ]; then
    run 0 'check: the logged cases' "$KVCALC" check "$CASES"
    out '118 rows'
    out '51 of 51 concurrency lines exact'
    out '^C139 .* 6644016 +6644016 tokens .* exact'
    out '^C061 .* 66112 +66112 tokens .* exact'
    out '^C127 .*differs: .*GiB less than available_kv_GiB'
    out '^C006 .*not computable: the rank with the least memory decided'
    out '^C037 .*not computable: kv_tokens is missing'
    out '^C172 .*not computable: the attention of .* is missing'
    run 0 'check: as JSON' "$KVCALC" check "$CASES" --json
    out '"passes":.*true'
else
    skip 'check: the logged cases' "$CASES is not there"
fi
cat >"$WORK/cases.csv" <<'END'
id,engine,version,model,tp,kv_dtype,block_size,max_model_len,available_kv_GiB,kv_tokens,max_concurrency,notes,v_rule,v_layers,v_kv_heads,v_head_dim,v_bytes,v_expect_bytes_per_token
A,vLLM,0.9,unknown-model,1,bf16,16,20000,3.81,31232,1.56,"three, of a quoted note",kv,32,8,128,2,1
B,vLLM,0.9,llama-3-8b,1,bf16,16,,3.81,41232,,off by a third,,,,,,
C,vLLM,0.9,no-such-model,1,bf16,16,,3.81,31232,,,,,,,,
D,vLLM,0.24.0,Qwen3.6-35B-A3B (NVFP4),1,fp8,,131072,6.01,569878,4.35,,,,,,,
END
run 1 'check: a table of its own with a row that is wrong' "$KVCALC" check "$WORK/cases.csv"
out '^A .* exact'
out '^B .*differs'
out "^C .*not computable: the attention of 'no-such-model' is missing"
out '^D .* exact +4.35x = 4.35x'
out '^4 rows: 1 lack facts; of 3 computable 2 agree'
run 2 'check: no table' "$KVCALC" check README.md
one_err
run 2 'check: no such file' "$KVCALC" check nowhere.csv
one_err
run 2 'check: one table is expected' "$KVCALC" check
one_err

run 0 'explain: vLLM, all figures agree' "$KVCALC" explain $LOGS/vllm-0.11.log --weights fp8
out 'agrees +KV cache size +printed 334864, computed 334864'
out 'agrees +maximum concurrency'
out 'agrees +weights of a rank'
run 0 'explain: the words of an older vLLM' "$KVCALC" explain $LOGS/vllm-0.6.log --model llama-3.1-8b
out 'agrees +memory for KV +printed 3.81, computed 3.81'
out 'printed 31232, computed 31232'
run 0 'explain: a refusal to start' "$KVCALC" explain $LOGS/vllm-refused.log --model qwen3-30b-a3b
out 'needed for one request +printed 24.00, computed 24.00'
out 'printed 34736, computed 34736'
run 0 'explain: TensorRT-LLM' "$KVCALC" explain $LOGS/trtllm.log --model llama-2-7b --kv fp8
out 'printed 259840, computed 259840'
run 0 'explain: llama.cpp' "$KVCALC" explain $LOGS/llamacpp.log
out 'KV buffer +printed 1.00, computed 1.00'
run 1 'explain: SGLang, whose weights take more than the rule says' "$KVCALC" explain $LOGS/sglang.log --weights fp8
out 'agrees +KV cache size +printed 367404'
out 'differs +weights of a rank .*\+[0-9]+ bytes'
sed 's/334,864/344,864/' $LOGS/vllm-0.11.log >"$WORK/wrong.log"
run 1 'explain: the term that differs, in bytes' "$KVCALC" explain "$WORK/wrong.log" --weights fp8
out 'differs +KV cache size .*bytes'
run 0 'explain: as JSON' "$KVCALC" explain $LOGS/vllm-0.11.log --weights fp8 --json
out '"agrees":.*true'
run 2 'explain: nothing that is a log' "$KVCALC" explain README.md
one_err

run 0 'compare: the handbook'"'"'s two models' "$KVCALC" compare llama-3-8b qwen2.5-7b --gpu h100-sxm,h200-sxm --kv bf16,fp8 --context 4096
out '^llama-3-8b +h100-sxm +bf16 .* 131072 '
out '^qwen2.5-7b +h200-sxm +fp8 .* 28672 '
run 2 'compare: no models' "$KVCALC" compare --gpu h100-sxm --context 4096
one_err
run 0 'a sweep over contexts' "$KVCALC" --model llama-3-8b --gpu h100-sxm --context 3000 --sweep context
out '^ +3000 '
out '^ +8192 '
run 2 'a sweep over something else' "$KVCALC" --model llama-3-8b --gpu h100-sxm --context 3000 --sweep heads
one_err
if command -v gnuplot >/dev/null; then
    run 0 'the sweep as a picture' "$KVCALC" --model llama-3-8b --gpu h100-sxm --context 4096 --sweep batch --plot "$WORK/sweep.svg"
    grep -q '<svg' "$WORK/sweep.svg" || complain 'no picture'
else
    skip 'the sweep as a picture' 'gnuplot is missing'
fi
run 2 'a picture of another kind' "$KVCALC" --model llama-3-8b --gpu h100-sxm --context 4096 --sweep batch --plot "$WORK/sweep.pdf"
one_err

run 0 'break points' "$KVCALC" --model llama-3-70b --gpu h100-sxm --context 8192 --tp 4 --requests 100 --slo-tpot 30 --slo-ttft 2000
out 'tp 8 is the smallest that reaches it'
out 'fp8 \(124\)'
out '5088 is the longest'
out 'a batch of 98 '
run 0 'break points as JSON' "$KVCALC" --model llama-3-70b --gpu h100-sxm --context 8192 --tp 4 --requests 100 --slo-tpot 30 --json
equals tpot_batch 98
run 0 'ranks beyond the KV heads stop helping: 4 and 8 cost the same' "$KVCALC" --model qwen3-235b-a22b --gpu h200-sxm --context 4096 --tp 8 --json
equals kv_bytes_per_token 48128
run 0 'DeepSeek-V3 on 8 H100 leaves no memory for KV' \
    "$KVCALC" --model deepseek-v3 --gpu h100-sxm --context 4096 --tp 8 --weights fp8 --util 1 --engine vllm --json
equals kv_bytes_per_token 70272
[ "$(number kv_high_bytes)" -lt 0 ] || complain 'it does'
run 0 'on 8 H200 it does, and the packed cache is smaller' \
    "$KVCALC" --model deepseek-v3 --gpu h200-sxm --context 4096 --tp 8 --weights fp8 --kv fp8_ds_mla --engine vllm --json
equals kv_bytes_per_token 40016
run 0 'what vLLM would print, in both meanings' \
    "$KVCALC" --model qwen3.5-27b --gpu h200-sxm --context 8192 --max-model-len 32768 --engine vllm --engine-version 0.19
out 'KV cache size'
out 'blocks of one group \(before 0.21\)'
out 'by the engine.s rule'
for engine in sglang trtllm llamacpp; do
    run 0 "the rule of $engine" "$KVCALC" --model gemma-3-27b --gpu h200-sxm --context 8192 --engine $engine
    out "^$engine .* would report"
done
run 2 'an engine it does not know' "$KVCALC" --model llama-3-8b --gpu h100-sxm --context 8192 --engine ollama
one_err
run 0 'pipeline stages, context parallel ranks, attention by requests' \
    "$KVCALC" --model deepseek-v3 --gpu h200-sxm --context 8192 --tp 8 --pp 2 --dcp 8 --weights fp8
out 'pp 2, dcp 8'
run 0 'attention by requests' "$KVCALC" --model deepseek-v3 --gpu h200-sxm --context 8192 --tp 8 --dp-attention --weights fp8 --json
run 0 'the cache of the answer, allocated in the block pool' \
    "$KVCALC" --model llama-3-8b --gpu h100-sxm --context 4096 --verify
err 'equal$'
run 3 'layers that keep less have no table of their own there' "$KVCALC" --model gemma-3-27b --gpu h200-sxm --context 4096 --verify
one_err

echo '{"architectures": ["BloomForCausalLM"]}' >"$WORK/config.json"
run 3 'an unknown architecture is refused by name' "$KVCALC" --model "$WORK/config.json" --gpu h100-sxm --context 64
err 'BloomForCausalLM is not supported'
sed 's/"kv_lora_rank": 512,//' configs/models/deepseek-v3.json >"$WORK/config.json"
run 2 'a fact that is missing is named' "$KVCALC" --model "$WORK/config.json" --gpu h100-sxm --context 64
err "'kv_lora_rank' is missing"

run 0 'the headers of safetensors say the exact bytes of the weights' "$KVCALC" --model tests/golden/llama-bf16 --gpu h100-sxm --context 64 --json
equals weight_bytes 340864
run 0 'a rank holds its share of them' "$KVCALC" --model tests/golden/llama-bf16 --gpu h100-sxm --context 64 --tp 2 --json
[ "$(number weight_bytes)" -lt 180000 ] || complain 'it holds more'

# Every answer under 50 ms of processor time (others may be at work on this machine).
if [ "${KVBENCH_SANITIZED:-0}" = 1 ]; then
    skip 'every answer under 50 ms' 'sanitizers take longer'
else
    TIMEFORMAT='%U %S'
    for question in '--context 4096' '--context 32768 --sweep context' '--context 8192 --requests 64' '--context 8192 --engine vllm'; do
        # shellcheck disable=SC2086
        took=$({ time "$KVCALC" --model deepseek-v3 --gpu h200-sxm --weights fp8 --tp 8 $question >/dev/null; } 2>&1)
        is "an answer takes under 50 ms: $question" "$(awk '{ print ($1 + $2 < 0.05) }' <<<"$took")" 1
    done
fi
finish
