#!/bin/bash
# Help, versions and what an unknown word says.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

run 0 'kvbench --help lists every command' "$KVBENCH" --help
commands='sweep run predict ceilings bench doctor generate tokenize verify perplexity inspect export report list'
for c in $commands; do
    out "kvbench $c"
done
run 0 'kvbench --version' "$KVBENCH" --version
out '^kvbench [^ ]+$'
run 0 'kvbench help COMMAND' "$KVBENCH" help sweep
out '^usage: kvbench sweep'
run 0 'kvbench version' "$KVBENCH" version
out '^kvbench [^ ]+$'
run 2 'an option of another command says of which' "$KVBENCH" run --tp 2
err "'--tp'.*predict"
one_err
run 2 'kvbench alone prints its help and is a usage error' "$KVBENCH"
err 'kvbench sweep'
no_out
run 2 'an unknown command names the nearest' "$KVBENCH" swep
err "'swep'.*'sweep'"
one_err
for c in $commands; do
    run 0 "kvbench $c --help shows defaults and two examples" "$KVBENCH" "$c" --help
    out "^usage: kvbench $c"
    out '^examples:$'
    out '\[.+\]$'
    [ "$(awk '/^examples:/ { exit } length > 112' "$WORK/out")" = '' ] || complain 'a line of more than 112 characters'
    grep -qE '(^|; |  )(sweep|run|predict|import|bench|ceilings|others): ' "$WORK/out" && complain 'what is said to other commands'
    [ "$(sed -n '/^examples:/,$p' "$WORK/out" | grep -cE '^  .*kvbench ')" -eq 2 ] || complain 'not two examples'
    run 2 "kvbench $c names the nearest option" "$KVBENCH" "$c" --jsn
    err "'--jsn'.*'--json'"
    one_err
done
run 0 'kvcalc --help shows defaults and examples' "$KVCALC" --help
out '^usage: kvcalc'
out '\[0\.9\]'
out '^examples:$'
run 0 'kvcalc --version' "$KVCALC" --version
out '^kvcalc [^ ]+$'
run 2 'kvcalc names the nearest option' "$KVCALC" --contxt 4096
err "'--contxt'.*'--context'"
one_err
run 2 'an option without its value' "$KVCALC" --model
err "'--model' needs a value"
one_err
finish
