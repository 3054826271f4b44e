#!/bin/bash
# usage: spills.sh FILE.ptxas...   What ptxas said of kernels: prints those that spill registers to memory, but for the ones
# listed here with a reason and those of up to 16 bytes, which cost nothing. Prints nothing when there are no others.
set -u
# decode_kernel<8>: heads of 256 values, whose 16 x 256 sums alone take 128 registers of each thread. Gemma has them.
allowed='decode_kernelILi8E'
awk -v allowed="$allowed" '
    /Compiling entry function/ { match($0, /function .[^ ]+. for .[^ ]+/); kernel = substr($0, RSTART + 9, RLENGTH - 9) }
    /bytes spill stores/ {
        match($0, /[0-9]+ bytes spill stores/)
        if (substr($0, RSTART) + 0 > 16 && kernel !~ allowed) print kernel ": " substr($0, RSTART, RLENGTH)
    }' "$@"
