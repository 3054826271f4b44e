#!/bin/bash
# Bad input ends in one clear line and the right exit status, never in a crash and never with results lost.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

scenario() { # NAME JSON
    printf '%s\n' "$2" >"$WORK/$1.json"
    echo "$WORK/$1.json"
}
refused() { # NAME JSON REGEX...: a scenario that sweep refuses
    run 2 "$1" "$KVBENCH" sweep "$(scenario bad "$2")" --out "$WORK/results"
    one_err
    no_out
    shift 2
    for regex in "$@"; do err "$regex"; done
    [ ! -e "$WORK/results/bad.jsonl" ] || complain 'it left results'
}
refused 'an unknown key names the nearest' '{"name": "bad", "model": "qwen3-0.6b", "sample": 3}' "'sample'" "'samples'"
refused 'an unknown key of a section' '{"name": "bad", "model": "qwen3-0.6b", "decode": {"batches": [1]}}' "'batches'" "'batch'"
refused 'a text where a number belongs' '{"name": "bad", "model": "qwen3-0.6b", "samples": "many"}' samples
refused 'an empty list' '{"name": "bad", "model": "qwen3-0.6b", "decode": {"batch": [], "context": [64]}}' batch
refused 'a negative batch' '{"name": "bad", "model": "qwen3-0.6b", "decode": {"batch": [-1], "context": [64]}}' batch
refused 'no model' '{"name": "bad", "decode": {"batch": [1], "context": [64]}}' model
refused 'an unknown model' '{"name": "bad", "model": "qwen3-0.7b", "decode": {"batch": [1], "context": [64]}}' "qwen3-0.6b"
refused 'unknown hardware' '{"name": "bad", "model": "qwen3-0.6b", "hardware": "h100-sxn", "decode": {"batch": [1], "context": [64]}}' h100-sxm
refused 'an unknown KV type' '{"name": "bad", "model": "qwen3-0.6b", "decode": {"batch": [1], "context": [64], "kv": ["int9"]}}' int9
refused 'text after the JSON' '{"name": "bad", "model": "qwen3-0.6b"} x' bad.json
refused 'a truncated scenario' '{"name": "bad", "model": ' bad.json
refused 'a key that appears twice' '{"name": "bad", "model": "qwen3-0.6b", "samples": 3, "samples": 5}' "'samples' appears twice"
refused 'a line break in a name' '{"name": "bad", "model": "a\nb"}' 'a[?]b'
run 2 'a scenario that is not there' "$KVBENCH" sweep "$WORK/none.json"
err none.json
one_err
mkfifo "$WORK/fifo.json"
run 2 'a scenario that is a named pipe' timeout 10 "$KVBENCH" sweep "$WORK/fifo.json"
one_err
run 2 'no scenario' "$KVBENCH" sweep
one_err
run 2 'a number that is none' "$KVBENCH" run --model qwen3-0.6b --context 64 --threads two
err threads
one_err

small=tests/golden/qwen3 point="--model tests/golden/qwen3 --context 8"
usage() { # NAME REGEX COMMAND...: refused in one line
    run 2 "$1" "${@:3}"
    one_err
    err "$2"
}
# shellcheck disable=SC2086 # $point is several words
{
    usage 'an empty list of types' "'--kv'" "$KVBENCH" run $point --kv ''
    usage 'a list of types that ends in a comma' "'--kv'" "$KVBENCH" run $point --kv bf16,
    usage 'a CPU named twice' 'CPU 0 appears twice' "$KVBENCH" run $point --cpu-list 0,0
    usage 'a results folder without a name' folder "$KVBENCH" sweep "$(scenario ok '{"model": "tests/golden/qwen3"}')" --out ''
}
usage 'more tokens than can be counted' "'--max-tokens'" "$KVBENCH" generate --model $small --prompt a --max-tokens 2147483647
usage 'a block of -1' "'--block'" "$KVBENCH" generate --model $small --prompt a --block -1
usage 'no ranks' "'--tp'" "$KVCALC" --model llama-3-8b --gpu h100-sxm --context 4096 --tp 0
run 3 'more FLOPs than 64 bits count' "$KVBENCH" predict --model llama-3.1-405b --hardware h100-sxm -p 8388608
one_err
echo '{"name": "bad", "hard": {"bandwidth_GBps": 1e-300, "peak_TFLOPS": {"bf16": 1}}}' >"$WORK/slowest.json"
run 3 'hardware that takes ages' "$KVBENCH" predict --model qwen3-0.6b --hardware "$WORK/slowest.json" --ops
one_err
run 0 'the longest context there is' "$KVCALC" --model llama-3-8b --gpu h100-sxm --context 2147483647 --batch 1
run 3 'weights of a type without a kernel' "$KVBENCH" run --model qwen3-0.6b --context 64 --weights nvfp4
err "nvfp4.*kvbench list formats"
one_err
run 3 'a model that does not fit' "$KVBENCH" run --quiet --model llama-3.1-405b --context 64
err "'llama-3.1-405b' needs .* of memory"
one_err
no_out

