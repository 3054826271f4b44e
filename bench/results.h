// What a measurement is: one row per point. One table gives every column's name, type, unit and description; CSV, JSON,
// JSONL and the documentation come from it. Columns are only ever added; files carry RESULT_SCHEMA_VERSION.
#ifndef BENCH_RESULTS_H
#define BENCH_RESULTS_H

#include "engine/base/json.h"

#include <stdio.h>

enum { RESULT_SCHEMA_VERSION = 1 };

// field, type, unit, description. Types: text; count (int64_t); real (double); reals (list of double).
// Unknown is "", RESULT_UNKNOWN, NaN and an empty list; it is written as an empty CSV cell and as JSON null.
#define RESULT_COLUMNS(X)                                                                                                   \
    X(key, text, "", "the point's name in its scenario")                                                                    \
    X(model, text, "", "model as the scenario names it")                                                                    \
    X(phase, text, "",                                                                                                      \
      "prefill, decode or generate (prefill then decode); import: also tokens (only their arithmetic is known), and "       \
      "bandwidth, peak and link (a second of a kernel)")                                                                    \
    X(backend, text, "", "what ran it: cpu, null; predict: roofline; import: the engine")                                   \
    X(isa, text, "", "kernel set used, as --isa names it")                                                                  \
    X(hardware, text, "", "hardware whose ceilings the roof uses")                                                          \
    X(batch, count, "sequences", "sequences in one step")                                                                   \
    X(context, count, "tokens",                                                                                             \
      "positions attended by the (first) decode step, the new token included; prefill: by the last row")                    \
    X(n_prompt, count, "tokens", "prompt tokens of each sequence, one step; 0: decode only")                                \
    X(n_gen, count, "tokens", "steps of one token per sequence in one sample; 0: prefill only")                             \
    X(n_depth, count, "tokens", "positions in the KV cache before the sample")                                              \
    X(cache, count, "", "1: KV cache used; 0: every step recomputes the whole prefix")                                      \
    X(weights, text, "", "type that holds most bytes of the weights")                                                       \
    X(compute, text, "", "arithmetic type of linear layers")                                                                \
    X(type_k, text, "", "type of K in the cache")                                                                           \
    X(type_v, text, "", "type of V in the cache")                                                                           \
    X(block, count, "tokens", "tokens per KV block; 0: contiguous")                                                         \
    X(threads, count, "", "threads used")                                                                                   \
    X(tp, count, "ranks", "tensor-parallel ranks; bytes and FLOPs are one rank's")                                          \
    X(verdict, text, "",                                                                                                    \
      "the worst of `codes`, or ok; predicted: no measurement; reported: one number without its samples")                   \
    X(codes, text, "",                                                                                                      \
      "every code that applies, worst first: failed, over-bound, undersampled, contended, throttled, cache-polluted, "      \
      "cache-resident, noisy")                                                                                              \
    X(reason, text, "", "what each code rests on, and remarks (a probe far from its ceiling, a ceiling that was raised)")   \
    X(n_samples, count, "", "timed samples")                                                                                \
    X(n_blocks, count, "", "blocks of samples, separated in time by other points")                                          \
    X(n_traced, count, "", "further samples with spans traced; busy_ns and traced_ns are those of the one in the middle")   \
    X(median_ns, real, "ns", "median of the samples")                                                                       \
    X(median_low_ns, real, "ns", "lower end of the median's 95 % interval (block bootstrap)")                               \
    X(median_high_ns, real, "ns", "upper end of it")                                                                        \
    X(min_ns, real, "ns", "fastest sample")                                                                                 \
    X(avg_ns, real, "ns", "mean of the samples")                                                                            \
    X(stddev_ns, real, "ns", "sample standard deviation")                                                                   \
    X(tokens_per_s, real, "tokens/s",                                                                                       \
      "tokens of all sequences per second of median_ns (predict: of roof_ns): n_gen each, so generate counts what it "      \
      "generates over the whole time; prefill: n_prompt each")                                                              \
    X(bound_ns, real, "ns", "physics: compulsory totals at hard peaks (T0); empty where hard peaks are unknown")            \
    X(datasheet_ns, real, "ns", "the same at printed peaks (import): no bound, since hardware may beat its datasheet")      \
    X(roof_ns, real, "ns",                                                                                                  \
      "per operation max(FLOPs/peak, bytes/bandwidth) at the attainable ceilings in NAME.roofs.csv, summed (T2)")           \
    X(roof_low_ns, real, "ns", "roof at the 90th percentile of the ceiling probes")                                         \
    X(roof_high_ns, real, "ns", "roof at the 10th percentile of the ceiling probes")                                        \
    X(roof_total_ns, real, "ns", "max of the whole step's totals at attainable ceilings")                                   \
    X(roof_source, text, "", "ceilings behind roof: attainable, datasheet or hard")                                         \
    X(limit, text, "", "what most of the roof is: bandwidth, compute or link")                                              \
    X(pred_ns, real, "ns", "the executed kernels' fitted times at the ceilings in NAME.roofs.csv; empty without a fit")     \
    X(pred_fraction, real, "", "median of pred / sample, each pred at the ceiling probed beside its sample")                \
    X(roof_fraction, real, "",                                                                                              \
      "median of roof / sample, each roof at the ceiling probed beside its sample; roof_ns / median_ns is less where a "    \
      "neighbour lowered the probes")                                                                                       \
    X(roof_fraction_low, real, "", "lower end of its 95 % interval")                                                        \
    X(roof_fraction_high, real, "", "upper end of it")                                                                      \
    X(floor_ns, real, "ns", "T1: per-operation floors at hard peaks, summed")                                               \
    X(spans_ns, real, "ns", "T3: executed spans with activations across their edges, attainable ceilings")                  \
    X(busy_ns, real, "ns", "T4: union of traced span intervals")                                                            \
    X(traced_ns, real, "ns", "T5: wall time of the traced run")                                                             \
    X(serialization_ns, real, "ns", "T1 - T0: operations one after another")                                                \
    X(ceiling_ns, real, "ns", "T2 - T1: attainable ceilings below hard peaks")                                              \
    X(executed_ns, real, "ns", "T3 - T2: activations and strategies really executed")                                       \
    X(shortfall_ns, real, "ns", "T4 - T3: kernels below the ceilings")                                                      \
    X(gaps_ns, real, "ns", "T5 - T4: time between spans")                                                                   \
    X(observer_ns, real, "ns", "T6 - T5: untraced median minus traced wall")                                                \
    X(weight_bytes, real, "B", "weights read in one sample")                                                                \
    X(kv_read_bytes, real, "B", "KV read in one sample, scales included")                                                   \
    X(kv_write_bytes, real, "B", "KV written in one sample")                                                                \
    X(act_bytes, real, "B", "activations across the edges of executed spans")                                               \
    X(flops, real, "FLOP", "arithmetic in one sample; a multiply-add is 2")                                                 \
    X(intensity, real, "FLOP/B", "flops / (weight_bytes + kv_read_bytes + kv_write_bytes)")                                 \
    X(effective_GBps, real, "GB/s", "(weight_bytes + kv_read_bytes + kv_write_bytes) / median_ns")                          \
    X(effective_GFLOPps, real, "GFLOP/s", "flops / median_ns")                                                              \
    X(probe_GBps, real, "GB/s", "median of the read probes beside the samples")                                             \
    X(probe_GFLOPps, real, "GFLOP/s", "median of the arithmetic probes beside the samples (compute-limited points)")        \
    X(read_share, real, "", "read probes over the read ceiling, median")                                                    \
    X(arithmetic_share, real, "", "f32 arithmetic at the edges of its blocks over its ceiling, median")                     \
    X(arithmetic_drift, real, "", "the better of the last block over the better of the first")                              \
    X(waited_share, real, "", "share of its blocks in which a thread (the worst one) was ready to run but had no CPU")      \
    X(other_cpu_share, real, "", "share of its CPUs that other processes used meanwhile, to some 10 ms per block")          \
    X(steal_share, real, "", "share of its CPUs that the hypervisor took meanwhile, as coarse")                             \
    X(involuntary_switches, count, "", "times that its threads were taken off a CPU during its blocks")                     \
    X(cycles, real, "", "CPU cycles of one (traced) sample, all threads, user space")                                       \
    X(instructions, real, "", "instructions, likewise")                                                                     \
    X(llc_misses, real, "", "misses of the last-level cache, likewise")                                                     \
    X(page_faults, real, "", "page faults of the same sample")                                                              \
    X(context_switches, real, "", "context switches of the same sample")                                                    \
    X(dram_bytes, real, "B", "cuda: bytes that the device's memory moved in one sample of its own, by its counters")        \
    X(l2_bytes, real, "B", "bytes that its L2 moved, likewise")                                                             \
    X(tensor_flops, real, "FLOP", "operations of its tensor cores (bf16, on Hopper also fp8), likewise")                    \
    X(gpu_MHz, real, "MHz", "cuda: the lowest clock seen after a sample, by NVML")                                          \
    X(gpu_W, real, "W", "the highest power, likewise")                                                                      \
    X(gpu_C, real, "C", "the highest temperature, likewise")                                                                \
    X(gpu_limits, text, "",                                                                                                 \
      "what held its clock down then: power-cap, hardware, sync-boost, software-heat, hardware-heat, power-brake")          \
    X(energy_J, real, "J",                                                                                                  \
      "energy of one sample, over samples back to back that are not timed: processors and memory by RAPL, on cuda the GPU " \
      "by NVML")                                                                                                            \
    X(token_energy_J, real, "J", "energy_J per token, counted as tokens_per_s does")                                        \
    X(absent, text, "", "what this machine does not count or trace, with the reason")                                       \
    X(kv_bytes_per_token, count, "B", "KV of one token of one sequence, all layers")                                        \
    X(model_bytes, count, "B", "weights in memory")                                                                         \
    X(load_ns, count, "ns", "from opened files to weights in memory")                                                       \
    X(repack_ns, count, "ns", "share of load_ns that went into conversion and another order, not into reading")             \
    X(memory_bytes, count, "B",                                                                                             \
      "weights, KV and activations held by the backend: the KV pool is shared by the points that take turns, so it is "     \
      "what the largest of them needs; predict: of this point alone")                                                       \
    X(peak_memory_bytes, count, "B", "highest resident memory of the process so far")                                       \
    X(test_time, text, "", "when the first sample was taken, RFC 3339, UTC")                                                \
    X(source, text, "", "where the number is from (import): as the file cites it, or the file and its row")                 \
    X(assumed, text, "", "facts that the source does not state and what was taken for them (import)")                       \
    X(samples_ns, reals, "ns", "every sample, in order")                                                                    \
    X(samples_block, reals, "", "block of each sample")                                                                     \
    X(samples_probe, reals, "B/s or FLOP/s", "ceiling probed beside each sample")

