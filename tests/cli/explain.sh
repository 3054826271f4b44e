#!/bin/bash
# kvbench explain: what a result says of itself, in each form; and what is no result.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

run 0 'all points of a table' "$KVBENCH" explain tests/golden/sample/cpu.csv
out '^ *1  decode/b1/c64/bf16/kv-bf16/blk16 '
out 'furthest from their roofs'
out 'time of a decode step = a \+ b \* context'
run 0 'one point by number' "$KVBENCH" explain tests/golden/sample/cpu --point 12
out '^decode at batch 8, context 4096, KV bf16 takes [0-9]+ ms: [0-9]+ % of the roof'
out '^T4 +busy'
out '^attn +28 '
out '^all '
run 0 'one point by a part of its key, in Markdown' "$KVBENCH" explain tests/golden/sample/cpu --point p512 -o md
out '^\| attn '
run 2 'a part of several keys' "$KVBENCH" explain tests/golden/sample/cpu --point decode/b1
one_err
err 'keys contain'
run 2 'a point that is not there' "$KVBENCH" explain tests/golden/sample/cpu --point 27
err 'expected 1 to 26'
run 0 'rows for programs' "$KVBENCH" explain tests/golden/sample/cpu -o csv
is 'one per point and a header' "$(wc -l <"$WORK/out" | tr -d ' ')" 27
run 0 'lines of JSON' "$KVBENCH" explain tests/golden/sample/cpu -o jsonl
is 'one per point' "$(grep -c '"sentence":"' "$WORK/out")" 26
# The differences of each row sum to what lies between roof and median, and so do the parts (nine digits are printed).
run 0 'parts' "$KVBENCH" explain tests/golden/sample/cpu -o csv
is 'that sum to the median' "$(awk -F, 'NR > 1 { s = $4; for (i = 6; i <= 12; i++) s += $i; if (s - $3 > 20 || $3 - s > 20) bad++ } END { print bad + 0 }' "$WORK/out")" 0
printf 'key,phase,median_ns\na,decode,1000000\n' >"$WORK/bare.csv"
run 0 'a table of times alone' "$KVBENCH" explain "$WORK/bare.csv"
out '^ *1  a +1\.00 '
run 2 'no such result' "$KVBENCH" explain nowhere
one_err
err "'nowhere'"
run 2 'a table of something else' "$KVBENCH" explain tests/golden/sample/cpu.roofs.csv
one_err
run 2 'no result named' "$KVBENCH" explain
one_err
finish
