// What loading takes: memory never above what the backend holds and one tensor of the file, time parted into its two kinds,
// progress that ends at the end.
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

static void open_file(struct opened *o)
{
    struct error e = {0};
    struct open_request request = {.model = file, .backend = "cpu", .device = {.threads = 2}, .quiet = true};
    if (!open_model(o, &request, &e))
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

static uint64_t largest_tensor(const struct plan *plan)
{
    uint64_t largest = 0;
    for (int32_t i = 0; i < plan->n_tensors; i++)
        largest = tensor_bytes(&plan->tensor[i]) > largest ? tensor_bytes(&plan->tensor[i]) : largest;
    return largest;
}

// In a process of its own, whose memory is what loading made it. 0: within bounds.
static int load_and_measure(void)
{
    struct opened o;
    struct stat st;
    uint64_t before = status_bytes("VmRSS:"), slack = 12 << 20;
    open_file(&o);
    uint64_t peak = status_bytes("VmHWM:") - before, held = o.backend.memory_bytes(o.backend.self);
    uint64_t limit = held + largest_tensor(o.plan) + slack; // the file's pages are let go of tensor by tensor
    if (stat(file, &st) || held + (uint64_t)st.st_size < limit + slack)
        return 1; // the test would not notice a second copy
    return held < plan_weight_bytes(o.plan) / 2 ? 2 : peak > limit ? 3 : 0;
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
    struct opened o;
    struct seen seen = {0};
    struct error e = {0};
    open_file(&o);
    assert_true(o.weights.load_ns > 0 && o.weights.read_ns > 0 && o.weights.repack_ns > 0);
    assert_int_equal(o.weights.read_ns + o.weights.repack_ns, o.weights.load_ns);
    o.model.on_loaded = see, o.model.ctx = &seen;
    for (int again = 0; again < 2; again++) {
        seen = (struct seen){0};
        assert_true(o.backend.load(o.backend.self, o.plan, o.weights.tensor, &e));
        assert_true(seen.calls >= 1 && seen.last == seen.total && seen.total == plan_weight_bytes(o.plan));
    }
    open_close(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_progress_and_times),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
