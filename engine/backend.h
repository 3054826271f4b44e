// What can walk a plan. A backend first covers it (groups adjacent operations into the kernels it has), then runs it.
// It reports what it did, never bytes: roofline/cost.c alone turns spans into bytes and FLOPs.
#ifndef ENGINE_BACKEND_H
#define ENGINE_BACKEND_H

#include "engine/op.h"
#include "engine/token_source.h"

// All that varies per step. Rows of one sequence are adjacent and in order of position.
struct batch {
    int32_t n_tokens, n_seqs, n_out;
    int32_t block_size;       // tokens per KV block
    int32_t table_stride;     // entries per row of `table`
    const int32_t *token;     // [n_tokens] ids
    const int32_t *pos;       // [n_tokens] position of each row in its sequence
    const int32_t *seq_first; // [n_seqs + 1] first row of each sequence; seq_first[n_seqs] = n_tokens
    const int32_t *ctx_len;   // [n_seqs] positions with KV once this step has written: 1 + pos of the last row
    const int32_t *out_row;   // [n_out] rows whose logits are wanted, ascending
    const int32_t *table;     // [n_seqs, table_stride] block ids; position p lies in block table[p / block_size].
                              // NULL for backends that hold no KV (roofline, null)
};

// What a cover may depend on.
struct batch_shape {
    int32_t n_tokens, n_seqs, n_out, max_rows, max_ctx; // max_rows: of one sequence; 1 means a pure decode step
};
struct batch_shape batch_shape_of(const struct batch *b);

// A batch of n_seqs equal sequences with n_new rows each, the last of them at position context - 1, and one output row
// per sequence. Owns its arrays (one allocation); table entries are distinct blocks. For probes, pricing and tests.
bool batch_make_uniform(struct batch *b, int32_t n_seqs, int32_t n_new, int32_t context, int32_t block_size,
                        struct error *e);
void batch_free(struct batch *b);

// Operations first .. first+count-1 of the plan, done by one kernel of the backend.
struct span {
    int32_t first, count;
    uint16_t kernel, strategy; // backend's numbers; kernel_name() and DESIGN of the backend explain them
};

struct trace_row {
    struct span span;
    uint8_t part;    // 0: whole, 1: prefill rows, 2: decode rows of a mixed step
    int32_t touched; // experts touched; 0 where there are none
    int64_t begin_ns, end_ns;
};

// Caller-owned rows that run() fills; rows beyond `capacity` are counted in n_dropped.
struct trace {
    struct trace_row *row;
    int32_t n, capacity, n_dropped;
    int64_t wall_ns; // of the step, where the backend has to tell it from the time that tracing takes; 0: it does not
};
void trace_add(struct trace *t, struct trace_row row); // accepts t == NULL

// Rows that lie in memory, or that are made when somebody asks for them, so that nobody need hold all of them twice.
struct tensor {
    const void *data; // rows x cols in `dtype`, rows adjacent; NULL: `read` makes them
    enum dtype dtype;
    int32_t rows, cols;
    // Rows first .. first+count-1 to `out`, from any thread. What is read once in full may be dropped behind the reader.
    bool (*read)(void *ctx, int32_t first, int32_t count, void *out, struct error *e);
    void *ctx;
    // Values as engine/load/random.c makes them of this stream: whoever can make the same need not read them.
    bool is_random;
    uint64_t random_stream;
};
bool tensor_read(const struct tensor *t, int32_t first, int32_t count, void *out, struct error *e); // whichever it is

struct kv_config {
    int32_t n_blocks, block_size;
    int32_t max_tokens, max_seqs, max_out; // largest batch that run() will see: sizes every buffer
};

// Copies one block of all layers: copy-on-write now, tiers (swap, offload) later.
struct kv_move {
    int32_t from_tier, to_tier, from_block, to_block; // tier 0: where attention reads
};

// What a device's own counters say of what ran; NaN: not counted.
struct device_counts {
    double dram_bytes, l2_bytes, tensor_flops;
};

struct backend {
    const char *name;
    char device[96]; // the device it is on, by its own name; "": this machine's CPUs
    char note[192];  // of `auto`: why the device that seemed to be there is not used; "": nothing to say
    void *self;
    bool weightless; // computes nothing: load takes no weights (null, roofline)
    bool (*supports)(void *self, const struct op *op, struct error *e);

    // Fills spans[plan->n_ops] and returns how many: each operation exactly once, in order.
    int32_t (*cover)(void *self, const struct plan *plan, const struct batch_shape *shape, struct span *spans);

    // Takes the weights [plan->n_tensors] into its own order: all of a plan's tensors are read, and none is needed later.
    // What it makes of them depends neither on the plan's arithmetic nor on its KV. NULL in weightless backends.
    bool (*load)(void *self, const struct plan *plan, const struct tensor *weights, struct error *e);

    // Takes a plan of the loaded tensors (kept by reference) and the KV pool. Called again, it replaces both (other block
    // sizes, other KV types, other arithmetic); KV written before is lost.
    bool (*open)(void *self, const struct plan *plan, const struct kv_config *kv, struct error *e);

    // One step. Nothing allocates. trace may be NULL.
    bool (*run)(void *self, const struct plan *plan, const struct batch *batch, struct trace *trace, struct error *e);

    bool (*move)(void *self, const struct kv_move *moves, int32_t n, struct error *e);

    // Fills every position of a block with seeded pseudo-random KV of unit scale: context without prefill.
    bool (*fill)(void *self, int32_t block, uint64_t seed, struct error *e);

    // Logits of output row i of the last run: [vocab_size] f32. They lie where they were computed until somebody asks.
    bool (*read)(void *self, int32_t out_row, float *logits, struct error *e);

    // Ids for output rows of the last run by the rules of engine/sampler.c, chosen where the logits lie: id[n], n at most
    // max_out. A step does not choose: neither this nor read() is in its time. NULL: read() and choose on the host.
    bool (*choose)(void *self, const struct choice *choices, int32_t n, int32_t *id, struct error *e);

    // The device's own counters over all that runs between the two calls; never around what is timed or traced. NULL in
    // backends that have none; false with the reason where there are some that may not or cannot be read here.
    bool (*count_begin)(void *self, struct error *e);
    bool (*count_end)(void *self, struct device_counts *out, struct error *e);
    // How traces come about where they are less than they could be, in one line ("" otherwise); or NULL.
    const char *(*tracing)(void *self);

    int64_t (*now_ns)(void *self); // wall clock, or simulated
    const char *(*kernel_name)(void *self, uint16_t kernel);
    uint64_t (*memory_bytes)(void *self); // held now: weights, KV, activations
    uint64_t (*memory_free)(void *self);  // of the device; NULL: what it holds is this machine's memory
    void (*close)(void *self);
};

// One row per backend that this build contains (engine/backends.c).
struct backend_options {
    int32_t threads;      // 0: all allowed CPUs
    const char *cpu_list; // "0,2-3" or NULL
    const char *isa;      // "auto", "ref", "avx2", "avx512bf16" ...: forces a kernel set
    int32_t device;
};
bool backend_open(struct backend *out, const char *name, const struct backend_options *options, struct error *e);
void backend_close(struct backend *b);    // accepts zeroed
const char *const *backend_names(int *n); // cpu, cuda, null (roofline is opened by roofline/)

#endif
