#!/bin/bash
# kvcalc: the numbers that must come out, names it does not know, and what it is linked with.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

number() { json_number "$1" <"$WORK/out"; }
equals() { [ "$(number "$1")" = "$2" ] || complain "$1 is $(number "$1"), expected $2"; }
between() { # KEY LOW HIGH
    awk -v x="$(number "$1")" -v low="$2" -v high="$3" 'BEGIN { exit !(x != "" && x >= low && x <= high) }' ||
        complain "$1 is $(number "$1"), expected $2 to $3"
}

run 0 'Llama-3-8B on H100, batch 32, context 4096, weights of 16 GiB' \
    "$KVCALC" --model llama-3-8b --gpu h100-sxm --context 4096 --batch 32 --weight-bytes 16GiB --json
equals kv_bytes_per_token 131072
equals kv_bytes_per_request 536870912
equals weight_bytes 17179869184
between bound_ns 10.25e6 10.26e6
between kv_read_share 0.499 0.501
run 0 'the same with its true weights' "$KVCALC" --model llama-3-8b --gpu h100-sxm --context 4096 --batch 32 --json
between bound_ns 9.55e6 9.65e6
between kv_read_share 0.5335 0.5345
run 0 'at full load' "$KVCALC" --model llama-3-8b --gpu h100-sxm --context 4096 --json
between max_requests 90 130
run 0 'as text' "$KVCALC" --model llama-3-8b --gpu h100-sxm --context 4096
out '131072|128(\.0+)? KiB'

for row in 'qwen3-0.6b bf16 114688' 'llama-3-8b bf16 131072' 'qwen2.5-7b bf16 57344'; do
    read -r model kv bytes <<<"$row"
    run 0 "KV bytes per token of $model" "$KVCALC" --model "$model" --gpu h100-sxm --context 1024 --kv "$kv" --json
    equals kv_bytes_per_token "$bytes"
done
run 0 'Llama-2-13B in fp16 holds 2048 tokens in 1,677,721,600 bytes' \
    "$KVCALC" --model llama-2-13b --gpu h100-sxm --context 2048 --weights f16 --kv f16 --json
equals kv_bytes_per_request 1677721600
run 0 'two ranks hold half of the KV each' "$KVCALC" --model llama-3-8b --gpu h100-sxm --context 4096 --tp 2 --json
equals kv_bytes_per_token 65536
run 0 'a config.json as the model' "$KVCALC" --model tests/golden/qwen3/config.json --gpu h100-sxm --context 64 --json
out kv_bytes_per_token
run 0 'a GGUF file as the model' "$KVCALC" --model tests/golden/gguf/qwen3-bf16.gguf --gpu h100-sxm --context 64 --json
out kv_bytes_per_token
run 0 'a hardware file as the machine' "$KVCALC" --model llama-3-8b --gpu configs/hardware/h100-sxm.json --context 4096 --json
between max_requests 90 130

run 2 'an unknown model names the nearest' "$KVCALC" --model llama-3-9b --gpu h100-sxm --context 4096
err "'llama-3-9b'.*llama-3-8b"
one_err
no_out
run 2 'unknown hardware names the nearest' "$KVCALC" --model llama-3-8b --gpu h100-sxn --context 4096
err "'h100-sxn'.*h100-sxm"
one_err
run 2 'a model is needed' "$KVCALC" --gpu h100-sxm --context 4096
err '--model'
one_err
run 2 'a negative context' "$KVCALC" --model llama-3-8b --gpu h100-sxm --context -5
one_err
run 2 'an unknown KV type' "$KVCALC" --model llama-3-8b --gpu h100-sxm --context 4096 --kv int9
err "'int9'"
one_err
run 2 'a broken config.json' "$KVCALC" --model tests/cli/lib.sh --gpu h100-sxm --context 4096
one_err

if command -v ldd >/dev/null; then
    run 0 'kvcalc is linked with neither BLAS nor CUDA' ldd "$KVCALC"
    ! grep -qiE 'blas|cuda|nvidia' "$WORK/out" || complain 'it is'
fi

if [ "${KVBENCH_SANITIZED:-0}" = 1 ]; then
    skip 'make install' 'the sanitizer build is not installed'
else
    run 0 'make install into a folder' make install PREFIX="$WORK/usr"
    run 0 'kvcalc finds its catalogue when installed elsewhere' \
        env -C / "$WORK/usr/bin/kvcalc" --model llama-3-8b --gpu h100-sxm --context 4096 --json
    equals kv_bytes_per_token 131072
    run 0 'kvbench does, too' env -C / "$WORK/usr/bin/kvbench" list models
    out llama-3-8b
    run 0 'make install honours DESTDIR' make install PREFIX=/opt/x DESTDIR="$WORK/stage"
    is 'it leaves programs and catalogue there' "$(cd "$WORK/stage/opt/x" && echo bin/* share/kvbench/configs)" 'bin/kvbench bin/kvcalc share/kvbench/configs'
fi
finish
