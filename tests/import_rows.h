// Rows of results from a text that kvbench import reads, and what they should say.
#ifndef TESTS_IMPORT_ROWS_H
#define TESTS_IMPORT_ROWS_H

#include "bench/import.h"
#include "tests/files.h"

#include <math.h>

#define HEADER                                                                                                              \
    "id,engine,gpu,n_gpu,model,weight_dtype,weight_bits_eff,kv_dtype,compute_dtype,batch,prompt_len,output_len,phase,"      \
    "tokens_per_s,ms_per_step,stated_GBps,stated_TFLOPS,bytes_per_step_GB_override,check,notes\n"

static struct import_catalogue *catalogue;
static const struct import_flags NO_FLAGS = IMPORT_NO_FLAGS;

static inline int open_catalogue(void **state)
{
    struct error e;
    (void)state;
    return (catalogue = import_catalogue_open(&e)) ? 0 : -1;
}

static inline int close_catalogue(void **state)
{
    (void)state;
    import_catalogue_close(catalogue);
    return 0;
}

// The rows of a text as results; the caller frees their lists, of which most have none.
static inline int32_t rows_of(const char *text, const struct import_flags *flags, struct result *row, int32_t most)
{
    struct import_list list = {0};
    const struct import_format *used = NULL;
    const struct hardware *hw;
    struct error e = {0};
    if (!import_parse(&list, text, strlen(text), "test", NULL, &used, &e))
        fail_msg("%s", e.message);
    int32_t n = list.n;
    assert_true(n <= most);
    for (int32_t i = 0; i < n; i++)
        assert_true(import_row(catalogue, &list.row[i], flags, &row[i], &hw, &e));
    import_free(&list);
    return n;
}

// One line of a table.
static inline struct result row_with(const char *cells, const struct import_flags *flags)
{
    struct result row;
    char text[1024];
    snprintf(text, sizeof text, HEADER "%s\n", cells);
    assert_int_equal(rows_of(text, flags, &row, 1), 1);
    return row;
}

static inline struct result row_of(const char *cells)
{
    return row_with(cells, &NO_FLAGS);
}

static inline void assert_near(double x, double expected, double relative)
{
    if (!(fabs(x / expected - 1) <= relative))
        fail_msg("%.9g, expected %.9g", x, expected);
}

static inline void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' does not say '%s'", text, part);
}

static inline void assert_over_bound(const struct result *r, const char *hint)
{
    if (strcmp(r->verdict, "over-bound"))
        fail_msg("'%s' of bound %.4g, expected over-bound", r->verdict, r->bound_ns / r->median_ns);
    assert_true(r->median_ns < r->bound_ns);
    assert_says(r->reason, hint);
}

static inline void assert_within_bound(const struct result *r)
{
    if (!(r->bound_ns <= r->median_ns))
        fail_msg("at %.4g of its bound (%s)", r->bound_ns / r->median_ns, r->reason);
    assert_string_equal(r->verdict, "reported");
}

// Llama-3-8B: 32 layers of 218103808 weights, a head of 128256 x 4096 that the embedding has as well.
#define LAYERS_8B (32 * 218103808.0)
#define HEAD_8B (128256 * 4096.0)

#endif
