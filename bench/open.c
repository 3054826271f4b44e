#include "bench/open.h"

#include "bench/environment.h"
#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "engine/base/units.h"
#include "engine/cpu/cpu.h"
#include "roofline/catalogue.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN_BYTES = 256 << 20 }; // weights from this size on take long enough for progress to be shown

struct open_request open_request_of(const struct options *o)
{
    int32_t threads = o->threads_list.n && !o->threads ? o->threads_list.value[0] : o->threads;
    return (struct open_request){.model = o->model,
                                 .backend = o->backend,
                                 .device = {.threads = threads, .cpu_list = o->cpu_list, .isa = o->isa, .device = o->device},
                                 .weights = o->weights.n ? o->weights.value[0] : NULL,
                                 .compute = o->compute,
                                 .seed = (uint64_t)o->seed,
                                 .quiet = o->quiet};
}

bool open_parse_type(const char *name, enum dtype *out, struct error *e)
{
    char known[256] = "";
    if (dtype_parse(name, out))
        return true;
    for (int i = 0; i < DTYPE_COUNT; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", dtype_name((enum dtype)i));
    return error_set(e, ERROR_USAGE, "unknown type '%.40s', expected one of %s", name, known);
}

uint64_t open_available(const struct backend *b)
{
    return b->memory_free ? b->memory_free(b->self) : memory_available("");
}

// False with the numbers if so many bytes more cannot be taken.
static bool check_memory(const struct backend *b, const char *what, uint64_t bytes, struct error *e)
{
    char need[24], have[24];
    uint64_t available = open_available(b);
    return bytes <= available || error_set(e, ERROR_MEMORY, "%s needs %s of memory, %s are available", what,
                                           format_bytes(bytes, need), format_bytes(available, have));
}

struct kv_config kv_config_for(int32_t n_seqs, int32_t context, int32_t block_size, int32_t max_tokens, int32_t max_out)
{
    int32_t size = block_size > 0 ? block_size : context;
    int64_t n_blocks = n_seqs * (((int64_t)context + size - 1) / size);
    return (struct kv_config){.n_blocks = n_blocks < INT32_MAX ? (int32_t)n_blocks : INT32_MAX,
                              .block_size = size,
                              .max_tokens = max_tokens,
                              .max_seqs = n_seqs,
                              .max_out = max_out};
}

uint64_t open_kv_bytes(const struct plan *plan, const struct kv_config *kv)
{
    uint64_t tokens, bytes;
    size_mul((uint64_t)kv->n_blocks, (uint64_t)kv->block_size, &tokens);
    size_mul(tokens, plan_kv_bytes_per_token(plan), &bytes);
    return bytes;
}

static uint64_t slot_bytes(const struct plan *plan, const struct kv_config *kv, int32_t slot)
{
    int32_t rows = plan->slot[slot].rows == ROWS_OUT ? kv->max_out : kv->max_tokens;
    return (uint64_t)rows * (uint64_t)plan->slot[slot].width * sizeof(float);
}

uint64_t open_activation_bytes(const struct plan *plan, const struct kv_config *kv)
{
    int32_t *last = calloc((size_t)plan->n_slots, sizeof *last);
    uint64_t alive = 0, peak = 0;
    if (!last)
        return 0;
    plan_slot_last_use(plan, last);
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const struct op *op = &plan->op[i];
        alive += op->out >= 0 ? slot_bytes(plan, kv, op->out) : 0;
        peak = alive > peak ? alive : peak;
        for (int k = 0; k < 3; k++)
            if (op->in[k] >= 0 && last[op->in[k]] == i) {
                alive -= slot_bytes(plan, kv, op->in[k]);
                last[op->in[k]] = -1; // once, even when an operation reads a slot twice
            }
    }
    free(last);
    return peak;
}

// Redraws one line; gone when all is there.
static void show_loading(void *ctx, uint64_t done, uint64_t total)
{
    char size[24];
    fprintf(stderr, "\r\033[K");
    if (done < total)
        fprintf(stderr, "loading '%s': %.0f %% of %s", (const char *)ctx, 100 * (double)done / (double)total,
                format_bytes(total, size));
    fflush(stderr);
}

void open_print_loading(FILE *f, const struct opened *o)
{
    char all[24], peak[24];
    const struct weights *w = &o->weights;
    if (!w->tensor)
        return; // a backend that holds none
    fprintf(f, "loaded %s in %.3f s (read %.3f s, repack %.3f s), peak memory %s\n",
            format_bytes(plan_weight_bytes(o->plan), all), 1e-9 * (double)w->load_ns, 1e-9 * (double)w->read_ns,
            1e-9 * (double)w->repack_ns, format_bytes(environment_peak_memory(), peak));
}

bool open_check_compute(const struct plan *plan, struct error *e)
{
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const struct op *op = &plan->op[i];
        enum dtype type = op->kind == OP_LINEAR ? (enum dtype)plan->tensor[op->weight].dtype : DTYPE_F32;
        enum dtype own = cpu_compute_of(type);
        if (op->kind == OP_LINEAR && !cpu_can_compute(type, (enum dtype)op->compute))
            return error_set(e, ERROR_UNSUPPORTED, "'%s': the cpu backend computes with %s weights in f32%s%s, not in %s",
                             plan->model, dtype_name(type), own == DTYPE_F32 ? "" : " or ",
                             own == DTYPE_F32 ? "" : dtype_name(own), dtype_name((enum dtype)op->compute));
    }
    return true;
}