#define RESULT_UNKNOWN INT64_MIN

typedef char result_text[256];
typedef int64_t result_count;
typedef double result_real;
typedef struct {
    double *value; // [n], owned by the row
    int32_t n;
} result_reals;

struct result {
#define X(field, type, unit, description) result_##type field;
    RESULT_COLUMNS(X)
#undef X
};

// One row per group of like spans of a point (ops.csv): where the traced time went.
#define OP_COLUMNS(X)                                                                                                       \
    X(key, text, "", "the point's name in its scenario")                                                                    \
    X(model, text, "", "model as the scenario names it")                                                                    \
    X(phase, text, "", "prefill, decode or generate")                                                                       \
    X(batch, count, "sequences", "sequences in one step")                                                                   \
    X(context, count, "tokens", "as in the main table")                                                                     \
    X(weights, text, "", "as in the main table")                                                                            \
    X(type_k, text, "", "type of K in the cache")                                                                           \
    X(type_v, text, "", "type of V in the cache")                                                                           \
    X(op, text, "", "operations of the span, joined by +")                                                                  \
    X(kernel, text, "", "kernel that ran them")                                                                             \
    X(count, count, "", "spans of this kind in one sample")                                                                 \
    X(op_ns, real, "ns", "time of all of them in the traced sample whose wall time is the median")                          \
    X(op_low_ns, real, "ns", "the same in the traced sample where they were fastest")                                       \
    X(op_high_ns, real, "ns", "where they were slowest")                                                                    \
    X(op_roof_ns, real, "ns", "roof of all of them; the sum over operations is roof_ns")                                    \
    X(op_spans_ns, real, "ns", "the same with activations across their edges; the sum is spans_ns")                         \
    X(op_limit, text, "", "what their roof is: bandwidth, compute or link")                                                 \
    X(weight_bytes, real, "B", "weights they read")                                                                         \
    X(kv_read_bytes, real, "B", "KV they read")                                                                             \
    X(kv_write_bytes, real, "B", "KV they write")                                                                           \
    X(act_bytes, real, "B", "activations across their edges")                                                               \
    X(flops, real, "FLOP", "arithmetic they do")

