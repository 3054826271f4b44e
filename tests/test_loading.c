// What loading takes: memory never above the file and what is repacked of it, time parted into its two kinds, progress that
// ends at the end.
#include "bench/open.h"
#include "tests/files.h"

#include <sys/stat.h>
#include <sys/wait.h>

static const char CONFIG[] = "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 512, "
                             "\"intermediate_size\": 2048, \"num_hidden_layers\": 6, \"num_attention_heads\": 8, "
                             "\"num_key_value_heads\": 4, \"vocab_size\": 16384, \"max_position_embeddings\": 512, "
                             "\"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": true, \"dtype\": \"bfloat16\"}";

static char folder[64], file[256];

// A GGUF of some 60 MB whose q and k are in another order than they are wanted.
static int make_file(void **state)
{
    (void)state;
    struct opened o;
    struct export_report r;
    struct error e = {0};
    char config[256];
    scratch_make(folder);
    scratch_text(folder, "config.json", CONFIG);
    struct open_request request = {.model = scratch_path(folder, "config.json", config), .backend = "cpu", .seed = 1};
    scratch_path(folder, "x.gguf", file);
    if (!open_model(&o, &request, &e) || !model_export_gguf(&o.model, o.plan, o.weights.tensor, DTYPE_BF16, file, &r, &e))
        fail_msg("%s", e.message);
    open_close(&o);
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    scratch_remove(folder, "config.json", "x.gguf", NULL);
    return 0;
}

static void load(struct model *m, struct plan *plan, struct weights *w)
{
    struct error e = {0};
    struct plan_options options = plan_options_default(DTYPE_BF16);
    options.tensor_dtype = model_tensor_dtype, options.ctx = m;
    if (!plan_make(plan, &m->spec, &options, &e) || !model_weights(m, plan, 0, 2, w, &e))
        fail_msg("%s", e.message);
}

static uint64_t status_bytes(const char *key)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    size_t n = strlen(key);
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, n))
            sscanf(line + n, " %llu", &kib);
    if (f)
        fclose(f);
    return kib << 10;
}

// In a process of its own, whose memory is what loading made it. 0: within bounds.
static int load_and_measure(void)
{
    struct model m;
    struct plan plan;
    struct weights w;
    struct error e = {0};
    struct stat st;
    if (stat(file, &st))
        return 1;
    uint64_t before = status_bytes("VmRSS:"), slack = 8 << 20;
    if (!model_open(&m, file, &e))
        return 1;
    load(&m, &plan, &w);
    uint64_t peak = status_bytes("VmHWM:"), limit = (uint64_t)st.st_size + w.owned_bytes + slack;
    bool repacked = w.owned_bytes > 0 && w.owned_bytes < (uint64_t)st.st_size / 4; // q and k alone
    return !repacked ? 2 : peak - before > limit ? 3 : 0;
}

static void test_memory(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    print_message("sanitizers keep shadows of all memory\n");
    skip();
#endif
    pid_t child = fork();
    if (child == 0)
        _exit(load_and_measure());
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

struct seen {
    uint64_t last, total;
    int32_t calls;
};

static void see(void *ctx, uint64_t done, uint64_t total)
{
    struct seen *s = ctx;
    assert_true(done > s->last && done <= total);
    s->last = done, s->total = total, s->calls++;
}

static void test_progress_and_times(void **state)
{
    (void)state;
    struct model m;
    struct plan plan;
    struct weights w;
    struct error e = {0};
    struct seen seen = {0};
    assert_true(model_open(&m, file, &e));
    m.on_loaded = see, m.ctx = &seen;
    load(&m, &plan, &w);
    assert_true(seen.calls >= 1 && seen.last == seen.total && seen.total == plan_weight_bytes(&plan));
    assert_true(w.load_ns > 0 && w.read_ns > 0 && w.repack_ns > 0 && w.read_ns + w.repack_ns == w.load_ns);
    weights_free(&w);
    plan_free(&plan);
    model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_progress_and_times),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
