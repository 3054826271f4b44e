#!/bin/bash
# usage: gpu_check.sh [OUT]   (or OUT=FOLDER gpu_check.sh; default results/gpu-check)
# Everything that only a machine with an NVIDIA GPU can show, in under 6 minutes and without a network: which driver and
# permissions there are, whether the device's counters count work of known size, what the device attains, the kernels'
# tests on it, the same logits as elsewhere, and the sweep configs/gpu-check.json. Each stage has a limit of its own, and
# one that fails hides no other: the sweep is run in parts, since a kernel that faults takes its process with it. Programs
# come from KIT (default build/gpu-kit, made by `make gpu-kit`) or, where that is not there, from KIT.tar.gz; they need no
# compiler there, but the machine's cuBLAS and CUPTI. At most 8 files in OUT; summary.txt says of each stage "ok", "FAILED" or "skipped", and why.
set -u
cd "$(dirname "$0")/.." || exit 1
OUT=${1:-${OUT:-results/gpu-check}}
KIT=${KIT:-build/gpu-kit}
[ -d "$KIT" ] || [ ! -e "$KIT.tar.gz" ] || tar -xzf "$KIT.tar.gz" -C "$(dirname "$KIT")"
KVBENCH=$KIT/kvbench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$OUT" || exit 1
: >"$OUT/summary.txt"
export LD_LIBRARY_PATH=$KIT/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# Folders of cuBLAS and CUPTI where the loader does not know them: of toolkits, of Python's packages, wherever they are.
find_library() { # NAME
    local file
    PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | grep -qF "$1" && return
    for file in "${CUDA_HOME:-/usr/local/cuda}"/lib64/"$1" /usr/local/cuda*/{lib64,targets/x86_64-linux/lib,extras/CUPTI/lib64}/"$1"; do
        [ -e "$file" ] && echo "${file%/*}" && return
    done
    file=$(timeout 15 find / \( -path /proc -o -path /sys \) -prune -o -name "$1" -print -quit 2>/dev/null)
    echo "${file%/*}"
}
[ -e /usr/local/nvidia/lib64/libcuda.so.1 ] && LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/usr/local/nvidia/lib64 # containers' driver
for library in libcublas.so.13 libcupti.so.13; do
    command -v nvidia-smi >/dev/null && folder=$(find_library $library) || folder=
    LD_LIBRARY_PATH=$LD_LIBRARY_PATH${folder:+:$folder}
done

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
    echo "LD_LIBRARY_PATH $LD_LIBRARY_PATH"
    ldd "$KIT/kvbench-cuda.so"
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

# As the catalogue calls this GPU.
catalogued() {
    case $(nvidia-smi --query-gpu=name --format=csv,noheader) in
    *H200*) echo h200-sxm ;;
    *H100*PCIe*) echo h100-pcie ;;
    *H100*) echo h100-sxm ;;
    *A100*) echo a100-sxm-80gb ;;
    *B200*) echo b200 ;;
    *) echo auto ;;
    esac
}

# The points whose key matches $0, beside those already there. Without measured ceilings the datasheet's must do.
sweep() {
    local hardware=auto
    [ -e "$work/sweep/ceilings-cuda0.json" ] || hardware=$(catalogued)
    exec "$KVBENCH" sweep configs/gpu-check.json --out "$work/sweep" --hardware "$hardware" --resume --filter "$0" --quiet
}

[ -x "$KVBENCH" ] || { say kit FAILED "no $KVBENCH: make gpu-kit"; exit 1; }
export -f environment calibrated catalogued sweep
export KVBENCH KIT work
stage environment 15 "$OUT/environment.txt" bash -c environment

# A stage that ends by a signal or by its limit may owe that to CUPTI: from then on the loader finds an empty one, and all
# goes on with timers.
hide_cupti() { # STATUS
    if [ "$1" -lt 124 ] || [ -e "$work/none" ]; then return 1; fi
    mkdir "$work/none" && : >"$work/none/libcupti.so.13"
    LD_LIBRARY_PATH=$work/none:$LD_LIBRARY_PATH
    say CUPTI hidden 'from here on'
}
ceilings() { stage ceilings 35 "$OUT/ceilings.txt" "$KVBENCH" ceilings --backend cuda --out "$OUT/ceilings-cuda0.json"; }
ceilings || { hide_cupti $? && ceilings; }
stage counters 5 "$work/counters.txt" bash -c calibrated "$OUT/ceilings.txt"
cat "$work/counters.txt" >>"$OUT/summary.txt"
# The tests that run on the emulator elsewhere, on the device: which lane holds what, each kernel against its formula, tokens
# as the sampler draws them and random weights to the bit, products by libraries, and the logits of tiny models against the
# cpu backend's.
device_test() { # NAME PROGRAM LIMIT_S
    if [ -x "$KIT/$2" ]; then
        stage "$1" "$3" "$OUT/tests.txt" "$KIT/$2"
    else
        say "$1" skipped "no $KIT/$2"
    fi
}
device_test fragments test_cuda_fragments 10
device_test kernels test_cuda_kernels 30
device_test verify test_cuda_backend 35
mkdir -p "$work/sweep"
cp -f "$OUT/ceilings-cuda0.json" "$work/sweep/" 2>/dev/null
died=
part() { # NAME KEYS LIMIT_S
    stage "$1" "$3" "$work/sweep.txt" bash -c sweep "$2" || { hide_cupti $? && died=yes; }
}
part decode 'decode/.*/kv-bf16' 75
part prefill prefill 40
part decode-fp8 'decode/.*/kv-fp8' 45
part decode-int8 'decode/.*/kv-int8' 45
[ $died ] && [ $SECONDS -lt 320 ] && part rest . $((345 - SECONDS))
device_test blas test_cuda_blas 10
device_test sampling test_cuda_sample 10
for file in gpu-check.csv gpu-check.ops.csv gpu-check.meta.json; do
    [ -e "$work/sweep/$file" ] && cp "$work/sweep/$file" "$OUT/"
done
[ -e "$OUT/gpu-check.csv" ] || cp "$work/sweep/gpu-check.jsonl" "$OUT/" 2>/dev/null # of a sweep that was killed
say total "$(grep -c ' ok ' "$OUT/summary.txt") ok" "$(grep -c ' FAILED ' "$OUT/summary.txt") failed, $SECONDS s, $(du -sk "$OUT" | cut -f1) KiB in $OUT"
failed=$(grep -c ' FAILED ' "$OUT/summary.txt")
cat "$work/sweep.txt" >>"$OUT/summary.txt" # last, since it has verdicts of its own
[ "$failed" -eq 0 ]
