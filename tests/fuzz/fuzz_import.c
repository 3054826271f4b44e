// Results of other benchmarks: whatever is read becomes rows that can be written and read again, and no roof is below its
// bound.
#include "bench/import.h"

#include <math.h>
#include <stdlib.h>

static void check(const struct result *r)
{
    int32_t n;
    const struct column *column = result_columns(&n);
    static struct result again;
    struct error e;
    cJSON *json = row_json(column, n, r);
    result_init(&again);
    if (!json || !row_from_json(column, n, json, "written", &again, &e))
        abort();
    result_free(&again);
    cJSON_Delete(json);
    if (r->bound_ns > r->roof_ns * 1.000001 || !*r->verdict)
        abort();
}

// Long runs take long to price and go the same way as short ones; what is too long to be priced stays so.
static void shorten(struct import_facts *f)
{
    if (f->n_gen > 4 && f->n_gen < 1 << 24)
        f->n_gen = 4;
    if (f->n_prompt > 32 && f->n_prompt < 1 << 22)
        f->n_prompt = 32;
    if (f->batch > 16 && f->batch < 1 << 16)
        f->batch = 16;
    if (f->kind == IMPORT_SERVE && f->batch < 1)
        f->batch = 16;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct import_catalogue *catalogue;
    static const struct import_flags flags = IMPORT_NO_FLAGS;
    struct import_list list = {0};
    const struct import_format *used = NULL;
    const struct hardware *hw;
    struct error e = {0};
    if (!catalogue && !(catalogue = import_catalogue_open(&e)))
        abort();
    bool ok = import_parse(&list, (const char *)data, size, "fuzz", NULL, &used, &e);
    if (!ok && !*e.message)
        abort();
    for (int32_t i = 0; i < list.n && i < 4; i++) {
        struct result r;
        shorten(&list.row[i]);
        if (!import_row(catalogue, &list.row[i], &flags, &r, &hw, &e))
            abort();
        check(&r);
        result_free(&r);
    }
    import_free(&list);
    return 0;
}
