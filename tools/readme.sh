#!/bin/bash
# README.md's tables are what the program prints: each block between "<!-- COMMAND -->" and "<!-- end -->" is the output of
# that command, and configs/schema/*.json its schemas. Rewrites them; with --check only tells whether they are as they should be.
set -eu
cd "$(dirname "$0")/.."
KVBENCH=${KVBENCH:-./kvbench}
new=$(mktemp)
trap 'rm -f "$new"' EXIT

copying=true
while IFS= read -r line; do
    if [[ $line == '<!-- kvbench '*' -->' ]]; then
        read -ra words <<<"${line//[<>!]/}"
        printf '%s\n```\n' "$line"
        "$KVBENCH" "${words[@]:2:${#words[@]}-3}"
        printf '```\n'
        copying=false
    elif [[ $line == '<!-- end -->' ]]; then
        copying=true
    fi
    if $copying; then printf '%s\n' "$line"; fi
done <README.md >"$new"

if [ "${1:-}" = --check ]; then
    diff -u README.md "$new" && exit
    echo 'README.md does not show what kvbench prints: make readme' >&2
    exit 1
fi
cat "$new" >README.md
for schema in scenario result meta; do "$KVBENCH" list "schema-$schema" >"configs/schema/$schema.json"; done
