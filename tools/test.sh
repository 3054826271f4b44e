#!/bin/bash
# usage: test.sh BUILD PROGRAM...   Runs the cmocka programs and then the command-line tests on BUILD's kvbench and kvcalc.
# One line a program, all of the output of those that fail; the last line is "tests: N passed, N failed, N skipped".
set -u
build=$1
shift
limit_s=${KVBENCH_TEST_TIMEOUT:-300}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0

# Counts the lines of the TAP report in $log that match a pattern.
count() { grep -cE "$1" "$log"; }

# The skipped tests with their reasons: behind the name in a script's report, on the line before in cmocka's.
skips() {
    awk '{ line = $0 }
        /^(not )?ok .*# SKIP/ {
            reason = before ~ /^(not ok|ok|1\.\.|$)/ ? "" : ": " before
            sub(/^(not )?ok [0-9]+ (- )?/, ""); sub(/^# SKIP /, ""); sub(/ # SKIP /, ": ")
            print "      skipped " $0 reason
        }
        { before = line }' "$log"
}

run() { # NAME COMMAND...
    local name=$1 start=$SECONDS status ok bad skip
    shift
    timeout "$limit_s" "$@" >"$log" 2>&1 </dev/null
    status=$?
    skip=$(count '^(not )?ok .*# SKIP') # cmocka calls them not ok
    ok=$(($(count '^ok ') - $(count '^ok .*# SKIP')))
    bad=$(($(count '^not ok ') - $(count '^not ok .*# SKIP')))
    # A program that dies, or reports nothing, is a failure of its own.
    if [ $((ok + bad + skip)) -eq 0 ] || { [ $status -ne 0 ] && [ "$bad" -eq 0 ]; }; then
        bad=$((bad + 1))
        echo "exit status $status" >>"$log"
    fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
    printf '%-5s %-24s %3d passed, %d failed, %d skipped (%d s)\n' "$([ "$bad" -eq 0 ] && echo ok || echo FAILS)" "$name" \
        "$ok" "$bad" "$skip" $((SECONDS - start))
    if [ "$bad" -ne 0 ]; then
        sed 's/^/      /' "$log"
    else
        skips
    fi
}

export CMOCKA_MESSAGE_OUTPUT=TAP
export KVBENCH=$build/kvbench KVCALC=$build/kvcalc
for program in "$@"; do
    run "$(basename "$program")" "$program"
    case $program in # what must not depend on the order in which threads run, nor on how late streams do
    */test_cuda_kernels)
        run 'test_cuda_kernels, rev' env KVEMU_ORDER=rev "$program"
        run 'test_cuda_kernels, rand' env KVEMU_ORDER=rand:1 "$program"
        ;;
    */test_cuda_backend) run 'test_cuda_backend, rand' env KVEMU_ORDER=rand:1 KVEMU_STREAMS=eager "$program" ;;
    esac
done
for script in tests/cli/*.sh; do
    case $script in */lib.sh | */run.sh) continue ;; esac
    [ -e "$script" ] && run "cli/$(basename "$script" .sh)" bash "$script"
done
echo "tests: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
