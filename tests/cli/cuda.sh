#!/bin/bash
# Starting with all, some or nothing of what the CUDA backend needs: one readable line each, the CPU instead under `auto`,
# exit status 3 when asked by name. And what the plug-in is made of.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

plugin=$(dirname "$KVBENCH")/kvbench-cuda.so
NVCC=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)

# shellcheck disable=SC2317 # run calls it
kvbench() { # FOLDER BACKEND: a step of a tiny model, with the plug-ins of a folder ('': wherever they are)
    env ${1:+KVBENCH_BACKEND_DIR="$1"} "$KVBENCH" run --model tests/golden/qwen3 --batch 1 --context 8 --samples 1 \
        --seconds 0.01 --backend "$2"
}

refused() { # WHAT FOLDER REGEX: by name and under auto
    run 3 "$1, by name" kvbench "$2" cuda
    one_err
    err "$3"
    no_out
    run 0 "$1, auto" kvbench "$2" auto
    err "$3.*; using cpu"
}

mkdir "$WORK/none"
refused 'no plug-in' "$WORK/none" "no CUDA backend: .*$WORK/none/kvbench-cuda.so.* is not there"
if [ ! -e /dev/nvidia0 ]; then
    run 3 'no driver, by name' kvbench '' cuda
    one_err
    err 'no NVIDIA driver \(libcuda.so.1\)'
    run 0 'no driver, auto' kvbench '' auto
    ! grep -q . "$WORK/err" || ! grep -qi 'cuda' "$WORK/err" || complain 'it mentions CUDA'
fi

# Plug-ins of another kind: of another build, one without the symbol, one whose library is missing.
make_plugin() { # FOLDER SOURCE FLAGS...
    mkdir "$WORK/$1"
    echo "$2" >"$WORK/$1/p.c"
    gcc -shared -fPIC -o "$WORK/$1/kvbench-cuda.so" "$WORK/$1/p.c" "${@:3}"
}
make_plugin other 'struct { unsigned abi, bytes; void *open; } p = {99, 1, 0}; void *kvbench_cuda_plugin_1(void) { return &p; }'
refused 'a plug-in of another build' "$WORK/other" 'is of another build of kvbench'
make_plugin bare 'int x;'
refused 'a plug-in without its function' "$WORK/bare" 'kvbench_cuda_plugin_1'
mkdir "$WORK/lib"
echo 'int cublas(void) { return 0; }' | gcc -shared -fPIC -x c -Wl,-soname,libcublas.so.99 -o "$WORK/lib/libcublas.so" -
make_plugin blas 'int cublas(void); void *kvbench_cuda_plugin_1(void) { cublas(); return 0; }' -L"$WORK/lib" -lcublas
refused 'no cuBLAS' "$WORK/blas" 'libcublas.so.99'
echo text >"$WORK/bare/kvbench-cuda.so"
refused 'a plug-in that is no library' "$WORK/bare" 'kvbench-cuda.so'

if [ ! -x "$NVCC" ]; then
    skip 'the plug-in' 'nvcc is not installed (make deps-cuda)'
elif [ ! -e "$plugin" ]; then
    skip 'the plug-in' 'it was not built (CUDA=0, or the sanitizer build)'
elif [ -e /dev/nvidia0 ]; then
    skip 'the plug-in without a driver' 'there is one'
else
    refused 'the plug-in without a driver' "$(dirname "$plugin")" 'no CUDA device: .*\(cudaError(InsufficientDriver|NoDevice)\)'
    stubs=$(dirname "$(dirname "$(readlink -f "$NVCC")")")/lib64/stubs
    mkdir "$WORK/stub"
    if [ -e "$stubs/libcuda.so" ]; then
        ln -s "$stubs/libcuda.so" "$WORK/stub/libcuda.so.1"
        export LD_LIBRARY_PATH=$WORK/stub
        refused "the toolkit's stub driver" "$(dirname "$plugin")" 'no CUDA device: .*\(cudaErrorStubLibrary\)'
        unset LD_LIBRARY_PATH
    else
        skip "the toolkit's stub driver" "$stubs/libcuda.so is not there"
    fi
fi

build=$(dirname "$KVBENCH")
if [ -d "$build/device/engine/cuda" ]; then
    is 'kernels keep their values in registers' "$(tools/spills.sh "$build"/device/engine/cuda/*.ptxas)" ''
else
    skip 'kernels keep their values in registers' 'nvcc did not compile them'
fi

# What each NEEDs.
needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\.so.*/\1/p' | sort | tr '\n' ' '; }
if command -v readelf >/dev/null; then
    is 'kvbench needs no NVIDIA library' "$(needed "$KVBENCH" | grep -cE 'cu(da|blas|pti)|nv')" 0
    if [ -e "$plugin" ]; then
        is 'the plug-in needs cuBLAS and the C library' \
            "$(needed "$plugin" | tr ' ' '\n' | grep -vxE 'libcublas|libcublasLt|libc|libm|libdl|librt|libpthread|ld-linux-x86-64|')" ''
        is 'it shows one function' "$(nm -D --defined-only "$plugin" | awk '{ print $3 }')" kvbench_cuda_plugin_1
    fi
fi
finish
