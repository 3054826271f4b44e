// The fit of this machine, where there is one, and what it says of a point.
#ifndef BENCH_FITTED_H
#define BENCH_FITTED_H

#include "bench/points.h"
#include "roofline/fit.h"

struct fitted {
    bool known;
    struct fit fit;
    char reason[256]; // why there is none for this machine, or what to know of it; ""
};

// Where a fit is kept: FOLDER/fit.json, or fit-tN.json where a number of threads was asked for.
void fitted_path(const char *folder, int32_t threads, char out[640]);

// The fit in `folder`, unless it is of another machine, thread count or kernel set, which
// `reason` says.
void fitted_find(struct fitted *p, const char *folder, int32_t threads, const struct hardware *hw, const char *isa);
void fitted_free(struct fitted *p); // accepts zeroed

// The time of one sample of a point on the cpu backend, at the ceilings of hw. *ns is 0 where the fit has not seen one of
// its kernels: `missing` names it.
bool point_predict(const struct fitted *p, const struct plan *plan, const struct point *point, const struct hardware *hw,
                   double *ns, char missing[FIT_NAME], struct error *e);

#endif
