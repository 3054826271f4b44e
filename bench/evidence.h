// What was seen of a point beside its samples: into the columns of its row, and into what its verdict rests on.
#ifndef BENCH_EVIDENCE_H
#define BENCH_EVIDENCE_H

#include "bench/rows.h"
#include "bench/trust.h"

// Probes, disturbances, counters, energy and what is absent.
void row_counted(struct result *r, const struct row_context *c, const struct subject *s);

// From a row whose statistics, price and counts are there.
void row_evidence(const struct result *r, const struct row_context *c, const struct subject *s, struct evidence *out);

#endif
