#!/bin/bash
# generate on a tiny random model: what it counts, what it prints where, and what it refuses.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

gguf=tests/golden/gguf/qwen3-bf16.gguf
# shellcheck disable=SC2317 # run calls it
generate() { "$KVBENCH" generate --model "$gguf" --prompt 'the ten' "$@"; }
counts() { echo "$(json_number n_prompt <"$WORK/out") $(json_number n_gen <"$WORK/out") $(json_number tokens_processed <"$WORK/out")"; }
ids() { grep -E '^  "ids": \[[0-9]+, ' "$WORK/out" || echo "no ids in case '$name'"; }

run 0 'speeds go to standard error' generate --max-tokens 4
err '^prefill 5 tokens in .* tok/s$'
err '^decode 3 tokens in .* tok/s$'
err '^8 tokens processed$'
run 0 '-q leaves the text alone' generate --max-tokens 4 -q
[ ! -s "$WORK/err" ] || complain 'standard error is not empty'
run 0 'one JSON object' generate --max-tokens 10 --json -q
for key in text ids prompt_ids n_prompt n_gen prefill_ns decode_ns tokens_processed; do out "^  \"$key\": "; done
with_cache=$(counts) ids_with_cache=$(ids)
run 0 'without a cache' generate --max-tokens 10 --json -q --no-cache
without_cache=$(counts) ids_without_cache=$(ids)
is 'with a cache each token is processed once' "$with_cache" '5 10 14'
is 'without, each step processes the whole prefix: 5 + 6 + ... + 14' "$without_cache" '5 10 95'
is 'the ids are the same' "$ids_without_cache" "$ids_with_cache"
run 0 'sampling' generate --max-tokens 10 --json -q --temperature 1 --top-k 50 --top-p 0.9 --seed 3
sampled=$(ids)
[ "$sampled" != "$ids_with_cache" ] || complain 'gives the greedy text'
run 0 'sampling again' generate --max-tokens 10 --json -q --temperature 1 --top-k 50 --top-p 0.9 --seed 3
again=$(ids)
is 'one seed gives one text' "$again" "$sampled"

# A chat in turns: a tiny model with a small tokenizer and a template.
folder=$WORK/chat
mkdir "$folder"
ln -s "$PWD"/tests/golden/qwen3/{config.json,model.safetensors} "$folder"
cp tests/fuzz/seeds/tokenizer/plain.json "$folder/tokenizer.json"
echo '<|im_start|>' >"$folder/chat_template.jinja"
# shellcheck disable=SC2317 # run calls it
chat() { printf 'low\n \nlower\n/exit\nnever\n' | "$KVBENCH" generate --model "$folder" --chat --max-tokens 3 "$@"; }
processed() { sed -n 's/^\([0-9]*\) tokens processed$/\1/p' "$WORK/err" | tail -n 1; }
prefills() { sed -n 's/^prefill \([0-9]*\) tokens.*/\1/p' "$WORK/err" | tr '\n' ' '; }
run 0 'a chat in two turns' chat
read -r first second third <<<"$(prefills)"
[ -z "${third-}" ] || complain 'has more turns than lines before /exit'
[ "$((first + 2 + second + 2))" -eq "$(processed)" ] || complain 'processes other tokens than it says'
run 0 'the second turn alone' "$KVBENCH" generate --model "$folder" --chat --prompt lower --max-tokens 3
[ "$second" -lt "$(($(prefills) + 20))" ] || complain 'the second turn computes the first again'
run 0 'a chat without a turn' "$KVBENCH" generate --model "$folder" --chat
no_out

refused() { # STATUS NAME REGEX OPTION...
    run "$1" "$2" "$KVBENCH" generate "${@:4}"
    err "$3"
    one_err
    no_out
}
refused 3 'a shape has no tokenizer' "'qwen3-0.6b' has random weights and no tokenizer" --model qwen3-0.6b --prompt x
refused 2 'a misspelled model' "did you mean 'qwen3-0.6b'" --model qwen3-0.6 --prompt x
refused 2 'a folder without tokenizer' 'has no tokenizer.json' --model tests/golden/qwen3 --prompt x
refused 3 'no chat template' 'no chat template' --model $gguf --prompt x --chat
refused 3 'turns without a chat template' 'no chat template' --model $gguf --chat
refused 2 'turns as JSON' "'--json' needs '--prompt'" --model "$folder" --chat --json
refused 2 'no prompt' "'--prompt' is missing" --model $gguf
refused 2 'no tokens' "'--max-tokens' is 0" --model $gguf --prompt x --max-tokens 0
refused 2 'more than the model takes' 'takes [0-9]+ in all' --model $gguf --prompt x --max-tokens 1000000
refused 2 'a negative temperature' 'temperature' --model $gguf --prompt x --temperature -1
refused 2 'a system text without chat' "'--system' needs '--chat'" --model $gguf --prompt x --system y
refused 2 'a list of KV types' "'--kv' is a list" --model $gguf --prompt x --kv bf16,f32
finish
