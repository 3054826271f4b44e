#!/bin/bash
# generate, tokenize and verify on tiny golden models, and on the real one where `make model` has fetched it.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

for golden in qwen3 llama3-rope qwen2-f16 mistral-swa gguf/qwen3-bf16.gguf gguf/llama-mqa-q4_0.gguf; do
    run 0 "verify $golden against its reference" \
        "$KVBENCH" verify --model tests/golden/$golden --golden tests/golden/$golden
done
cp -r tests/golden/qwen3 "$WORK/wrong"
printf '\000\000\200\077' | dd of="$WORK/wrong/logits.f32" bs=4 seek=100 conv=notrunc status=none
run 1 'verify fails when one reference logit is another' "$KVBENCH" verify --model tests/golden/qwen3 --golden "$WORK/wrong"

model=models/SmolLM2-135M-Instruct.Q4_1.gguf
if [ ! -e $model ]; then
    skip 'the real model' 'make model fetches it'
    finish
fi
# shellcheck disable=SC2317 # run calls it
tokenize() { printf '%s' "$1" | "$KVBENCH" tokenize --model "$model" "${@:2}"; }
run 0 'text to ids and back' tokenize '["hello world", ""]' --json
back=$("$KVBENCH" tokenize --model $model --decode --json <"$WORK/out" | tr -d '[:space:]')
is 'gives the text' "$back" '["helloworld",""]'
if [ "${KVBENCH_SANITIZED:-0}" = 1 ]; then
    skip 'generate with the real model' 'slow under sanitizers'
else
    run 0 'the capital of France' "$KVBENCH" generate --model $model --chat --prompt 'What is the capital of France?'
    out '^The capital of France is Paris\.'
    run 0 'perplexity of the first two windows' \
        "$KVBENCH" perplexity --model $model --text tests/golden/sonnet.txt --windows 2 --json
    # smollm2.json has 4.0252 and 4.2699: e^ of their mean within 0.5 %
    awk -v p="$(json_number perplexity <"$WORK/out")" -v q="$(awk 'BEGIN { print exp((4.02518805 + 4.26991633) / 2) }')" \
        'BEGIN { exit !(p > 0.995 * q && p < 1.005 * q) }' || complain 'it is not that of the reference'
fi
finish
