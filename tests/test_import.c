// Other people's numbers under our roof: names, types, units, missing cells, and each format.
#include "engine/base/file.h"
#include "engine/model_spec.h"
#include "tests/import_rows.h"

#define PUBLISHED "../shared/data/published_measurements.csv"

// What is missing or unknown.

static void test_unknown_names_keep_their_rows(void **state)
{
    (void)state;
    struct result r = row_of("u,x,H100 SXN,1,llama3-8b,fp8,8,fp8,fp8,1,0,128,decode,100,,,,,,");
    assert_says(r.reason, "no roof: unknown hardware 'H100 SXN', did you mean 'h100-sxm'?");
    assert_string_equal(r.hardware, "H100 SXN");
    assert_true(isnan(r.roof_ns) && r.median_ns == 1.28e9);
    r = row_of("u,x,H100 SXM,1,lama-3-8b,fp8,8,fp8,fp8,1,0,128,decode,100,,,,,,");
    assert_says(r.reason, "did you mean 'llama-3-8b'?");
    r = row_of("u,x,H100 SXM,1,llama3-8b,zz9,,fp8,fp8,1,0,128,decode,100,,,,,,");
    assert_says(r.reason, "type of the weights");
    r = row_of("u,x,H100 SXM,1,llama3-8b,fp8,8,zz9,fp8,1,0,128,decode,100,,,,,,");
    assert_says(r.reason, "KV of type 'zz9'");
    r = row_of("u,x,A100,1,llama3-8b,fp8,8,fp8,tf32,1,0,128,decode,100,,,,,,");
    assert_says(r.reason, "tf32");
    r = row_of("u,x,H100 SXM,1,llama3-8b,fp8,8,fp8,fp8,1,0,128,teleport,100,,,,,,");
    assert_says(r.reason, "'teleport'");
}

static void test_names_of_devices(void **state)
{
    static const struct {
        const char *text, *name;
        int32_t devices;
    } CASE[] = {{"NVIDIA GeForce RTX 4090", "rtx-4090", 0},
                {"NVIDIA H100 80GB HBM3", "h100-sxm", 0},
                {"AMD Instinct MI300X", "mi300x", 0},
                {"AMD EPYC 9554 64-Core Processor", "epyc-9554", 0},
                {"Apple M2 Ultra", "apple-m2-ultra-76c", 0},
                {"NVIDIA A100-SXM4-80GB, NVIDIA A100-SXM4-80GB", "a100-sxm-80gb", 2},
                {"8x H100 SXM", "h100-sxm", 8},
                {"GB200 (per GPU)", "gb200", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        char reason[200] = "";
        int32_t devices;
        const struct hardware *hw = import_hardware(catalogue, CASE[i].text, false, &devices, reason);
        if (!hw)
            fail_msg("%s", reason);
        assert_string_equal(hw->name, CASE[i].name);
        assert_int_equal(devices, CASE[i].devices);
    }
    char reason[200];
    int32_t devices;
    assert_null(import_hardware(catalogue, "NVIDIA A100, Tesla T4", false, &devices, reason));
    assert_says(reason, "several kinds");
}

static void test_names_of_models(void **state)
{
    static const char *const CASE[][2] = {{"models/Meta-Llama-3-8B-Instruct.Q4_K_M.gguf", "llama-3-8b"},
                                          {"SmolLM2-135M-Instruct-Q8_0.gguf", "smollm2-135m"},
                                          {"RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "llama-3.1-70b"},
                                          {"gpt-oss-120b-MXFP4-00001-of-00003.gguf", "gpt-oss-120b"},
                                          {"llama2-13b", "llama-2-13b"}};
    (void)state;
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        char reason[200] = "";
        const struct model_spec *spec = import_model(catalogue, CASE[i][0], false, reason);
        if (!spec)
            fail_msg("%s", reason);
        assert_string_equal(spec->name, CASE[i][1]);
    }
    char reason[200];
    assert_null(import_model(catalogue, "/dev/zero", false, reason)); // looked up, not opened
}

static void test_types_of_weights(void **state)
{
    static const struct {
        const char *text;
        double bits;
        enum dtype type;
    } CASE[] = {{"fp8 (probable)", 8, DTYPE_FP8},
                {"int4wo-g64", 4, DTYPE_INT4},
                {"EXL2 4.0bpw", 4, DTYPE_COUNT},
                {"Q4_K - Medium", 4.5, DTYPE_Q4_K},
                {"nvfp4 MoE + bf16 attn", 4.5, DTYPE_NVFP4},
                {"gf4", 4, DTYPE_COUNT},
                {"awq int4", 4, DTYPE_INT4},
                {"BF16", 16, DTYPE_BF16}};
    double bits;
    enum dtype type;
    (void)state;
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        assert_true(import_weight_type(CASE[i].text, &bits, &type));
        assert_near(bits, CASE[i].bits, 1e-9);
        assert_int_equal(type, CASE[i].type);
    }
    assert_false(import_weight_type("llama 8B", &bits, &type));
}

