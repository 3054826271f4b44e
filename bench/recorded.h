// A result as its files hold it, read again: what a sweep wrote here or on another machine, or what an import made.
#ifndef BENCH_RECORDED_H
#define BENCH_RECORDED_H

#include "bench/store.h"

struct recorded {
    char name[64];      // of the files, without folder and suffix
    char path[512];     // as it was asked for
    struct stored *row; // [n_rows], failed points too
    int32_t n_rows;
    struct hardware *hw; // [n_hw] whose ceilings the roofs use; none where no meta file lies beside the rows
    int32_t n_hw;
    cJSON *meta; // NAME.meta.json, or an empty object
};

// path: NAME.jsonl, NAME.csv (operations from NAME.ops.csv where it is there), or NAME alone, which looks for both in this
// order. Unknown columns are ignored, missing ones stay unknown. ERROR_FILE, with the line, for what is no such table; a
// last line without its newline, as a killed sweep leaves it, is dropped. Of two rows with one key and hardware the last
// counts.
bool recorded_read(struct recorded *r, const char *path, struct error *e);
// The same; a name without a folder that is no file here is one below `folder`.
bool recorded_open(struct recorded *r, const char *folder, const char *name, struct error *e);
void recorded_free(struct recorded *r); // accepts zeroed

// The first row of that key; NULL: not there.
const struct stored *recorded_find(const struct recorded *r, const char *key);

#endif
