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

# Programs that die while they see CUPTI, where there seems to be a GPU.
mkdir -p "$WORK/dies" "$WORK/bin" "$WORK/cuda/lib64"
touch "$WORK"/cuda/lib64/lib{cublas,cupti}.so.13
cat >"$WORK/dies/kvbench" <<'END'
#!/bin/bash
case $1 in ceilings | sweep) [[ $LD_LIBRARY_PATH == */none:* ]] || kill -SEGV $$ ;; esac
[[ $* == *kv-fp8* ]] && kill -ABRT $$
echo "done: $*"
END
printf '#!/bin/sh\necho NVIDIA H200\n' >"$WORK/bin/nvidia-smi"
chmod +x "$WORK/dies/kvbench" "$WORK/bin/nvidia-smi"
run 1 'programs that die by CUPTI' env PATH="$WORK/bin:$PATH" CUDA_HOME="$WORK/cuda" KIT="$WORK/dies" tools/gpu_check.sh "$WORK/died"
out '^ceilings +FAILED +exit status 139'
out '^CUPTI +hidden'
out '^ceilings +ok'
out '^decode +ok'
out '^decode-fp8 +FAILED'
out '^decode-int8 +ok'
summary=$(<"$WORK/died/summary.txt")
[[ $summary == *'--hardware h200-sxm --resume --filter prefill'* ]] || complain 'the datasheet does not stand in for ceilings'

run 0 'its sweep fits the smallest of such GPUs' "$KVBENCH" sweep configs/gpu-check.json --dry-run --hardware h100-sxm
out '^20 points, 20 fit in'
finish