static void test_units_and_missing_cells(void **state)
{
    (void)state;
    struct result r = row_of("u,x,8x H100 SXM,,llama3-70b,bf16,,bf16,bf16,1,2k,1,ttft,,0.21 s,,,,,");
    assert_near(r.median_ns, 0.21e9, 1e-9);
    assert_int_equal(r.n_prompt, 2048);
    assert_int_equal(r.tp, 8);
    r = row_of("u,x,H100 SXM,1,,,,,,,,,kernel_bw,,,3.18 TB/s,,,,");
    assert_near(r.effective_GBps, 3180, 1e-9);
    r = row_of("u,x,H100 SXM,1,llama3-8b,bf16,,bf16,bf16,1,0,128,decode,\"~1,10.5 tok/s\",,,,,,");
    assert_near(r.tokens_per_s, 110.5, 1e-9);
    r = row_of("u,x,H100 SXM,1,llama3-8b,bf16,,bf16,bf16,,0,128,decode,100,,,,,,");
    assert_says(r.reason, "batch is missing");
    assert_near(r.tokens_per_s, 100, 1e-9);
    r = row_of("u,x,H100 SXM,1,llama3-8b,bf16,,bf16,bf16,1,,128,decode,100,,,,,,");
    assert_says(r.assumed, "no context before");
    assert_int_equal(r.context, 1);
    struct import_flags flags = NO_FLAGS;
    flags.batch = 4;
    r = row_with("u,x,H100 SXM,1,llama3-8b,bf16,,bf16,bf16,,0,128,decode,100,,,,,,", &flags);
    assert_near(r.median_ns, 4 * 128 / 100.0 * 1e9, 1e-9);
    r = row_of("u,x,H100 SXM,1,llama3-8b,bf16,,bf16,bf16,1,0,128,decode,n/a,,,,,,");
    assert_says(r.reason, "'n/a' is no number");
    r = row_of("u,x,H100 SXM,1,llama3-8b,,,,,1,0,128,decode,100,,,,,,");
    assert_string_equal(r.assumed, "weights bf16; arithmetic in bf16; KV bf16");
}

// Formats. The samples of llama-bench are its own five printers'.

static struct result rows[8];

static int32_t sample(const char *name, const struct import_flags *flags)
{
    char path[256];
    struct file file;
    struct error e;
    struct import_list list = {0};
    const struct import_format *used = NULL;
    const struct hardware *hw;
    snprintf(path, sizeof path, "tests/golden/import/%s", name);
    if (!file_open(&file, path, &e) || !import_load(&list, path, NULL, &used, &e))
        fail_msg("%s", e.message);
    file_close(&file);
    int32_t n = list.n;
    assert_true(n <= 8);
    for (int32_t i = 0; i < n; i++) {
        result_free(&rows[i]);
        assert_true(import_row(catalogue, &list.row[i], flags, &rows[i], &hw, &e));
    }
    import_free(&list);
    return n;
}

static int free_rows(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        result_free(&rows[i]);
    return 0;
}

static void test_llama_bench(void **state)
{
    static const char *const NAME[] = {"llama-bench.json", "llama-bench.jsonl", "llama-bench.csv", "llama-bench.sql",
                                       "llama-bench.md"};
    struct import_flags flags = NO_FLAGS;
    (void)state;
    flags.hardware = "epyc-9554";
    for (int i = 0; i < 5; i++) {
        flags.model = i == 4 ? "smollm2-135m" : ""; // its tables name the model as "llama 256M"
        assert_int_equal(sample(NAME[i], &flags), 3);
        for (int k = 0; k < 3; k++) {
            static const char *const PHASE[] = {"prefill", "decode", "generate"};
            static const int64_t PROMPT[] = {64, 0, 32}, GEN[] = {0, 8, 8};
            assert_string_equal(rows[k].phase, PHASE[k]);
            assert_string_equal(rows[k].model, "smollm2-135m");
            assert_string_equal(rows[k].weights, "q4_1");
            assert_int_equal(rows[k].n_prompt, PROMPT[k]);
            assert_int_equal(rows[k].n_gen, GEN[k]);
            assert_int_equal(rows[k].threads, 2);
            assert_near(rows[k].model_bytes, 96576768, 0.001); // as its header says
            assert_true(rows[k].bound_ns > 0 && rows[k].bound_ns < rows[k].roof_ns && rows[k].roof_ns < rows[k].median_ns);
        }
        assert_int_equal(rows[0].samples_ns.n, i < 2 ? 3 : 0);
        assert_string_equal(rows[1].verdict, i == 0 ? "ok" : i == 1 ? "noisy" : "reported");
    }
    assert_int_equal(sample("llama-bench-depth.jsonl", &flags), 1);
    assert_int_equal(rows[0].context, 257);
    assert_int_equal(rows[0].n_depth, 256);
}

