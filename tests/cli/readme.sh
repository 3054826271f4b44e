#!/bin/bash
# The README shows what this build prints.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

run 0 "README's tables are the program's own (make readme)" env KVBENCH="$KVBENCH" tools/readme.sh --check
finish
