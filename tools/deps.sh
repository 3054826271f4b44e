#!/bin/sh
# usage: deps.sh [ci | cuda]   Installs what building, testing and plotting need (and what lint and fuzzing need, with `ci`) on
# Debian and Ubuntu; elsewhere lists it and stops. Says nothing when nothing is missing.
#
# deps.sh cuda only tells how to get the CUDA toolkit: it is large, not free software, and nothing else needs it.
set -eu

has_command() { command -v "$1" >/dev/null 2>&1; }
has_header() { echo "#include <$1>" | gcc -DPCRE2_CODE_UNIT_WIDTH=8 -fsyntax-only -E - >/dev/null 2>&1; }
has_fuzzer() {
    probe=$(mktemp) || return 1
    echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n ? 0 : 0; }' |
        clang -fsanitize=fuzzer,address -x c - -o "$probe" 2>/dev/null
    status=$?
    rm -f "$probe"
    return $status
}

if [ "${1:-}" = cuda ]; then
    nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
    [ -x "$nvcc" ] && echo "nvcc is $nvcc: make builds kvbench-cuda.so" && exit 0
    cat <<'END'
The CUDA backend is built by NVIDIA's nvcc 13.0 with cuBLAS and CUPTI. With NVIDIA's package repository for your system
(https://developer.nvidia.com/cuda-downloads), on Debian and Ubuntu:
  apt-get install cuda-nvcc-13-0 cuda-cudart-dev-13-0 cuda-crt-13-0 libcublas-dev-13-0 cuda-cupti-dev-13-0 cuda-profiler-api-13-0
or the runfile installer with --toolkit (no driver is needed for building). Then `make`, or `make NVCC=/path/to/nvcc`.
END
    exit 0
fi

missing=
need() { # PACKAGE PROBE ARGUMENT WHY
    "$2" "$3" && return
    missing="$missing $1"
    printf '  %-18s %s\n' "$1" "$4" >>"$list"
}

list=$(mktemp)
trap 'rm -f "$list"' EXIT
need gcc has_command gcc 'the compiler'
need libc6-dev has_header stdio.h 'the C library'
need make has_command make 'the build'
need libopenblas-dev has_header cblas.h 'large f32 matrix products'
need libcjson-dev has_header cjson/cJSON.h 'JSON'
need libcsv-dev has_header csv.h 'CSV'
need libpcre2-dev has_header pcre2.h 'the patterns tokenizers split by'
need libutf8proc-dev has_header utf8proc.h 'Unicode normalization'
need libcmocka-dev has_header cmocka.h 'tests'
need gnuplot-nox has_command gnuplot 'pictures'
if [ "${1:-}" = ci ]; then
    need clang has_command clang 'the second compiler'
    need clang-format has_command clang-format 'lint'
    need shellcheck has_command shellcheck 'lint of scripts'
    need libclang-rt-dev has_fuzzer '' 'fuzzing'
fi
[ -n "$missing" ] || exit 0

if ! has_command apt-get; then
    echo 'kvbench needs these, by their Debian names:' >&2
    cat "$list" >&2
    exit 1
fi
as_root=
[ "$(id -u)" -eq 0 ] || as_root=sudo
echo "installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# shellcheck disable=SC2086 # words on purpose
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
