#!/bin/bash
# The examples that --help shows run as they stand; those that measure are only listed, with --dry-run.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

mkdir "$WORK/bin"
ln -s "$(realpath "$KVBENCH")" "$WORK/bin/kvbench"
ln -s "$(realpath "$KVCALC")" "$WORK/bin/kvcalc"
export PATH="$WORK/bin:$PATH" KVBENCH_CONFIGS=$PWD/configs

examples() { "$@" --help | sed -n '/^examples:/,$p' | grep -E '(kvbench|kvcalc) '; }
example() { # LINE
    case $1 in
    *models/*)
        if [ ! -e "$(grep -oE 'models/[^ ]+' <<<"$1")" ]; then
            skip "$1" 'make model fetches it'
            return
        fi
        ;;
    *'kvbench sweep'* | *'kvbench run'*) set -- "$1 --dry-run" ;;
    *'kvbench ceilings'*)
        if [ -n "${KVBENCH_SANITIZED:-}" ] && [[ $1 != *--quick* ]]; then
            skip "$1" 'the libraries beside our kernels keep threads that LeakSanitizer cannot stop'
            return
        fi
        set -- "$1 -r 3 --out $WORK/ceilings.json"
        ;;
    *'kvbench bench'*) return ;; # measures for minutes; tests/cli/bench.sh runs a small one
    esac
    run 0 "$1" bash -c "$1"
    [ -s "$WORK/out" ] || complain 'it prints nothing'
}
for c in sweep run predict ceilings bench doctor generate tokenize verify perplexity inspect export report list; do
    while read -r line; do
        example "$line"
    done < <(examples kvbench $c)
done
while read -r line; do
    example "$line"
done < <(examples kvcalc)
finish
