#!/bin/bash
# kvbench compare from the outside: exit statuses, forms, and what pairs with what.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

sample=tests/golden/sample/cpu
run 0 'a result against itself' "$KVBENCH" compare $sample $sample.csv
out '^26 points in both: 26 the same within 5 %, 0 slower, 0 faster, 0 unsure'
out '^all of decode \(24 points\) .* 1.000 '
# Every time of B half as long again, each sample and the median.
cp $sample.csv "$WORK/a.csv"
awk -F, -v OFS=, 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; print; next }
    { $column["median_ns"] *= 1.5; n = split($column["samples_ns"], s, " "); t = ""
      for (i = 1; i <= n; i++) t = t (i > 1 ? " " : "") s[i] * 1.5
      $column["samples_ns"] = t; print }' CONVFMT=%.12g OFMT=%.12g $sample.csv >"$WORK/b.csv"
run 4 'half as slow again' "$KVBENCH" compare "$WORK/a.csv" "$WORK/b.csv"
one_err
err 'slower by more than 5 %'
out '^decode/b1/c64/bf16/kv-bf16/blk16 +29.1 +43.7 +1.500 .* slower'
run 0 'which a wide enough threshold allows' "$KVBENCH" compare "$WORK/a.csv" "$WORK/b.csv" --threshold 60%
run 0 'and is faster the other way round' "$KVBENCH" compare "$WORK/b.csv" "$WORK/a.csv" --threshold 0.05
out 'faster'
run 0 'rows for programs' "$KVBENCH" compare $sample "$WORK/a.csv" -o csv
is 'one per point and a header' "$(wc -l <"$WORK/out" | tr -d ' ')" 27
run 0 'in Markdown' "$KVBENCH" compare $sample "$WORK/a.csv" -o md
out '^\| all of prefill \(2 points\)'
sed 's/,2,1,ok,/,1,1,ok,/' $sample.csv | head -n 5 >"$WORK/t1.csv"
run 0 'another number of threads, fewer points' "$KVBENCH" compare $sample "$WORK/t1.csv" --by fraction
out '^threads +2 +1'
out '^meta file +there +none'
out '^only in A: .* and 19 more$'
run 2 'a threshold that is none' "$KVBENCH" compare $sample $sample --threshold 5
one_err
run 2 'one result alone' "$KVBENCH" compare $sample
one_err
run 2 'no common point' "$KVBENCH" compare $sample.csv <(head -n 1 $sample.csv)
one_err
finish