static bool fill_backend(struct opened *o, const struct backend_options *device, struct error *e)
{
    int64_t began_ns = clock_ns();
    if (!o->backend.load(o->backend.self, o->plan, o->weights.tensor, e))
        return false;
    weights_book(&o->weights, clock_ns() - began_ns, environment_threads(device->threads, device->cpu_list));
    return true;
}

static bool load_weights(struct opened *o, const struct open_request *request, struct error *e)
{
    if (!engine_supports(o->plan, &o->backend, e))
        return false;
    if (o->backend.weightless)
        return true;
    if (!open_check_compute(o->plan, e))
        return error_prefix(e, "'--compute'");
    if (!model_has_weights(&o->model))
        return error_set(e, ERROR_FILE, "'%s' holds no weights, expected safetensors or a GGUF file", request->model);
    char what[192];
    snprintf(what, sizeof what, "'%s'", o->model.spec.name);
    if (!request->quiet && plan_weight_bytes(o->plan) >= SHOWN_BYTES && isatty(STDERR_FILENO))
        o->model.on_loaded = show_loading, o->model.ctx = o->model.spec.name;
    return check_memory(&o->backend, what, plan_weight_bytes(o->plan), e) &&
           weights_open(&o->weights, &o->model, o->plan, request->seed, e) && fill_backend(o, &request->device, e);
}

static bool choose_types(struct opened *o, const struct open_request *request, struct error *e)
{
    enum dtype type = o->model.spec.dtype;
    if (request->weights && !open_parse_type(request->weights, &type, e))
        return false;
    o->options = plan_options_default(type);
    o->options.compute = o->options.act = DTYPE_F32;
    if (request->compute && !open_parse_type(request->compute, &o->options.compute, e))
        return error_prefix(e, "'--compute'");
    if (!request->weights && (o->model.format == MODEL_HF || o->model.format == MODEL_GGUF)) {
        o->options.tensor_dtype = model_tensor_dtype;
        o->options.ctx = &o->model;
    }
    return true;
}

static bool choose_model(struct opened *o, const struct open_request *request, struct error *e)
{
    const char *name = request->model;
    if (request->spec) {
        model_open_random(&o->model, request->spec);
        return true;
    }
    if (!name)
        return error_set(e, ERROR_USAGE, "'--model' is missing (see kvbench list models)");
    if (!catalogue_open_model(&o->model, name, e))
        return false;
    if (o->model.format == MODEL_CONFIG && !file_is_directory(name)) {
        struct model_spec spec = o->model.spec;
        model_close(&o->model);
        model_open_random(&o->model, &spec);
    }
    return true;
}

static struct plan *make_plan(const struct opened *o, struct error *e)
{
    struct plan *plan = malloc(sizeof *plan);
    if (plan && plan_make(plan, &o->model.spec, &o->options, e))
        return plan;
    if (!plan)
        error_set(e, ERROR_MEMORY, "no memory for a plan");
    free(plan);
    return NULL;
}

static void drop_plan(struct plan *plan)
{
    if (plan)
        plan_free(plan);
    free(plan);
}

static bool choose_backend(struct opened *o, const struct open_request *request, struct error *e)
{
    bool ok = backend_open(&o->backend, request->backend, &request->device, e);
    if (ok && *o->backend.note)
        fprintf(stderr, "kvbench: %s; using %s\n", o->backend.note, o->backend.name);
    return ok;
}

bool open_model(struct opened *o, const struct open_request *request, struct error *e)
{
    *o = (struct opened){0};
    bool ok = choose_model(o, request, e) && choose_types(o, request, e) && (o->plan = make_plan(o, e)) &&
              choose_backend(o, request, e) && load_weights(o, request, e);
    if (!ok)
        open_close(o);
    return ok;
}

bool open_backend(struct opened *o, const struct backend_options *device, struct error *e)
{
    char name[32];
    snprintf(name, sizeof name, "%s", o->backend.name);
    engine_close(&o->engine);
    backend_close(&o->backend);
    return backend_open(&o->backend, name, device, e) && (o->backend.weightless || fill_backend(o, device, e));
}

// What the KV and activations of this plan take beyond those already loaded, which the backend gives back first.
static bool check_room(const struct opened *o, const struct plan *plan, const struct kv_config *kv, struct error *e)
{
    char what[192];
    uint64_t held = 0, needed;
    if (o->engine.plan)
        held = open_kv_bytes(o->plan, &o->engine.kv) + open_activation_bytes(o->plan, &o->engine.kv);
    size_add(open_kv_bytes(plan, kv), open_activation_bytes(plan, kv), &needed);
    snprintf(what, sizeof what, "'%s' with KV of %lld tokens", o->model.spec.name, (long long)kv->n_blocks * kv->block_size);
    return o->backend.weightless || check_memory(&o->backend, what, needed > held ? needed - held : 0, e);
}

bool open_engine(struct opened *o, const struct kv_config *kv, struct error *e)
{
    struct plan *plan = make_plan(o, e), *old = o->plan;
    if (!plan || !check_room(o, plan, kv, e)) {
        drop_plan(plan);
        return false;
    }
    engine_close(&o->engine);
    o->plan = plan;
    bool ok = engine_open(&o->engine, plan, &o->backend, kv, e);
    drop_plan(old); // only now: the backend referred to it until it was loaded again
    return ok;
}

void open_close(struct opened *o)
{
    engine_close(&o->engine);
    backend_close(&o->backend);
    weights_free(&o->weights);
    drop_plan(o->plan);
    model_close(&o->model);
    *o = (struct opened){0};
}
