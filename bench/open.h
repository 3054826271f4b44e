// Opening for commands: from names and types to an engine that can run, with memory checked before it is taken.
#ifndef BENCH_OPEN_H
#define BENCH_OPEN_H

#include "engine/base/options.h"
#include "engine/engine.h"
#include "engine/load/model.h"

struct open_request {
    const char *model;             // catalogue name or path
    const struct model_spec *spec; // or this shape, with random weights
    const char *backend;           // NULL or "auto": the best here
    struct backend_options device;
    const char *weights; // a type's name; NULL: the model's own
    const char *compute; // likewise; NULL: f32, which is exact
    uint64_t seed;       // of random weights
    bool quiet;          // no progress of loading
};

// Everything a command opens, in the order of opening. Do not move it: the plan options point at the model.
struct opened {
    struct model model;
    struct plan_options options; // kv_k, kv_v, compute, compute_of and act may be changed before open_engine
    struct plan *plan;
    struct weights weights;
    struct backend backend;
    struct engine engine;
};

// --model, --backend, --device, --threads, --cpu-list, --isa, --weights (the first), --compute and --seed.
struct open_request open_request_of(const struct options *o);

// Model, backend and weights. A bare config.json becomes a model of that shape with random weights; a folder without weights
// is refused. Fails with ERROR_MEMORY before weights are made that would not fit.
bool open_model(struct opened *o, const struct open_request *request, struct error *e);

// The engine, or another one over the same weights: makes the plan of o->options and loads it with this pool. Fails with
// ERROR_MEMORY (and keeps the engine it had) if KV and activations would not fit.
bool open_engine(struct opened *o, const struct kv_config *kv, struct error *e);

// Another backend of the same kind (other threads, another instruction set), which loads the weights again; call open_engine
// next.
bool open_backend(struct opened *o, const struct backend_options *device, struct error *e);

void open_close(struct opened *o); // accepts zeroed

// A pool for n_seqs sequences of `context` tokens. block_size 0: contiguous, one block per sequence.
struct kv_config kv_config_for(int32_t n_seqs, int32_t context, int32_t block_size, int32_t max_tokens, int32_t max_out);

// Bytes of the KV pool, and of the activations alive at once in the largest step (as f32).
uint64_t open_kv_bytes(const struct plan *plan, const struct kv_config *kv);
uint64_t open_activation_bytes(const struct plan *plan, const struct kv_config *kv);

// "loaded 93.81 MiB in 0.214 s (read 0.150 s, repack 0.064 s), peak memory 310.1 MiB", to f.
void open_print_loading(FILE *f, const struct opened *o);

// Bytes that the backend may take more now: of its device, or of this machine.
uint64_t open_available(const struct backend *b);

// False with ERROR_UNSUPPORTED if the cpu backend has no such arithmetic for the weights of a plan.
bool open_check_compute(const struct plan *plan, struct error *e);

// The type of this name, or an error that lists them.
bool open_parse_type(const char *name, enum dtype *out, struct error *e);

#endif
