#include "bench/sample_block.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// Numbers of a point's surroundings by name. Counts are below 2^53.
#define SURROUNDINGS(X)                                                                                                     \
    X(wall_ns, disturbance.wall_ns, i64)                                                                                    \
    X(waited_ns, disturbance.waited_ns, i64)                                                                                \
    X(other_cpu_ns, disturbance.other_cpu_ns, i64)                                                                          \
    X(steal_ns, disturbance.steal_ns, i64)                                                                                  \
    X(involuntary, disturbance.involuntary, i64)                                                                            \
    X(first_kHz, disturbance.first_kHz, real)                                                                               \
    X(last_kHz, disturbance.last_kHz, real)                                                                                 \
    X(affinity_changed, disturbance.affinity_changed, flag)                                                                 \
    X(gpu_MHz, gpu.clock_MHz, real)                                                                                         \
    X(gpu_W, gpu.power_W, real)                                                                                             \
    X(gpu_C, gpu.temperature_C, real)                                                                                       \
    X(gpu_limits, gpu.limits, bits)

typedef int64_t surroundings_i64;
typedef double surroundings_real;
typedef bool surroundings_flag;
typedef unsigned long long surroundings_bits;
#define LEAST_i64 (-1)
#define LEAST_real 0
#define LEAST_flag 0
#define LEAST_bits 0

void surroundings_init(struct surroundings *s)
{
    *s = (struct surroundings){0};
    gpu_state_init(&s->gpu);
}

static cJSON *surroundings_json(const struct surroundings *s)
{
    cJSON *json = cJSON_CreateObject();
#define X(name, field, kind)                                                                                                \
    if (isfinite((double)s->field))                                                                                         \
        cJSON_AddNumberToObject(json, #name, (double)s->field);
    SURROUNDINGS(X)
#undef X
    cJSON_AddItemToObject(json, "edge_flops", cJSON_CreateDoubleArray(s->edge_flops, s->n_edges));
    cJSON_AddItemToObject(json, "edge_read", cJSON_CreateDoubleArray(s->edge_read, s->n_edges));
    return json;
}

// How many numbers; what is no number, or infinite, is 0.
static int32_t read_numbers(const cJSON *list, double *out, int32_t most)
{
    int32_t n = 0;
    for (const cJSON *m = cJSON_IsArray(list) ? list->child : NULL; m && n < most; m = m->next)
        out[n++] = cJSON_IsNumber(m) && isfinite(m->valuedouble) ? m->valuedouble : 0;
    return n;
}

// What any of the types can hold; only counts of the kernel may be negative: not told.
static bool read_number(const cJSON *json, const char *name, double least, double *out)
{
    const cJSON *m = json_member(json, name);
    *out = cJSON_IsNumber(m) ? m->valuedouble : NAN;
    return *out >= least && *out < 0x1p53;
}

static void surroundings_parse(struct surroundings *s, const cJSON *json)
{
    double v;
    surroundings_init(s);
#define X(name, field, kind)                                                                                                \
    if (read_number(json, #name, LEAST_##kind, &v))                                                                         \
        s->field = (surroundings_##kind)v;
    SURROUNDINGS(X)
#undef X
    int32_t n = read_numbers(json_member(json, "edge_read"), s->edge_read, 2 * N_BLOCKS);
    s->n_edges = read_numbers(json_member(json, "edge_flops"), s->edge_flops, 2 * N_BLOCKS);
    s->n_edges = n < s->n_edges ? n : s->n_edges;
}

cJSON *sample_block_json(const struct sample_block *b)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "key", b->key);
    cJSON_AddNumberToObject(json, "block", b->block);
    cJSON_AddStringToObject(json, "test_time", b->test_time);
    cJSON_AddItemToObject(json, "samples_ns", cJSON_CreateDoubleArray(b->sample_ns, b->n));
    cJSON_AddItemToObject(json, "samples_probe", cJSON_CreateDoubleArray(b->probe, b->n));
    cJSON_AddItemToObject(json, "beside", surroundings_json(&b->beside));
    return json;
}

static bool make_lists(struct sample_block *b, struct error *e)
{
    b->sample_ns = calloc((size_t)b->n + 1, 2 * sizeof *b->sample_ns);
    b->probe = b->sample_ns + b->n;
    return b->sample_ns || error_set(e, ERROR_MEMORY, "no memory for a block of samples");
}

bool sample_block_parse(struct sample_block *b, const cJSON *json, const char *where, struct error *e)
{
    const char *key = "", *time = "";
    const cJSON *samples = json_member(json, "samples_ns"), *probes = json_member(json, "samples_probe");
    *b = (struct sample_block){.n = cJSON_GetArraySize(samples)};
    if (!json_string(json, where, "key", &key, e) || !json_string(json, where, "test_time", &time, e) ||
        !json_i32(json, where, "block", 0, INT32_MAX, &b->block, e) || !make_lists(b, e))
        return false;
    snprintf(b->key, sizeof b->key, "%s", key);
    snprintf(b->test_time, sizeof b->test_time, "%s", time);
    surroundings_parse(&b->beside, json_member(json, "beside"));
    if (read_numbers(samples, b->sample_ns, b->n) == b->n && read_numbers(probes, b->probe, b->n) == b->n)
        return true;
    free(b->sample_ns);
    return error_set(e, ERROR_FILE, "'%s': not a block of samples", where);
}

bool sample_block_copy(struct sample_block *to, const struct sample_block *from, struct error *e)
{
    size_t size = (size_t)from->n * sizeof *from->sample_ns;
    *to = *from;
    if (!make_lists(to, e))
        return false;
    memcpy(to->sample_ns, from->sample_ns, size);
    memcpy(to->probe, from->probe, size);
    return true;
}
