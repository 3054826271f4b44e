#!/bin/bash
# For the command-line tests: one case is a command with its exit status, and what it must print. Results in TAP.
#   run STATUS NAME COMMAND...   begins a case
#   out REGEX, err REGEX         standard output / error has a matching line
#   no_out, one_err              nothing on standard output; exactly one line on standard error
#   is NAME ACTUAL EXPECTED      a case of its own: two equal texts
#   skip NAME REASON
#   finish                       ends the last case; exit status 1 if any failed
set -u
KVBENCH=${KVBENCH:-build/kvbench}
KVCALC=${KVCALC:-build/kvcalc}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
cases=0 bad=0 name='' complaint=''

close_case() {
    [ -n "$name" ] || return 0
    cases=$((cases + 1))
    if [ -z "$complaint" ]; then
        echo "ok $cases - $name"
    else
        bad=$((bad + 1))
        echo "not ok $cases - $name"
        echo "$complaint"
        echo "# command: $command"
        sed 's/^/# out: /' "$WORK/out" | head -n 20
        sed 's/^/# err: /' "$WORK/err" | head -n 20
    fi
    name='' complaint=''
}
complain() { complaint="$complaint# $1"$'\n'; }

run() {
    close_case
    local expected=$1 status
    name=$2
    shift 2
    command=$*
    "$@" >"$WORK/out" 2>"$WORK/err" </dev/null
    status=$?
    [ "$status" -eq "$expected" ] || complain "exit status $status, expected $expected"
}
out() { grep -qE -- "$1" "$WORK/out" || complain "standard output lacks /$1/"; }
err() { grep -qE -- "$1" "$WORK/err" || complain "standard error lacks /$1/"; }
no_out() { [ ! -s "$WORK/out" ] || complain 'standard output is not empty'; }
one_err() { [ "$(wc -l <"$WORK/err")" -eq 1 ] || complain 'standard error is not one line'; }
is() {
    close_case
    name=$1 command="compare" complaint=''
    : >"$WORK/out"
    : >"$WORK/err"
    [ "$2" = "$3" ] || complain "is '$2', expected '$3'"
}
skip() {
    close_case
    cases=$((cases + 1))
    echo "ok $cases - $1 # SKIP $2"
}
finish() {
    close_case
    [ "$bad" -eq 0 ]
    exit
}

# The number of KEY in flat JSON text, or of its first occurrence.
json_number() { grep -oE "\"$1\":[[:space:]]*-?[0-9.eE+-]+" | head -n 1 | sed 's/.*:[[:space:]]*//'; }
