#!/bin/bash
# Files that are not what they should be: one line says what they are instead.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

status=2
refused() { # NAME PATH REGEX: verify and inspect refuse the model in one line
    for command in 'verify --model' inspect; do
        # shellcheck disable=SC2086 # words on purpose
        run $status "$1 ($command)" "$KVBENCH" $command "$2"
        one_err
        no_out
        err "$3"
    done
}
lfs='version https://git-lfs.github.com/spec/v1
oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393
size 98362432'
html='<!DOCTYPE html><html><head><title>404</title></head><body>Not found</body></html>'

: >"$WORK/empty.gguf"
refused 'an empty GGUF' "$WORK/empty.gguf" "empty.gguf' is empty, not a GGUF file \(a failed download\?\)"
echo "$html" >"$WORK/page.gguf"
refused 'an HTML page' "$WORK/page.gguf" "page.gguf' is an HTML page, not a GGUF file"
echo "$lfs" >"$WORK/pointer.gguf"
refused 'a Git LFS pointer' "$WORK/pointer.gguf" "pointer.gguf' is a Git LFS pointer, not a GGUF file .*git lfs pull"
size=$(stat -c %s tests/golden/gguf/qwen3-bf16.gguf)
head -c $((size / 2)) tests/golden/gguf/qwen3-bf16.gguf >"$WORK/half.gguf"
refused 'half a GGUF' "$WORK/half.gguf" "half.gguf': .* reaches beyond the end of the file \(truncated: an unfinished download\?\)"
cp tests/golden/qwen3/model.safetensors "$WORK/renamed.gguf"
refused 'safetensors by the name of GGUF' "$WORK/renamed.gguf" "is a safetensors file, not a GGUF file"
status=3 # sound files, but of a kind that nothing here reads
printf 'GGUF\1\0\0\0\0\0\0\0\0\0\0\0' >"$WORK/v1.gguf"
refused 'GGUF version 1' "$WORK/v1.gguf" "GGUF version 1, expected 2 or 3"
printf 'GGUF\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0' >"$WORK/big.gguf"
refused 'a big-endian GGUF' "$WORK/big.gguf" "big-endian"
status=2
# one tensor 'x' of 2^63 values: no metadata, one dimension, type F32, offset 0
printf 'GGUF\3\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0x\1\0\0\0\0\0\0\0\0\0\0\200\0\0\0\0\0\0\0\0\0\0\0\0' >"$WORK/huge.gguf"
refused 'a tensor of 2^63 values' "$WORK/huge.gguf" "tensor 'x' is said to have 9.22337e\+18 values"
cp tests/golden/gguf/qwen3-bf16.gguf "$WORK/m-00001-of-00002.gguf"
refused 'a part without the other' "$WORK/m-00001-of-00002.gguf" "m-00002-of-00002.gguf': part 2 of 2 is missing"

fresh() { # NAME: a copy of a golden folder
    rm -rf "$WORK/model"
    cp -r "tests/golden/$1" "$WORK/model"
}
weights() { # NAME REGEX: with standard input as model.safetensors
    cat >"$WORK/model/model.safetensors"
    refused "$1" "$WORK/model" "$2"
}
fresh qwen3
weights 'empty safetensors' "model.safetensors' is empty" </dev/null
weights 'an HTML page as safetensors' 'is an HTML page, not a safetensors file' <<<"$html"
weights 'a Git LFS pointer as safetensors' 'is a Git LFS pointer, not a safetensors file' <<<"$lfs"
weights 'half of a safetensors file' 'reaches beyond the end of the file' < <(head -c 60000 tests/golden/qwen3/model.safetensors)
header='{"x":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}}'
# shellcheck disable=SC2059 # the length is written in octal
weights 'safetensors with 2^63 values' "shape of tensor 'x' is too large" \
    < <(printf "\\$(printf %o ${#header})\\0\\0\\0\\0\\0\\0\\0%sabcd" "$header")
rm "$WORK/model/model.safetensors"
run 2 'a folder without weights' "$KVBENCH" verify --model "$WORK/model"
one_err
err 'holds no weights, expected safetensors or a GGUF file'
rm "$WORK/model/config.json"
refused 'a folder without anything' "$WORK/model" 'no config.json in this folder'
cp tests/golden/gguf/qwen3-bf16.gguf "$WORK/model/"
refused 'a folder around a GGUF file' "$WORK/model" "no config.json in this folder, but 'qwen3-bf16.gguf'"
fresh llama-mha
rm "$WORK/model/model-00002-of-00004.safetensors"
refused 'a shard missing' "$WORK/model" "shard 'model-00002-of-00004.safetensors', one of 4 that the index names, is missing"
fresh llama-mha
sed -i 's/model.norm.weight/model.morn.weight/' "$WORK/model/model.safetensors.index.json"
refused 'an index that names what is not there' "$WORK/model" "tensor 'model.morn.weight' is in none of its shards"
echo "$lfs" >"$WORK/model/config.json"
refused 'a Git LFS pointer as config.json' "$WORK/model" "config.json' is a Git LFS pointer, not JSON"
echo "$html" >"$WORK/tokenizer.json"
run 2 'an HTML page as tokenizer.json' "$KVBENCH" tokenize --model "$WORK/tokenizer.json"
one_err
err "tokenizer.json' is an HTML page"
finish