struct op_result {
#define X(field, type, unit, description) result_##type field;
    OP_COLUMNS(X)
#undef X
};

enum column_type { COLUMN_text, COLUMN_count, COLUMN_real, COLUMN_reals };
struct column {
    const char *name, *unit, *description;
    enum column_type type;
    size_t offset; // into its row
};
const struct column *result_columns(int32_t *n);
const struct column *op_columns(int32_t *n);

void result_init(struct result *r); // everything unknown
void result_free(struct result *r); // accepts zeroed; frees the lists
void op_result_init(struct op_result *r);

// A row of either table as text. CSV per RFC 4180; lists are joined by spaces.
void csv_header(FILE *f, const struct column *column, int32_t n);
void csv_row(FILE *f, const struct column *column, int32_t n, const void *row);
// Reads a cell as csv_row wrote it; "" leaves it unknown. False for text that is no number where one is due.
bool cell_from_text(const struct column *column, const char *text, void *row);
cJSON *row_json(const struct column *column, int32_t n, const void *row); // caller frees; unknown becomes null
// Unknown keys are ignored (files of newer versions); missing ones stay unknown; wrong types fail. Overwrites *row, which
// must be initialized.
bool row_from_json(const struct column *column, int32_t n, const cJSON *json, const char *where, void *row, struct error *e);

#endif
