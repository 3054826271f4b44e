#!/bin/bash
# kvbench export: round trips on the command line, refusals, and no half file when the disk is full.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

for golden in llama-mha qwen2 gemma3 gguf/llama3-rope-f16.gguf; do
    run 0 "export $golden" "$KVBENCH" export --model tests/golden/$golden --gguf "$WORK/x.gguf"
    out '^tokenizer: '
    run 0 "and verify it against the reference of $golden" \
        "$KVBENCH" verify --model "$WORK/x.gguf" --golden tests/golden/$golden
done
run 0 'export in a block type, as JSON' \
    "$KVBENCH" export --model tests/golden/qwen3 --gguf "$WORK/q.gguf" --type q4_0 --json
out '"type": "q4_0"'
is 'has the size it says' "$(json_number bytes <"$WORK/out")" "$(stat -c %s "$WORK/q.gguf")"
run 2 'a type that is not written' "$KVBENCH" export --model tests/golden/qwen3 --gguf "$WORK/n.gguf" --type q6_k
err "'--type' is 'q6_k', expected f32, f16, bf16, q8_0 or q4_0"
one_err
run 2 'over itself' "$KVBENCH" export --model "$WORK/q.gguf" --gguf "$WORK/q.gguf"
err 'is the model itself'
one_err
run 1 'where nothing can be written' "$KVBENCH" export --model tests/golden/qwen3 --gguf /dev/null/x.gguf
one_err
err "'/dev/null/x.gguf': could not be written"
# shellcheck disable=SC2317 # run calls it
full() (
    trap '' XFSZ # a limit on file sizes stands for a full disk
    ulimit -f 100
    "$@"
)
run 1 'a disk that is full' full "$KVBENCH" export --model tests/golden/llama-mha --gguf "$WORK/full.gguf"
one_err
err "full.gguf': could not be written: "
is 'leaves no half file' "$(ls "$WORK"/full* 2>/dev/null)" ''
finish
