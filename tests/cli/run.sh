#!/bin/bash
# usage: run.sh [BUILD]   Only the command-line tests, on BUILD/kvbench and BUILD/kvcalc (default build).
cd "$(dirname "$0")/../.." || exit 1
exec tools/test.sh "${1:-build}"
