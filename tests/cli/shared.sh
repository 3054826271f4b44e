#!/bin/bash
# Acceptance checks that live beside the repository, where they do.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

if [ ! -x ../shared/check/run ]; then
    skip 'shared/check/run spine' 'there is no ../shared/check'
elif [ "${KVBENCH_SANITIZED:-0}" = 1 ]; then
    skip 'shared/check/run spine' 'it runs ./kvbench, which has no sanitizers'
else
    run 0 'shared/check/run spine' ../shared/check/run spine
fi
finish
