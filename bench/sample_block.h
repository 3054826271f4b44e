// Samples of one block of a point with what was seen beside them, as the journal of a sweep (NAME.blocks.jsonl) keeps them
// until the point is finished: a resumed point has the verdict that it would have had.
#ifndef BENCH_SAMPLE_BLOCK_H
#define BENCH_SAMPLE_BLOCK_H

#include "bench/nvml.h"
#include "bench/watch.h"
#include "engine/base/json.h"

enum { N_BLOCKS = 3 }; // of a point

// What a point's worth is judged by (bench/trust.h), over its blocks so far.
struct surroundings {
    struct disturbance disturbance;                           // during the blocks
    double edge_flops[2 * N_BLOCKS], edge_read[2 * N_BLOCKS]; // [n_edges] probes before and after each block; 0: none
    int32_t n_edges;
    struct gpu_state gpu; // after the samples
};
void surroundings_init(struct surroundings *s);

struct sample_block {
    char key[160];
    int32_t block;
    int32_t n;
    double *sample_ns, *probe;  // [n]; probe 0: none
    char test_time[32];         // when it began
    struct surroundings beside; // up to its end
};

cJSON *sample_block_json(const struct sample_block *b);
// b->sample_ns is malloc'ed, with b->probe behind it; nothing is on failure. A line of a version that did not write
// surroundings has none.
bool sample_block_parse(struct sample_block *b, const cJSON *json, const char *where, struct error *e);
bool sample_block_copy(struct sample_block *to, const struct sample_block *from, struct error *e);

#endif
