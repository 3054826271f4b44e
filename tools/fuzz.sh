#!/bin/bash
# usage: fuzz.sh "LIBFUZZER ARGUMENTS" PROGRAM...   Runs each fuzzer on its seeds (tests/fuzz/seeds/NAME for fuzz_NAME);
# what crashes is kept beside the program. The last line is "fuzz: N passed, N failed, 0 skipped".
set -u
arguments=$1
shift
passed=0 failed=0
for program in "$@"; do
    name=$(basename "$program")
    corpus=$(dirname "$program")/corpus_${name#fuzz_}
    mkdir -p "$corpus"
    seeds=tests/fuzz/seeds/${name#fuzz_}
    [ -d "$seeds" ] || seeds=
    start=$SECONDS
    # shellcheck disable=SC2086 # words on purpose
    if "$program" $arguments -timeout=10 -rss_limit_mb=2048 -verbosity=0 -artifact_prefix="$(dirname "$program")/$name-" \
        "$corpus" $seeds >"$program.log" 2>&1 </dev/null; then
        passed=$((passed + 1))
        echo "ok    $name ($((SECONDS - start)) s)"
    else
        failed=$((failed + 1))
        echo "FAILS $name"
        tail -n 40 "$program.log" | sed 's/^/      /'
    fi
done
echo "fuzz: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