static void test_batched_bench(void **state)
{
    struct import_flags flags = NO_FLAGS;
    (void)state;
    flags.model = "smollm2-135m", flags.hardware = "epyc-9554", flags.weights = "q4_1";
    assert_int_equal(sample("batched-bench.jsonl", &flags), 4);
    assert_string_equal(rows[3].phase, "decode");
    assert_int_equal(rows[3].batch, 4);
    assert_int_equal(rows[3].context, 33);
    assert_near(rows[3].median_ns, 0.145896e9, 1e-9);
    assert_near(rows[3].tokens_per_s, 219.334320, 1e-9);
    assert_says(rows[3].assumed, "5 bits a weight");
}

static void test_vllm(void **state)
{
    struct import_flags flags = NO_FLAGS;
    (void)state;
    assert_int_equal(sample("vllm-latency.json", &flags), 1);
    assert_says(rows[0].reason, "--model"); // it states nothing but times
    flags.model = "llama-3-70b", flags.hardware = "h200-sxm", flags.tp = 4;
    flags.batch = 8, flags.n_prompt = 32, flags.n_gen = 128;
    assert_int_equal(sample("vllm-latency.json", &flags), 1);
    assert_string_equal(rows[0].verdict, "ok");
    assert_int_equal(rows[0].tp, 4);
    assert_near(rows[0].weight_bytes, 128 * 2 * (70553706496.0 - 128256 * 8192.0) / 4, 0.01); // of one rank, head included
    assert_near(rows[0].tokens_per_s, 8 * 128 / 2.0785, 0.001);
    assert_int_equal(sample("vllm-serve.json", &NO_FLAGS), 1);
    assert_string_equal(rows[0].model, "llama-3.1-8b");
    assert_int_equal(rows[0].batch, 4);
    assert_near(rows[0].tokens_per_s, 538.947, 1e-9);
    assert_near(rows[0].roof_fraction, 0.66, 0.02);
    assert_near(rows[0].weight_bytes, 255 * 2 * (LAYERS_8B + HEAD_8B), 0.001); // 4 requests, 255 steps of all of them
}

static void test_sglang(void **state)
{
    struct import_flags flags = NO_FLAGS;
    (void)state;
    flags.model = "llama-3-8b", flags.hardware = "h100-sxm";
    assert_int_equal(sample("sglang-batch.jsonl", &flags), 6);
    assert_string_equal(rows[3].phase, "prefill");
    assert_int_equal(rows[3].batch, 16);
    assert_near(rows[3].tokens_per_s, 1024 * 16 / 0.3391, 1e-6);
    assert_string_equal(rows[4].phase, "decode");
    assert_int_equal(rows[4].context, 1024 + 64 + 1);
    assert_near(rows[4].median_ns, 8.02e6, 1e-9);
    assert_string_equal(rows[5].phase, "generate");
    assert_int_equal(sample("sglang-offline.jsonl", &flags), 1);
    assert_int_equal(rows[0].n_prompt, 512);
    assert_says(rows[0].assumed, "as many requests at a time as fit");
    assert_int_equal(sample("sglang-serving.jsonl", &flags), 1);
    assert_int_equal(rows[0].batch, 32);
}

static void test_speculation_that_is_stated(void **state)
{
    static const char TEXT[] =
        "{\"duration\": 20, \"completed\": 1, \"total_input_tokens\": 100, \"total_output_tokens\": 4000, "
        "\"input_throughput\": 5, \"max_concurrency\": 1%s}";
    struct import_flags flags = NO_FLAGS;
    struct result plain, fast;
    char text[320];
    (void)state;
    flags.model = "llama-3-8b", flags.hardware = "h100-sxm";
    snprintf(text, sizeof text, TEXT, "");
    rows_of(text, &flags, &plain, 1);
    snprintf(text, sizeof text, TEXT, ", \"accept_length\": 2.5");
    rows_of(text, &flags, &fast, 1);
    assert_near(plain.weight_bytes / fast.weight_bytes, 2.5, 0.001);
    assert_near(plain.flops, fast.flops, 0.001); // every token is computed
    assert_says(fast.reason, "2.5 tokens per step");
}

