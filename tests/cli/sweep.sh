#!/bin/bash
# A sweep from the outside: its files, what a kill leaves, resuming, keeping what is there, and the pictures of it.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

lines() { wc -l <"$1" | tr -d ' '; }
cat >"$WORK/tiny.json" <<'END'
{"name": "tiny", "model": "tests/golden/qwen3", "samples": 3, "seconds": 0.2,
 "decode": {"batch": [1, 2], "context": [8, 24], "kv": ["f32", "int8"]}, "prefill": {"tokens": [16]}}
END
run 0 'a dry run lists points and writes nothing' "$KVBENCH" sweep "$WORK/tiny.json" --dry-run --out "$WORK/dry"
out 'decode/b1/c8'
out 'prefill/b1/p16'
[ ! -e "$WORK/dry/tiny.jsonl" ] || complain 'it wrote results'
run 0 'the sweep of an H100 is planned without one' "$KVBENCH" sweep configs/h100.json --dry-run --out "$WORK/dry"
out '^502 points, [0-9]+ fit in 79.65 GiB; about '
is 'every point of it, with its memory and its time' \
    "$(grep -cE '^[^ ]+/(decode|prefill)/[^ ]+ +[0-9.]+ [MGT]iB +[0-9.]+(  does not fit)?$' "$WORK/out")" 502
run 0 'a sweep' "$KVBENCH" sweep "$WORK/tiny.json" --out "$WORK/r"
is 'a row per point in the journal' "$(lines "$WORK/r/tiny.jsonl")" 9
is 'a row per point and a header in the table' "$(lines "$WORK/r/tiny.csv")" 10
is 'its files' "$(cd "$WORK/r" && echo tiny.*)" 'tiny.csv tiny.jsonl tiny.meta.json tiny.ops.csv tiny.roofs.csv'

run 0 'its pictures' tools/plots.sh "$WORK/r"
is 'all seven, twice' "$(find "$WORK/r/plots" -name 'tiny-*' -size +2k | wc -l)" 14
mkdir "$WORK/one" "$WORK/k"
cp "$WORK/r/ceilings.json" "$WORK/one"
cp "$WORK/r/ceilings.json" "$WORK/k"
run 0 'a sweep of one point' "$KVBENCH" sweep "$WORK/tiny.json" --filter 'decode/b1/c8/.*int8' --out "$WORK/one"
run 0 'pictures it cannot carry are named' tools/plots.sh "$WORK/one"
out 'skipped tiny-decode_batch: fewer than two batch sizes'
out 'skipped tiny-kv_precision: fewer than two KV types'
mkdir "$WORK/empty"
run 0 'no sweep, no pictures' tools/plots.sh "$WORK/empty"
out 'kvbench sweep'

before=$(cksum <"$WORK/r/tiny.csv")
run 0 'a second sweep of that name' "$KVBENCH" sweep "$WORK/tiny.json" --out "$WORK/r"
is 'moves the first one away' "$(cksum <"$(find "$WORK/r/old" -name '*.csv' ! -name '*.ops.csv' ! -name '*.roofs.csv')")" "$before"

# Interrupted before its first point, a sweep leaves what was there.
cp "$WORK/tiny.json" "$WORK/long.json"
sed -i 's/"samples": 3, "seconds": 0.2/"samples": 3000, "seconds": 100/' "$WORK/long.json"
before=$(cksum <"$WORK/r/tiny.csv")
timeout --signal=INT 1 "$KVBENCH" sweep "$WORK/long.json" --out "$WORK/r" >/dev/null 2>"$WORK/interrupted"
is 'an interrupted sweep without a point moves nothing' "$(cksum <"$WORK/r/tiny.csv")" "$before"
is 'and says so' "$(grep -c 'the older result is untouched' "$WORK/interrupted")" 1
run 0 'a dry run of a sweep that is done' "$KVBENCH" sweep "$WORK/tiny.json" --dry-run --resume --out "$WORK/r"
out '9 more points are done already'
mkdir "$WORK/t"
run 0 'two numbers of threads' "$KVBENCH" sweep "$WORK/tiny.json" --filter 'decode/b1/c8/.*int8' -t 1,2 --out "$WORK/t"
out ' threads '
is 'each with its ceilings' "$(cut -d , -f 1 "$WORK/t/tiny.roofs.csv" | sort -u | grep -c '^cpu-[12]t$')" 2

# Killed in the middle, a sweep loses at most the point it is at.
cp "$WORK/tiny.json" "$WORK/killed.json"
sed -i 's/"tiny"/"killed"/; s/"samples": 3, "seconds": 0.2/"samples": 30, "seconds": 1/' "$WORK/killed.json"
"$KVBENCH" sweep "$WORK/killed.json" --out "$WORK/k" >/dev/null 2>&1 &
sweep=$!
for _ in $(seq 600); do
    [ -s "$WORK/k/killed.jsonl" ] && break
    sleep 0.1
done
kill -9 $sweep
wait $sweep 2>/dev/null
kept=$(lines "$WORK/k/killed.jsonl")
first=$(head -n 1 "$WORK/k/killed.jsonl")
is 'a killed sweep leaves whole rows' "$(tail -c 1 "$WORK/k/killed.jsonl" | od -An -c | tr -d ' ')" '\n'
run 0 'and goes on' "$KVBENCH" sweep "$WORK/killed.json" --resume --out "$WORK/k"
is 'to the last point' "$(lines "$WORK/k/killed.jsonl")" 9
is 'without measuring the first again' "$(head -n 1 "$WORK/k/killed.jsonl")" "$first"
is 'having kept at least one' "$((kept >= 1))" 1
sed -i 's/"samples": 30/"samples": 31/' "$WORK/killed.json"
run 2 'another scenario is not resumed' "$KVBENCH" sweep "$WORK/killed.json" --resume --out "$WORK/k"
one_err
finish
