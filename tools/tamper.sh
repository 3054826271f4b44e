#!/bin/bash
# usage: tamper.sh [KVBENCH]   Disturbs measurements on purpose and asks for the code that says so: a busy loop beside it, its
# CPU affinity taken away, a memory hog on its CPUs and on another one, a clock that falls, ceilings of a faster clock, a model
# that sits in caches; and that nothing is said where nothing was done. Needs a machine that is otherwise quiet, with two CPUs
# or more; a minute and a half. The last line is "tamper: N as expected, N not".
set -u
cd "$(dirname "$0")/.." || exit 1
kvbench=${1:-./kvbench}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
good=0 bad=0
last=$(($(nproc) - 1))

text() { sed -n "s/^.*\"$1\":[[:space:]]*\"\(.*\)\".*$/\1/p" "$work/out" | head -n 1; }
expect() { # NAME CODE...: the point has one of these codes; "none": none but noise; "only CODE": no other but noise
    local name=$1 codes verdict=FAILS
    shift
    codes=$(text codes)
    if [ "$1" = only ]; then
        shift
        [[ " $codes " == *" $1 "* && $codes =~ ^"$1"( noisy)?$ ]] && verdict=ok
        set --
    fi
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

# One thread, and the other CPU reads memory as fast as it can: nobody waits and arithmetic is what it was. Its ceilings are
# measured first, and it is left alone to show that nothing is said then.
measure --seconds 1 --threads 1 --cpu-list 0 --out "$work/one"
expect 'one thread' none
"$kvbench" run --model smollm2-135m --context 64 --n-prompt 0 --threads 1 --cpu-list "$last" --hardware epyc-9654 --samples 100000 \
    --seconds 60 --quiet >/dev/null 2>&1 &
sleep 8 # it makes its weights first, and reads little until it steps
measure --seconds 2 --threads 1 --cpu-list 0 --out "$work/one"
stop $!
expect 'memory read by another CPU' only cache-polluted

# As if arithmetic had been 1.3 times as fast when the ceilings were measured.
mkdir "$work/fast"
awk '/"f32":/ { near = 1 } near && /"value":/ { sub(/[0-9][0-9.eE+-]*/, sprintf("%.6f", 1.3 * $2)); near = 0 } { print }' \
    results/ceilings.json >"$work/fast/ceilings.json"
measure --seconds 1 --out "$work/fast"
expect 'ceilings of a faster clock' only throttled

# cpufreq as it might be: a copy of /sys in which the clock falls to two thirds while it runs, in a name space of its own.
cpus=/sys/devices/system/cpu
if unshare -rm true 2>/dev/null; then
    mkdir "$work/cpus"
    export work cpus
    export -f measure
    export kvbench
    # shellcheck disable=SC2016 # the other shell's
    unshare -rm bash -c '
        mount -t tmpfs none "$work/cpus" && cp -r $cpus/. "$work/cpus" 2>/dev/null
        set_clock() { for cpu in "$work"/cpus/cpu[0-9]*; do echo "$1" >"$cpu/cpufreq/scaling_cur_freq"; done; }
        mkdir -p "$work"/cpus/cpu{0..'"$last"'}/cpufreq
        set_clock 3000000
        mount --bind "$work/cpus" $cpus
        (sleep 3; set_clock 2000000) &
        measure --seconds 5'
    expect 'the clock falls' throttled
else
    echo "skip  the clock falls                  no name space may be made here"
fi

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
