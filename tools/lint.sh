#!/bin/bash
# usage: lint.sh   Checks of the source text that no compiler makes. Each prints one line, its findings below when it fails;
# the last line is "lint: N passed, N failed, N skipped".
set -u
passed=0 failed=0 skipped=0
mapfile -t C < <(git ls-files '*.c' '*.h' '*.cu')
mapfile -t SH < <(git ls-files '*.sh' .ci/run)
mapfile -t TEXT < <(git ls-files '*.c' '*.h' '*.cu' '*.sh' '*.gp' '*.awk' '*.md' '*.css' '*.js' '*.html' .ci/run)

check() { # NAME FUNCTION: passes if the function prints nothing
    local found
    found=$("$2")
    if [ -z "$found" ]; then
        passed=$((passed + 1))
        echo "ok    $1"
    else
        failed=$((failed + 1))
        printf 'FAILS %s\n' "$1"
        printf '      %s\n' "${found//$'\n'/$'\n'      }"
    fi
}

# Source lines as FILE:LINE:TEXT without comments to the end of the line and with empty string literals.
code() {
    grep -Hn '' "$@" | sed -E "s/\"([^\"\\\\]|\\\\.)*\"/\"\"/g; s/'([^'\\\\]|\\\\.)'/' '/g; s://.*::; s:/\*.*\*/::"
}

format() { "$clang_format" --dry-run -Werror "${C[@]}" 2>&1 | grep -E 'error:' | head -20; }

# FILE INCLUDED for each quoted include.
includes() { grep -HoE '^ *# *include "[^"]+"' "${C[@]}" | sed -E 's/: *# *include "/ /; s/"$//'; }

# tests > bench > roofline > engine > engine/base, and only upwards in that list is forbidden.
include_directions() {
    includes | awk '
        function layer(f) {
            return f ~ /^tests\// ? 5 : f ~ /^bench\// ? 4 : f ~ /^roofline\// ? 3 : f ~ /^engine\/base\// ? 1 : f ~ /^engine\// ? 2 : 0
        }
        !layer($2) { print $1 ": \"" $2 "\" is not written from the repository root"; next }
        layer($2) > layer($1) { print $1 " includes " $2 ", a layer above its own" }'
}

# What lies in a folder below engine/ is its own, but for these headers. Tests may look inside.
include_internals() {
    includes | awk '
        function part(f) { return match(f, /^engine\/(load|kv|sched|cpu|cuda|null)\//) ? substr(f, 8, RLENGTH - 8) : "" }
        BEGIN { n = split("load/model.h load/tokenizer.h load/inspect.h kv/pool.h cpu/cpu.h cpu/team.h cpu/probe.h cuda/cuda.h cuda/cover.h null/null.h", list)
                for (i = 1; i <= n; i++) public["engine/" list[i]] = 1 }
        $1 !~ /^tests\// && part($2) && part($2) != part($1) && !($2 in public) { print $1 " includes " $2 ", which is internal" }'
}

intrinsics() {
    grep -nE '# *include <(.*mmintrin|.*86intrin|arm_neon|arm_sve|cpuid)\.h>' "${C[@]}" | grep -v '^engine/cpu/'
}

banned_calls() {
    code "${C[@]}" | grep -E '(^|[^A-Za-z0-9_>.])(strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atof|rand|srand|system|popen|strtok|alloca|tmpnam) *\('
}

# Only main files and commands print or exit; tests may.
prints_and_exits() {
    local files
    mapfile -t files < <(printf '%s\n' "${C[@]}" | grep -vE '^(tests/|bench/(main|cmd_[a-z_]*)\.c$|roofline/kvcalc[a-z_]*\.c$)')
    code "${files[@]}" | grep -E '(^|[^A-Za-z0-9_>.])(printf|vprintf|puts|putchar|perror|exit|_exit|abort|assert) *\(|[^a-z]f?(printf|puts|putc|write) *\((.*, *)?stdout'
}

function_lengths() {
    local files
    mapfile -t files < <(printf '%s\n' "${C[@]}" | grep -vE '^engine/cpu/')
    awk 'FNR == 1 { begin = 0 }
        /^\{/ { begin = FNR }
        /^\}/ && begin { if (FNR - begin > 71) print FILENAME ":" begin ": " FNR - begin - 1 " lines in a function, 70 allowed"; begin = 0 }' "${files[@]}"
}

file_lengths() { wc -l "${C[@]}" | awk '$2 != "total" && $1 > 700 { print $2 ": " $1 " lines, about 600 wanted" }'; }
makefile_length() { awk 'END { if (NR >= 200) print NR " lines" }' Makefile; }
blanks() {
    grep -nE '[[:blank:]]$' "${TEXT[@]}" Makefile
    grep -nP '\t' "${TEXT[@]}"
}
scripts() { shellcheck -f gcc "${SH[@]}"; }

# Other releases of clang-format lay some lines out differently, so one of them judges.
clang_format=$(command -v clang-format-14 || command -v clang-format)
if [ -n "$clang_format" ] && "$clang_format" --version | grep -q 'version 14\.'; then
    check 'clang-format' format
else
    skipped=$((skipped + 1))
    echo 'skip  clang-format: version 14 is not installed'
fi
check 'include directions' include_directions
check 'internals of engine folders' include_internals
check 'intrinsics only in engine/cpu' intrinsics
check 'banned calls' banned_calls
check 'printing and exiting' prints_and_exits
check 'functions of at most 70 lines' function_lengths
check 'files of about 600 lines' file_lengths
check 'Makefile under 200 lines' makefile_length
check 'tabs and trailing blanks' blanks
if command -v shellcheck >/dev/null; then
    check 'shellcheck' scripts
else
    skipped=$((skipped + 1))
    echo 'skip  shellcheck: not installed'
fi
echo "lint: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
