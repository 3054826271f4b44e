#!/bin/bash
# usage: soak.sh SECONDS PROGRAM...   Runs each fuzzer for that long from its seeds and the corpus of earlier runs, and adds
# what it did to tests/fuzz/soak.csv: one row per target and day. A finding is kept beside the program and fails the run.
# The totals over all days come last.
set -u
seconds=$1
shift
table=tests/fuzz/soak.csv
today=$(date -u +%F)
findings=0

record() { # TARGET EXECUTIONS SECONDS FINDINGS: into today's row
    [ -s "$table" ] || echo 'target,date,executions,seconds,findings' >"$table"
    awk -F, -v OFS=, -v target="$1" -v date="$today" -v n="$2" -v s="$3" -v found="$4" '
        $1 == target && $2 == date { $3 += n; $4 += s; $5 += found; seen = 1 }
        { print }
        END { if (!seen) print target, date, n, s, found }' "$table" >"$table.new" && mv "$table.new" "$table"
}

for program in "$@"; do
    target=$(basename "$program")
    target=${target#fuzz_}
    folder=$(dirname "$program")
    corpus=$folder/corpus_$target
    seeds=tests/fuzz/seeds/$target
    [ -d "$seeds" ] || seeds=
    mkdir -p "$corpus"
    # shellcheck disable=SC2086 # no seeds: no argument
    "$program" -max_total_time="$seconds" -print_final_stats=1 -timeout=10 -rss_limit_mb=2048 -max_len=8192 -verbosity=0 \
        -artifact_prefix="$folder/fuzz_$target-" "$corpus" $seeds >"$program.log" 2>&1 </dev/null
    found=$(($? != 0))
    findings=$((findings + found))
    record "$target" "$(awk '/^stat::number_of_executed_units/ { n = $2 } END { print n + 0 }' "$program.log")" "$seconds" $found
    if [ $found -ne 0 ]; then
        echo "FAILS $target"
        tail -n 40 "$program.log" | sed 's/^/      /'
    fi
done
awk -F, 'NR > 1 { n[$1] += $3; s[$1] += $4; f[$1] += $5 }
    END { for (t in n) printf "%-16s %12d executions %8d s %3d findings\n", t, n[t], s[t], f[t] }' "$table" | sort
[ $findings -eq 0 ]
