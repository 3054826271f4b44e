#!/bin/bash
# tools/gpu_check.sh where there is no GPU: it runs to its end, and each stage says why it could not; its sweep is planned.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

mkdir "$WORK/kit"
ln -s "$PWD/$KVBENCH" "$WORK/kit/kvbench"
if command -v nvidia-smi >/dev/null; then
    skip 'the script without a GPU' 'this machine has one'
else
    run 1 'the script without a GPU' env KIT="$WORK/kit" tools/gpu_check.sh "$WORK/results"
    out '^environment +FAILED .*nvidia-smi is not here'
    out '^ceilings +FAILED .*no NVIDIA driver'
    out '^counters +FAILED .*not measured'
    out '^kernels +skipped .*no .*/kit/test_cuda_kernels'
    out '^verify +skipped'
    for part in decode prefill decode-fp8 decode-int8; do
        out "^$part +FAILED .*no NVIDIA driver"
    done
    out '^total +0 ok +7 failed'
    [ "$(find "$WORK/results" -type f | wc -l)" -le 8 ] || complain 'more than 8 files'
fi
run 1 'the script without its programs' env KIT="$WORK/none" tools/gpu_check.sh "$WORK/results"
out 'make gpu-kit'

run 0 'its sweep fits the smallest of such GPUs' "$KVBENCH" sweep configs/gpu-check.json --dry-run --hardware h100-sxm
out '^20 points, 20 fit in'
finish
