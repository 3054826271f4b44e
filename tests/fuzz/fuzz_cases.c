// Tables of cases and engine logs: whatever is read is computed without a crash, and what agrees has a number.
#include "roofline/cases.h"
#include "roofline/engine_log.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct catalogue_name *names;
    static int n_names;
    struct kv_cases cases;
    struct engine_log log;
    struct error e;
    if (!names && !catalogue_names("models", &names, &n_names, &e))
        abort();
    engine_log_read(&log, (const char *)data, size);
    if (!kv_cases_parse(&cases, data, size, "fuzz", &e))
        return 0;
    for (int i = 0; i < cases.n && i < 16; i++) {
        struct case_result r;
        kv_case_compute(&cases.row[i], names, n_names, &r);
        if (r.verdict == CASE_AGREES && r.has_size && !isfinite(r.computed))
            abort();
    }
    kv_cases_free(&cases);
    return 0;
}