// The published table, where it is.
static void test_published_measurements(void **state)
{
    struct import_list list = {0};
    const struct import_format *used;
    const struct hardware *hw;
    struct error e;
    int roofs = 0, printed = 0;
    (void)state;
    if (!file_exists(PUBLISHED))
        skip();
    assert_true(import_load(&list, PUBLISHED, NULL, &used, &e));
    assert_ptr_equal(used, &IMPORT_TABLE);
    assert_int_equal(list.n, 181);
    for (int32_t i = 0; i < list.n; i++) {
        struct result r;
        assert_true(import_row(catalogue, &list.row[i], &NO_FLAGS, &r, &hw, &e));
        roofs += r.roof_ns > 0;
        printed += strstr(r.reason, "printed datasheet") != NULL;
        if (list.row[i].trap)
            assert_over_bound(&r, "trap");
        else if (list.row[i].speculative)
            assert_true(isnan(r.roof_ns));
        else if (!(r.bound_ns <= r.median_ns) || !(r.bound_ns <= r.roof_ns * 1.000001))
            fail_msg("'%s': bound %.6g, roof %.6g, time %.6g: %s", list.row[i].id, r.bound_ns, r.roof_ns, r.median_ns,
                     r.reason);
        result_free(&r);
    }
    import_free(&list);
    assert_int_equal(roofs, 179);
    assert_int_equal(printed, 2); // of six that are known; the others are not in this table
}

static void refused(const char *text, size_t size, const char *part)
{
    struct import_list list = {0};
    const struct import_format *used = NULL;
    struct error e = {0};
    assert_false(import_parse(&list, text, size, "test", NULL, &used, &e));
    assert_error(&e, ERROR_FILE, part);
    import_free(&list);
}

static void test_hostile_input(void **state)
{
    (void)state;
    refused("", 0, "empty");
    refused("\xef\xbb\xbf \n", 5, "empty");
    refused("\0\1\2", 3, "no text");
    refused("[\n  {\n \"n_prompt\": 512,", 22, "JSON"); // llama-bench that died leaves its array open
    refused("{\"a\": 1}\n{\"b\": ", 15, "test:2");
    refused("[1, 2]", 6, "no format");
    refused("[]", 2, "no rows");
    refused("a,b\n1,2\n", 8, "it has a, b");
    refused("a\n", 2, "no rows");
    refused("INSERT INTO t (a) VALUES ('x", 28, "table");
    struct result r = row_of("h,x,H100 SXM,1,llama3-8b,bf16,16,bf16,bf16,1e9,1e9,1e9,e2e_static,1e-300,,,,,,");
    assert_true(isnan(r.roof_ns));
    r = row_of("h,x,H100 SXM,1000000,llama3-8b,bf16,-3,bf16,bf16,-1,-1,-1,decode,-5,nan,inf,,,,");
    assert_says(r.reason, "no roof");
}

static void test_format_names(void **state)
{
    struct error e;
    (void)state;
    assert_ptr_equal(import_format_named("llama-bench", &e), &IMPORT_LLAMA_BENCH);
    assert_null(import_format_named("lama-bench", &e));
    assert_error(&e, ERROR_USAGE, "did you mean 'llama-bench'?");
    assert_null(import_format_named("zip", &e));
    assert_error(&e, ERROR_USAGE, "expected one of");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_names_keep_their_rows),
        cmocka_unit_test(test_names_of_devices),
        cmocka_unit_test(test_names_of_models),
        cmocka_unit_test(test_types_of_weights),
        cmocka_unit_test(test_units_and_missing_cells),
        cmocka_unit_test_teardown(test_llama_bench, free_rows),
        cmocka_unit_test_teardown(test_batched_bench, free_rows),
        cmocka_unit_test_teardown(test_vllm, free_rows),
        cmocka_unit_test_teardown(test_sglang, free_rows),
        cmocka_unit_test(test_speculation_that_is_stated),
        cmocka_unit_test(test_published_measurements),
        cmocka_unit_test(test_hostile_input),
        cmocka_unit_test(test_format_names),
    };
    return cmocka_run_group_tests(tests, open_catalogue, close_catalogue);
}
