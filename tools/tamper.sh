#!/bin/bash
# usage: tamper.sh [KVBENCH]   Disturbs measurements on purpose and asks for the code that says so: a busy loop beside it, its
# CPU affinity taken away, a memory hog, a model that sits in caches; and that nothing is said where nothing was done. Needs a
# machine that is otherwise quiet, with two CPUs or more; half a minute. The last line is "tamper: N as expected, N not".
set -u
cd "$(dirname "$0")/.." || exit 1
kvbench=${1:-./kvbench}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
good=0 bad=0
last=$(($(nproc) - 1))

text() { sed -n "s/^.*\"$1\":[[:space:]]*\"\(.*\)\".*$/\1/p" "$work/out" | head -n 1; }
expect() { # NAME CODE...: the point has one of these codes; "none": none but noise
    local name=$1 codes verdict=FAILS
    shift
    codes=$(text codes)
    for code in "$@"; do
        [[ " $codes " == *" $code "* ]] && verdict=ok
        [[ $code == none && ( -z $codes || $codes == noisy ) && -n $(text verdict) ]] && verdict=ok
    done
    [ $verdict = ok ] && good=$((good + 1)) || bad=$((bad + 1))
    printf '%-5s %-32s %s: %s\n' $verdict "$name" "${codes:-none}" "$(text reason)"
    [ $verdict = ok ] || sed 's/^/      /' "$work/err"
}
measure() { # some seconds of decode steps: 270 MB of weights, more than any cache holds
    "$kvbench" run --model smollm2-135m --context 64 --n-prompt 0 --json --quiet --samples 2000 "$@" >"$work/out" 2>"$work/err"
}
stop() { kill "$1" && wait "$1" 2>/dev/null; }

measure --seconds 2
expect 'nothing' none

taskset -c "$last" sh -c 'while :; do :; done' &
measure --seconds 2
stop $!
expect 'a busy loop beside it' contended

measure --seconds 5 &
sleep 3 # it loads in less
taskset -ap 1 "$(pgrep -P $! || echo $!)" >/dev/null
wait $!
expect 'its affinity taken away' contended

dd if=/dev/zero of=/dev/null bs=512M 2>/dev/null &
measure --seconds 2
stop $!
expect 'a memory hog' cache-polluted contended

"$kvbench" run --model tests/golden/qwen3 --context 64 --n-prompt 0 --json --quiet >"$work/out" 2>"$work/err"
expect 'a model that sits in caches' cache-resident

measure --seconds 1 --fail-on contended,over-bound
status=$?
[ $status -eq 0 ] && good=$((good + 1)) || bad=$((bad + 1))
echo "--fail-on contended of a quiet run: exit status $status $(cat "$work/err")"
taskset -c "$last" sh -c 'while :; do :; done' &
measure --seconds 1 --fail-on contended
status=$?
stop $!
[ $status -eq 4 ] && good=$((good + 1)) || bad=$((bad + 1))
echo "--fail-on contended of a contended one: exit status $status, $(cat "$work/err")"

echo "tamper: $good as expected, $bad not"
[ $bad -eq 0 ]
