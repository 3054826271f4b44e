#!/bin/bash
# usage: demo.sh [CONFIG]   What `make demo` runs once everything is built: this machine's ceilings, a sweep (default
# configs/cpu.json), its pictures, and one screen that says what was found and where the files are.
set -eu
config=${1:-configs/cpu.json}
name=$(basename "$config" .json)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

step() { echo "== $1" >&2; }

# The names of this result's pictures, from what plots.sh said it drew: other results may be named $name-something.
pictures() {
    awk -v csv="results/$name.csv" -v skip="results/plots/$name-" '
        !/^ / { mine = $0 == csv }
        mine && sub(/\.\{svg,png\}$/, "") { list = list (list ? ", " : "") substr($1, length(skip) + 1) }
        END { print list }' "$work/plots.out"
}

step '1 of 3: what this machine can do at most'
./kvbench ceilings --quick
step "2 of 3: ./kvbench sweep $config"
status=0
mkdir -p results
./kvbench sweep "$config" >"results/$name.txt" || status=$?
step '3 of 3: pictures and page'
tools/plots.sh >"$work/plots.out" || { cat "$work/plots.out" >&2; exit 1; }

csv=results/$name.csv
[ ! -e "$csv" ] || ./kvbench report "results/$name" >/dev/null
[ -e "$csv" ] || { echo "the sweep left no $csv" >&2; exit "$((status ? status : 1))"; }
model=$(tools/plots.sh --models "$csv" | head -n 1)
awk -f plots/tidy.awk -v model="$model" -v dir="$work" "$csv" "results/$name.roofs.csv"
awk -f tools/summary.awk "$work/facts.gp" "$work/points.tsv"
cat <<END

  table     results/$name.txt
  numbers   results/$name.csv (per point), $name.ops.csv (per operation), $name.meta.json (machine, versions, scenario)
  page      results/$name.html, all of this for a browser
  pictures  $(pictures)
            in results/plots, each as $name-PICTURE.svg and .png
  next      ./kvbench --help        ./kvcalc --model llama-3-8b --gpu h100-sxm --context 4096
END
[ "$status" -eq 0 ] || echo "  the sweep ended with exit status $status: $(tail -n 1 "results/$name.txt")"
exit "$status"
