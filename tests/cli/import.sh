#!/bin/bash
# kvbench import from outside: what it prints, writes and refuses.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh
G=tests/golden/import
imported() { "$KVBENCH" import --out "$WORK/results" "$@"; }

run 0 'a table of numbers, with rows that nobody can price' imported $G/table.csv
out '^plain +llama-3-8b +h100-sxm +decode'
out "no roof: unknown model 'llama-3-9b', did you mean 'llama-3-8b'"
out "no roof: unknown hardware 'H100 SXN', did you mean 'h100-sxm'"
out 'no roof: batch is missing'
out '^assumed: .*arithmetic in fp8 \(4 rows\)'
out '^10 rows, 4 with a roof'
is 'its rows are stored' "$(wc -l <"$WORK/results/table.jsonl")" 10
is 'and its CSV' "$(wc -l <"$WORK/results/table.csv")" 11
is 'the record names the file' "$(grep -c '"file":.*table.csv' "$WORK/results/table.meta.json")" 1
run 0 'once more: the older result moves away' imported $G/table.csv
out 'an older result is now'

run 0 'flags supply what a format omits' imported $G/vllm-latency.json --model llama-3-70b --hardware h200-sxm --tp 4 -b 8 -p 32 -n 128
out '4x h200-sxm +generate +8 x 32\+128 .* ok$'
run 0 'without them a row has no roof, and says why' imported $G/vllm-latency.json
out 'no roof: model is missing \(--model\)'
run 0 'several files in one result' imported $G/llama-bench.json $G/sglang-batch.jsonl --hardware h100-sxm --model smollm2-135m --name both
out 'results: .*/both.csv'
out '^9 rows, 9 with a roof'
run 0 'a format can be forced' imported $G/llama-bench.csv --format llama-bench --hardware epyc-9554
for kind in csv json jsonl md; do
    run 0 "output as $kind" imported $G/table.csv --name kinds -o $kind
done
is 'csv has a header and the rows' "$(imported $G/table.csv --name kinds -o csv | sed -n '1s/,.*//p;$=')" $'key\n11'
is 'jsonl has a row per line' "$(imported $G/table.csv --name kinds -o jsonl | grep -c '^{"key":')" 10

run 4 'a number that physics excludes' imported $G/table.csv --hardware t4
one_err
err '5 of 10 rows over-bound, first .plain.'
out 'over-bound$'

refused() { # STATUS NAME REGEX ARGUMENT...
    run "$1" "$2" imported "${@:4}"
    one_err
    no_out
    err "$3"
}
refused 2 'no file' 'no file'
refused 2 'a file that is not there' none.json "$WORK/none.json"
refused 2 'a folder' tests tests
refused 2 'an unknown format' "did you mean 'llama-bench'" $G/llama-bench.csv --format lama-bench
refused 2 'an unknown output' 'expected csv, json' $G/table.csv -o xml
refused 2 'a model that the user misspelled' "'--model'.*llama-3-8b" $G/table.csv --model llama-3-8c
refused 2 'hardware that the user misspelled' "'--hardware'.*h100-sxm" $G/table.csv --hardware h100-sxn
refused 2 'a list where one value is meant' 'expected one' $G/vllm-latency.json -b 1,2
refused 1 'a folder that cannot be made' /dev/null $G/table.csv --out /dev/null/results
head -c 300 $G/llama-bench.json >"$WORK/cut.json"
refused 2 'half of a llama-bench file' cut.json "$WORK/cut.json"
head -c 4000 /dev/urandom >"$WORK/noise.csv"
refused 2 'noise' noise.csv "$WORK/noise.csv"
echo '{"ok": true}' >"$WORK/other.json"
refused 2 'JSON of something else' 'no format that is known' "$WORK/other.json"
: >"$WORK/empty.csv"
refused 2 'an empty file' 'is empty' "$WORK/empty.csv"
is 'refused files leave no results' "$(find "$WORK/results" -name 'cut*' -o -name 'noise*' -o -name 'other*' -o -name 'empty*')" ''

if [ ! -x ../shared/check/run ]; then
    skip 'shared/check/run import' 'there is no ../shared/check'
elif [ "${KVBENCH_SANITIZED:-0}" = 1 ]; then
    skip 'shared/check/run import' 'it runs ./kvbench, which has no sanitizers'
else
    run 0 'shared/check/run import' ../shared/check/run import
fi
finish
