// JSON Schemas (draft 2020-12) of what kvbench reads and writes, made from the tables of keys and columns themselves.
#ifndef BENCH_SCHEMA_H
#define BENCH_SCHEMA_H

#include "engine/base/json.h"

// "scenario", "result" (a line of NAME.jsonl) or "meta" (NAME.meta.json), in this order; NULL at the end.
const char *schema_name(int i);

// The caller frees it; NULL without memory or for another name.
cJSON *schema_make(const char *name);

#endif
