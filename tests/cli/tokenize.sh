#!/bin/bash
# tokenize on tiny vocabularies: both directions, as text and as JSON, and what it refuses.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

seed=tests/fuzz/seeds/tokenizer
# shellcheck disable=SC2317 # run calls it
tokenize() { # INPUT FILE OPTION...
    printf '%b' "$1" | "$KVBENCH" tokenize --model "${@:2}"
}
run 0 'text to ids' tokenize 'low lower<|s|>' $seed/plain.json
out '^20 21 22 23$'
run 0 'with what the tokenizer adds itself' tokenize 'low' $seed/template.json --special
out '^23 0 1 2$'
run 0 'ids to text' tokenize '20 21 22\n23' $seed/plain.json --decode
out '^low lower<\|s\|>$'
run 0 'JSON to ids' tokenize '["low", "", " lower"]' $seed/plain.json --json
out '^\[\[20\],\[\],\[21,22\]\]$'
run 0 'JSON to text' tokenize '[[20, 21], [], [15]]' $seed/plain.json --json --decode
out '^\["low low","","�"\]$'
run 0 'one JSON array of ids' tokenize '[20, 21]' $seed/plain.json --json --decode
out '^\["low low"\]$'
gguf=tests/golden/gguf/llama-gqa-f32.gguf
run 0 'a zero byte in JSON, to ids by a GGUF file' tokenize '["the\\u0000\\\\u0000"]' $gguf --json
run 0 'and back' tokenize "$(cat "$WORK/out")" $gguf --json --decode
out '^\["the\\u0000\\\\u0000"\]$'

refused() { # NAME REGEX INPUT FILE OPTION...
    run 2 "$1" tokenize "${@:3}"
    err "$2"
    one_err
    no_out
}
run 2 'no model' "$KVBENCH" tokenize
err "'--model' is missing"
refused 'a model that is not there' "'none.gguf' is no file" 'x' none.gguf
refused 'a folder without tokenizer' 'has no tokenizer.json' 'x' tests/golden/qwen3
refused 'an id that is none' "token id 99" '[[20], [99]]' $seed/plain.json --json --decode
refused 'a fraction as id' 'no token id' '1.5' $seed/plain.json --decode
refused 'words as ids' 'expected token ids' 'low' $seed/plain.json --decode
refused 'JSON that is none' 'not valid JSON' '["low"' $seed/plain.json --json
refused 'JSON that is no array' 'expected a JSON array' '"low"' $seed/plain.json --json
refused 'an array of something else' 'array of strings' '["low", 1]' $seed/plain.json --json
refused 'a lone surrogate' 'not valid JSON' '["\\ud800"]' $seed/plain.json --json
refused 'JSON in another encoding' 'not valid UTF-8' '["\0377"]' $seed/plain.json --json
sed 's/"BPE"/"WordPiece"/' $seed/plain.json >"$WORK/words.json"
run 3 'a model of another kind' tokenize 'x' "$WORK/words.json"
err "'WordPiece' is not supported"
one_err
finish
