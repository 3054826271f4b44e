// A table of logged cases: what an engine printed about its KV cache, recomputed. The columns are documented in
// roofline/CAPACITY.md. A fact that a row lacks is named; a reported number is never an input to itself.
#ifndef ROOFLINE_CASES_H
#define ROOFLINE_CASES_H

#include "roofline/catalogue.h"
#include "roofline/serving.h"

#define CASE_COLUMNS(X)                                                                                                     \
    X(id)                                                                                                                   \
    X(engine)                                                                                                               \
    X(version)                                                                                                              \
    X(model)                                                                                                                \
    X(gpu)                                                                                                                  \
    X(tp)                                                                                                                   \
    X(kv_dtype)                                                                                                             \
    X(block_size)                                                                                                           \
    X(max_model_len)                                                                                                        \
    X(available_kv_GiB)                                                                                                     \
    X(kv_tokens)                                                                                                            \
    X(num_blocks)                                                                                                           \
    X(max_concurrency)                                                                                                      \
    X(kv_size_reported)                                                                                                     \
    X(notes)                                                                                                                \
    X(v_rule)                                                                                                               \
    X(v_layers)                                                                                                             \
    X(v_kv_heads)                                                                                                           \
    X(v_head_dim)                                                                                                           \
    X(v_bytes)

// One row, as text; columns that the table lacks are "".
struct kv_case {
#define X(name) char *name;
    CASE_COLUMNS(X)
#undef X
};

struct kv_cases {
    struct kv_case *row; // [n]
    int n;
};

bool kv_cases_load(struct kv_cases *cases, const char *path, struct error *e);
bool kv_cases_parse(struct kv_cases *cases, const void *data, size_t size, const char *where, struct error *e);
void kv_cases_free(struct kv_cases *cases); // accepts zeroed

enum case_verdict { CASE_AGREES, CASE_DIFFERS, CASE_NOT_COMPUTABLE };

struct case_result {
    enum case_verdict verdict;
    bool has_size;             // the size was compared: tokens from bytes, or bytes from tokens (llama.cpp)
    const char *unit;          // "tokens" or "GiB"
    double reported, computed; // of that
    double error;              // computed / reported - 1
    bool exact;                // to the token, within the rounding of what was printed
    bool has_concurrency, concurrency_exact;
    double reported_concurrency, computed_concurrency;
    uint64_t bytes_per_token; // of one rank; 0: unknown
    char model[64];           // whose geometry was used: of the catalogue, or "v_*"
    char assumption[160];     // what was taken for a fact that the row does not state, "" if nothing
    char reason[200];         // why it differs or cannot be computed
};

// names: the models of the catalogue.
void kv_case_compute(const struct kv_case *c, const struct catalogue_name *names, int n_names, struct case_result *out);

#endif
