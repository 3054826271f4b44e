#!/bin/bash
# usage: gpu_check.sh [OUT]   (or OUT=FOLDER gpu_check.sh; default results/gpu-check)
# Everything that only a machine with an NVIDIA GPU can show, in under 6 minutes and without a network: which driver and
# permissions there are, whether the device's counters count work of known size, what the device attains, the kernels'
# tests on it, the same logits as elsewhere, and the sweep configs/gpu-check.json. Each stage has a limit of its own, and
# one that fails hides no other. Programs come from KIT (default build/gpu-kit, made by `make gpu-kit`), which needs no
# compiler there. At most 8 files in OUT; summary.txt says of each stage "ok", "FAILED" or "skipped", and why.
set -u
cd "$(dirname "$0")/.." || exit 1
OUT=${1:-${OUT:-results/gpu-check}}
KIT=${KIT:-build/gpu-kit}
KVBENCH=$KIT/kvbench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$OUT" || exit 1
: >"$OUT/summary.txt"
export LD_LIBRARY_PATH=$KIT/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

say() { printf '%-12s %-8s %s\n' "$1" "$2" "$3" | tee -a "$OUT/summary.txt"; }

# The first line that speaks of an error, else the last one.
reason() { { grep -m 1 -iE 'error [0-9]|ERROR: |kvbench: ' "$1" || grep . "$1" | tail -n 1; } | cut -c1-200; }

# stage NAME LIMIT_S LOG COMMAND...
stage() {
    local name=$1 limit=$2 log=$3 begin=$SECONDS status
    shift 3
    timeout -k 5 "$limit" "$@" >"$work/log" 2>&1 </dev/null
    status=$?
    cat "$work/log" >>"$log"
    case $status in
    0) say "$name" ok "$((SECONDS - begin)) s" ;;
    124 | 137) say "$name" FAILED "took more than $limit s" ;;
    *) say "$name" FAILED "exit status $status: $(reason "$work/log")" ;;
    esac
    return $status
}

environment() {
    uname -srm
    command -v nvidia-smi && nvidia-smi || echo 'no nvidia-smi'
    command -v nvcc && nvcc --version | tail -n 2
    grep -s RmProfilingAdminOnly /proc/driver/nvidia/params
    id -u
    "$KVBENCH" doctor || true
    command -v nvidia-smi >/dev/null || { echo 'nvidia-smi is not here: no NVIDIA driver'; return 1; }
}

# What counters said of 4 GB that were read and of one product of 8192 x 8192 matrices, in the ceilings' own words ($0: their
# file).
calibrated() {
    local line
    line=$(grep counters: "$0") || { echo "the ceilings were not measured"; return 1; }
    echo "$line"
    # "(R) ... (R)": counted over known
    sed -nE 's/.*\(([0-9.]+)\);.*\(([0-9.]+)\).*/\1 \2/p' <<<"$line" |
        awk '{ n++; bad = $1 < 0.97 || $1 > 1.05 || $2 < 0.99 || $2 > 1.01 } END { exit !n || bad }'
}

sweep() {
    "$KVBENCH" sweep configs/gpu-check.json --out "$work/sweep" || return
}

[ -x "$KVBENCH" ] || { say kit FAILED "no $KVBENCH: make gpu-kit"; exit 1; }
export -f environment calibrated sweep
export KVBENCH work
stage environment 20 "$OUT/environment.txt" bash -c environment
stage ceilings 45 "$OUT/ceilings.txt" "$KVBENCH" ceilings --backend cuda --out "$OUT/ceilings-cuda0.json"
stage counters 10 "$work/counters.txt" bash -c calibrated "$OUT/ceilings.txt"
cat "$work/counters.txt" >>"$OUT/summary.txt"
# The tests that run on the emulator elsewhere, on the device: each kernel against its formula, tokens as the sampler draws
# them and random weights to the bit, and the logits of tiny models against the cpu backend's.
device_test() { # NAME PROGRAM LIMIT_S
    if [ -x "$KIT/$2" ]; then
        stage "$1" "$3" "$OUT/tests.txt" "$KIT/$2"
    else
        say "$1" skipped "no $KIT/$2"
    fi
}
device_test kernels test_cuda_kernels 30
device_test sampling test_cuda_sample 20
device_test verify test_cuda_backend 45
mkdir -p "$work/sweep"
cp -f "$OUT/ceilings-cuda0.json" "$work/sweep/" 2>/dev/null
stage sweep 180 "$work/sweep.txt" bash -c sweep
cat "$work/sweep.txt" >>"$OUT/summary.txt"
for file in gpu-check.csv gpu-check.ops.csv gpu-check.meta.json; do
    [ -e "$work/sweep/$file" ] && cp "$work/sweep/$file" "$OUT/"
done
say total "$(grep -c ' ok ' "$OUT/summary.txt") ok" "$(grep -c ' FAILED ' "$OUT/summary.txt") failed, $SECONDS s, $(du -sk "$OUT" | cut -f1) KiB in $OUT"
! grep -q ' FAILED ' "$OUT/summary.txt"
