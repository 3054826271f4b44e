#!/bin/bash
# The published JSON Schemas: what is printed, and that a schema validator agrees with the program (needs Python's jsonschema).
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

for schema in scenario result meta; do
    run 0 "the schema of a $schema" "$KVBENCH" list "schema-$schema"
    is "is published in configs/schema" "$(cksum <configs/schema/$schema.json)" "$(cksum <"$WORK/out")"
done
run 2 'another schema' "$KVBENCH" list schema-other
one_err
if ! python3 -c 'import jsonschema' 2>/dev/null; then
    skip 'a validator agrees' "python3 has no jsonschema"
    finish
fi
cat >"$WORK/check.py" <<'END'
import json, sys
import jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
bad = 0
for path in sys.argv[2:]:
    lines = open(path).read()
    for text in lines.splitlines() if path.endswith(".jsonl") else [lines]:
        for error in validator.iter_errors(json.loads(text)):
            print(path, list(error.path), error.message[:200])
            bad = 1
sys.exit(bad)
END
# shellcheck disable=SC2317 # called by run
check() { python3 "$WORK/check.py" "$@"; }
run 0 'our scenarios are valid' check configs/schema/scenario.json configs/*.json
echo '{"name": "s", "model": "tests/golden/qwen3", "samples": 3, "seconds": 0.1, "decode": {"context": [8, 16, 24], "kv": "f32"}}' >"$WORK/s.json"
run 0 'a sweep of one' "$KVBENCH" sweep "$WORK/s.json" --out "$WORK/r"
run 0 'its rows are valid' check configs/schema/result.json "$WORK/r/s.jsonl"
run 0 'its meta file is' check configs/schema/meta.json "$WORK/r/s.meta.json"
sed 's/"median_ns":[0-9.e]*/"median_ns":"fast"/' "$WORK/r/s.jsonl" >"$WORK/bad.jsonl"
run 1 'a row with a word for a time is not' check configs/schema/result.json "$WORK/bad.jsonl"
for wrong in '{}' '{"model": "m", "decode": {"context": []}}' '{"model": "m", "contxt": 1}' '{"model": "m", "seconds": -1}' \
    '{"model": "m", "decode": {"kv": "int9"}}' '{"model": "m", "backend": "gpu"}'; do
    echo "$wrong" >"$WORK/bad.json"
    run 1 "the validator refuses $wrong" check configs/schema/scenario.json "$WORK/bad.json"
    run 2 'as does the program' "$KVBENCH" predict "$WORK/bad.json"
done
finish
