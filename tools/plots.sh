#!/bin/bash
# usage: plots.sh [FOLDER]       Draws every sweep FOLDER/NAME.csv (default results/) as FOLDER/plots/NAME-PICTURE.svg and .png;
# with several models in a file, NAME-MODEL-PICTURE; with several weight types, threads or block sizes, NAME-wT-tN-blkN-PICTURE
# for all but the first. A picture that the data cannot carry is named with the reason.
# The survey of `kvbench ceilings` (FOLDER/ceilings*.survey.csv) is drawn as ceilings-hierarchy.
#        plots.sh --models CSV    Names the models in a file.
set -eu
folder=${1:-results}
out=$folder/plots
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The models of a CSV file, in order of appearance, from its column of that name.
models_of() {
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "model") m = i; next } m && !seen[$m]++ { gsub(/"/, "", $m); print $m }' "$1"
}

tidy() { # CSV MODEL SLICE
    local csv=$1 files=("$1") extra
    for extra in "${csv%.csv}.roofs.csv" "${csv%.csv}.ops.csv"; do
        [ -e "$extra" ] && files+=("$extra")
    done
    rm -f "$work"/*
    awk -f plots/tidy.awk -v model="$2" -v slice="$3" -v dir="$work" "${files[@]}"
}

draw() { # PREFIX   What tidy has left in $work.
    local prefix=$1 picture reason format
    while read -r picture reason; do
        if [ -n "$reason" ]; then
            rm -f "$prefix-$picture".svg "$prefix-$picture".png
            echo "  skipped $(basename "$prefix")-$picture: $reason"
            continue
        fi
        for format in svg png; do
            gnuplot -e "format = '$format'; out = '$prefix-$picture.$format'; dir = '$work'" "plots/$picture.gp" 2> >(grep -v -e 'Skipping data file' -e '^$' >&2 || true)
        done
        echo "  $prefix-$picture.{svg,png}"
    done <"$work/pictures"
}

draw_slices() { # CSV MODEL PREFIX
    local names i
    tidy "$1" "$2" 1
    mapfile -t names <"$work/slices"
    for i in "${!names[@]}"; do
        [ "$i" -eq 0 ] || tidy "$1" "$2" $((i + 1))
        draw "$3${names[$i]}"
    done
}

draw_survey() { # CSV PREFIX
    local format machine
    machine=$(sed -n 's/^[[:space:]]*"title":[[:space:]]*"\(.*\)",$/\1/p' "${1%.survey.csv}.json" 2>/dev/null | head -n 1)
    rm -f "$work"/*
    awk -f plots/hierarchy.awk -v dir="$work" -v machine="${machine:-this machine}" "$1"
    for format in svg png; do
        gnuplot -e "format = '$format'; out = '$2-hierarchy.$format'; dir = '$work'" plots/hierarchy.gp
    done
    echo "  $2-hierarchy.{svg,png}"
}

if [ "${1:-}" = --models ]; then
    models_of "$2"
    exit
fi
command -v gnuplot >/dev/null || { echo 'gnuplot is missing; make deps installs it' >&2; exit 1; }
shopt -s nullglob
n=0
for csv in "$folder"/*.csv; do
    case $csv in *.ops.csv | *.roofs.csv) continue ;; esac
    name=$(basename "$csv" .csv)
    mkdir -p "$out"
    echo "$csv"
    if [ "$name" != "${name%.survey}" ]; then
        draw_survey "$csv" "$out/${name%.survey}"
        continue
    fi
    mapfile -t models < <(models_of "$csv")
    for model in "${models[@]}"; do
        suffix=
        [ ${#models[@]} -gt 1 ] && suffix=-$(basename "$model" | tr -c 'A-Za-z0-9._\n-' _)
        draw_slices "$csv" "$model" "$out/$name$suffix"
    done
    n=$((n + 1))
done
[ "$n" -gt 0 ] || echo "no $folder/NAME.csv yet: kvbench sweep configs/cpu.json writes one"
