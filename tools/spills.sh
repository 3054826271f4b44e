#!/bin/bash
# usage: spills.sh FILE.ptxas...   What ptxas said of kernels: prints those that spill registers to memory, but for the ones
# of up to 16 bytes, which cost nothing. Prints nothing when there are no others.
set -u
awk '
    /Compiling entry function/ { match($0, /function .[^ ]+. for .[^ ]+/); kernel = substr($0, RSTART + 9, RLENGTH - 9) }
    /bytes spill stores/ {
        match($0, /[0-9]+ bytes spill stores/)
        if (substr($0, RSTART) + 0 > 16) print kernel ": " substr($0, RSTART, RLENGTH)
    }' "$@"