# Files of a model, damaged. The undamaged ones pass in test_golden.
damaged() { # NAME FILE REGEX: `verify` refuses the model in $WORK/model
    run 2 "$1" "$KVBENCH" verify --model "$2" --golden tests/golden/qwen3
    one_err
    err "$3"
}
fresh() {
    rm -rf "$WORK/model"
    cp -r tests/golden/qwen3 "$WORK/model"
}
fresh
head -c 200 tests/golden/qwen3/config.json >"$WORK/model/config.json"
damaged 'a truncated config.json' "$WORK/model" config.json
fresh
sed -i 's/"num_hidden_layers": *[0-9]*/"num_hidden_layers": 1000000/' "$WORK/model/config.json"
damaged 'too many layers' "$WORK/model" num_hidden_layers
fresh
sed -i 's/"intermediate_size": *[0-9]*/"intermediate_size": 48/' "$WORK/model/config.json"
damaged 'shapes that disagree with config.json' "$WORK/model" 'gate_proj|up_proj|down_proj'
fresh
head -c 3000 tests/golden/qwen3/model.safetensors >"$WORK/model/model.safetensors"
damaged 'a truncated safetensors file' "$WORK/model" model.safetensors
fresh
printf '\377\377\377\377\377\377\377\177' | dd of="$WORK/model/model.safetensors" conv=notrunc status=none
damaged 'a safetensors header of absurd length' "$WORK/model" model.safetensors
for size in 3 100 4000; do
    head -c $size tests/golden/gguf/qwen3-bf16.gguf >"$WORK/cut.gguf"
    damaged "a GGUF file cut to $size bytes" "$WORK/cut.gguf" cut.gguf
done
head -c 500 tests/golden/gguf/qwen3-bf16.gguf >"$WORK/junk.gguf"
head -c 5000 /dev/zero | tr '\0' '\377' >>"$WORK/junk.gguf"
damaged 'a GGUF file whose metadata turns to junk' "$WORK/junk.gguf" junk.gguf
echo '{"model": {' >"$WORK/tokenizer.json"
run 2 'a truncated tokenizer.json' "$KVBENCH" tokenize --model "$WORK/tokenizer.json"
one_err
err tokenizer.json

# Output that cannot be written is found before anything is measured.
run 1 'an output folder that cannot be made' "$KVBENCH" run --model tests/golden/qwen3 --context 8 --out /dev/null/results
one_err
err /dev/null/results
if [ -w /dev/full ]; then
    # shellcheck disable=SC2317 # run calls it
    list_to_full() { "$KVBENCH" list hardware >/dev/full; }
    run 1 'standard output that is full' list_to_full
    err 'standard output'
    # shellcheck disable=SC2317
    help_to_full() { "$KVBENCH" --help >/dev/full; }
    run 1 'help to a full standard output' help_to_full
    one_err
fi

# shellcheck disable=SC2317
list_to_closed() { "$KVBENCH" list models >&-; }
run 1 'standard output that is closed' list_to_closed
one_err
# shellcheck disable=SC2317
sweep_to_head() { "$KVBENCH" sweep "$(scenario pipe '{"model": "tests/golden/qwen3", "backend": "null"}')" --out "$WORK/piped" 2>&1 >/dev/null | head -c 1; }
run 0 'progress that nobody reads' sweep_to_head
is 'the sweep is finished all the same' "$(grep -c '^decode\|^prefill' "$WORK/piped/pipe.csv")" 2

# What this machine cannot run.
if [ -e /dev/nvidia0 ]; then
    skip 'h100.json without a GPU' 'there is one'
else
    run 3 'h100.json without a GPU says what predicts instead' "$KVBENCH" sweep configs/h100.json --out "$WORK/results"
    one_err
    err 'kvbench predict'
fi
run 3 'a model larger than memory' "$KVBENCH" verify --model llama-3.1-405b
one_err

# A point faster than physics, as a hardware file states it, is our error and fails the run.
cat >"$WORK/slow.json" <<'END'
{"name": "slow", "title": "a machine slower than this", "kind": "cpu",
 "hard": {"bandwidth_GBps": 0.001, "peak_TFLOPS": {"f32": 0.001, "bf16": 0.001}}}
END
run 4 'a point faster than its bound' \
    "$KVBENCH" run --model tests/golden/qwen3 --hardware "$WORK/slow.json" --context 8 --out "$WORK/results"
out over-bound
err bound
finish
