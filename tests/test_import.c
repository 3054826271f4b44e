// Other people's numbers under our roof. Each trap that makes a correct bound look beaten, or a wrong number look right, is
// a test of its own; numbers are worked by hand from shapes and data sheets.
#include "bench/import.h"
#include "engine/base/file.h"
#include "engine/model_spec.h"
#include "tests/files.h"

#include <math.h>

#define HEADER                                                                                                              \
    "id,engine,gpu,n_gpu,model,weight_dtype,weight_bits_eff,kv_dtype,compute_dtype,batch,prompt_len,output_len,phase,"      \
    "tokens_per_s,ms_per_step,stated_GBps,stated_TFLOPS,bytes_per_step_GB_override,check,notes\n"
#define PUBLISHED "../shared/data/published_measurements.csv"

static struct import_catalogue *catalogue;
static const struct import_flags NO_FLAGS = {.model = "",
                                             .hardware = "",
                                             .weights = "",
                                             .kv = "",
                                             .compute = "",
                                             .batch = -1,
                                             .n_prompt = -1,
                                             .n_gen = -1,
                                             .n_depth = -1};

static int open_catalogue(void **state)
{
    struct error e;
    (void)state;
    return (catalogue = import_catalogue_open(&e)) ? 0 : -1;
}

static int close_catalogue(void **state)
{
    (void)state;
    import_catalogue_close(catalogue);
    return 0;
}

// The rows of a text as results; the caller frees their lists, of which most have none.
static int32_t rows_of(const char *text, const struct import_flags *flags, struct result *row, int32_t most)
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
static struct result row_with(const char *cells, const struct import_flags *flags)
{
    struct result row;
    char text[1024];
    snprintf(text, sizeof text, HEADER "%s\n", cells);
    assert_int_equal(rows_of(text, flags, &row, 1), 1);
    return row;
}

static struct result row_of(const char *cells)
{
    return row_with(cells, &NO_FLAGS);
}

static void assert_near(double x, double expected, double relative)
{
    if (!(fabs(x / expected - 1) <= relative))
        fail_msg("%.9g, expected %.9g", x, expected);
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' does not say '%s'", text, part);
}

static void assert_over_bound(const struct result *r, const char *hint)
{
    if (strcmp(r->verdict, "over-bound"))
        fail_msg("'%s' of bound %.4g, expected over-bound", r->verdict, r->bound_ns / r->median_ns);
    assert_true(r->median_ns < r->bound_ns);
    assert_says(r->reason, hint);
}

static void assert_within_bound(const struct result *r)
{
    if (!(r->bound_ns <= r->median_ns))
        fail_msg("at %.4g of its bound (%s)", r->bound_ns / r->median_ns, r->reason);
    assert_string_equal(r->verdict, "reported");
}

// Llama-3-8B: 32 layers of 218103808 weights, a head of 128256 x 4096 that the embedding has as well.
#define LAYERS_8B (32 * 218103808.0)
#define HEAD_8B (128256 * 4096.0)

static void test_decode_by_hand(void **state)
{
    struct result r = row_of("a,x,RTX 4090,1,llama3-8b,fp16,16,fp16,fp16,1,0,1,decode,61,,,,,,");
    (void)state;
    double norms = 65 * 4096 * 2.0, bytes = 2 * (LAYERS_8B + HEAD_8B + 4096) + norms; // and one row of the table
    assert_near(r.weight_bytes, bytes, 1e-4);
    assert_near(r.median_ns, 1e9 / 61, 1e-9);
    assert_near(r.bound_ns, (bytes - 72 * 0x1p20) / 1008.1, 1e-3); // 72 MiB of L2, 1008.1 GB/s
    assert_near(r.roof_ns, bytes / 955, 1e-3);                     // what calm found the card to read
    assert_near(r.roof_fraction, r.roof_ns / r.median_ns, 1e-9);
    assert_string_equal(r.model, "llama-3-8b");
    assert_string_equal(r.hardware, "rtx-4090");
    assert_string_equal(r.backend, "x");
    assert_int_equal(r.context, 1);
    assert_within_bound(&r);
}

// The traps.

static void test_trap_speculative_decoding_counted_as_decode(void **state)
{
    static const char ROW[] = "s,gpt-fast,A100 SXM 80GB,1,llama2-70b,int4-g32,5.0,bf16,bf16,1,5,200,decode,48.4,,,,,%s";
    char marked[256], plain[256];
    (void)state;
    snprintf(marked, sizeof marked, ROW, "spec,");
    snprintf(plain, sizeof plain, ROW, ",");
    struct result r = row_of(marked), bare = row_of(plain);
    assert_true(isnan(r.bound_ns) && isnan(r.roof_ns));
    assert_says(r.reason, "speculative");
    assert_says(r.reason, "102 % of the bound"); // what the target alone could do at most, beaten by 2 %
    assert_over_bound(&bare, "speculative");
    snprintf(plain, sizeof plain, ROW, ",with a draft model");
    bare = row_of(plain);
    assert_says(bare.reason, "speculative");
    snprintf(plain, sizeof plain, ROW, ",without speculative decoding");
    bare = row_of(plain);
    assert_over_bound(&bare, "");
}

static void test_trap_embedding_table_counted_as_read(void **state)
{
    (void)state;
    // 60 tokens/s of 16.06 GB with the table, 15.01 GB without
    struct result r = row_of("e,x,RTX 4090,1,llama3-8b,fp16,16,fp16,fp16,1,0,1,decode,60.00,,963.6,,,,");
    assert_near(r.effective_GBps, 900.6, 0.001);
    assert_says(r.reason, "1.07 times");
    assert_says(r.reason, "embedding table");
    r = row_of("e,x,RTX 4090,1,llama3-8b,fp16,16,fp16,fp16,1,0,1,decode,60.00,,901,,,,");
    assert_string_equal(r.reason, "");
}

static void test_trap_head_once_per_prompt(void **state)
{
    struct result r;
    (void)state;
    const char *text =
        "{\"cpu_info\": \"\", \"gpu_info\": \"NVIDIA GeForce RTX 3090\", \"backends\": \"CUDA\", \"model_filename\": "
        "\"Meta-Llama-3-8B.BF16.gguf\", \"model_type\": \"llama 8B BF16\", \"n_ubatch\": 1, \"type_k\": \"f16\", "
        "\"type_v\": \"f16\", \"n_prompt\": 512, \"n_gen\": 0, \"n_depth\": 0, \"avg_ts\": 58.27}";
    assert_int_equal(rows_of(text, &NO_FLAGS, &r, 1), 1);
    double attention = 4.0 * 32 * 128 * (512 * 513 / 2) * 32;
    double last = 4096 * 4096.0 + 3 * 4096 * 14336.0; // of the last layer, what only the last row goes through
    assert_near(r.flops, 2 * 512 * (LAYERS_8B - last) + 2 * (last + HEAD_8B) + attention, 1e-9);
    assert_says(r.reason, "head once");
    assert_within_bound(&r);
}

static void test_trap_gib_read_as_gb(void **state)
{
    struct result r;
    (void)state;
    const char *text = "| model | size | params | backend | test | t/s |\n| --- | ---: | ---: | --- | ---: | ---: |\n"
                       "| llama 8B Q4_K - Medium | 4.58 GiB | 8.03 B | CUDA | tg128 | 130.58 ± 0.36 |\n";
    struct import_flags flags = NO_FLAGS;
    flags.model = "llama-3-8b", flags.hardware = "rtx-4090";
    assert_int_equal(rows_of(text, &flags, &r, 1), 1);
    assert_near(r.model_bytes, 4.92e9, 0.001); // 4.58 GiB
    assert_within_bound(&r);
    r = row_of("g,x,RTX 4090,1,llama2-7b,fp16,16,fp16,fp16,1,0,1,decode,60.00,,853.5,,,,"); // 13.22 GB x 60 x 1.074
    assert_says(r.reason, "GiB");
}

static void test_trap_sparse_peak_used_as_dense(void **state)
{
    (void)state;
    struct result r = row_of("p,cuBLAS,H100 SXM,1,,,,,bf16,,,,kernel_flops,,,,1979,,,");
    assert_over_bound(&r, "sparse");
    r = row_of("p,cuBLAS,H100 SXM,1,,,,,bf16,,,,kernel_flops,,,,794,,,");
    assert_within_bound(&r);
    assert_near(r.datasheet_ns / r.median_ns, 794 / 989.4, 1e-6);
    assert_near(r.bound_ns / r.median_ns, 794 / 1070.5, 1e-4);
    assert_near(r.effective_GFLOPps, 794e3, 1e-9);
}

static void test_trap_longest_length_where_lengths_are_random(void **state)
{
    (void)state;
    struct result r = row_of("t,kernel,B200,1,,,,,,256,,,kernel_bw,,,12300,,,trap,");
    assert_over_bound(&r, "trap");
    struct result serve;
    const char *text = "{\"duration\": 2, \"completed\": 4, \"total_input_tokens\": 4000, \"total_output_tokens\": 400, "
                       "\"input_lens\": [3000, 500, 300, 200], \"max_concurrency\": 4}";
    struct import_flags flags = NO_FLAGS;
    flags.model = "llama-3-8b", flags.hardware = "h100-sxm";
    assert_int_equal(rows_of(text, &flags, &serve, 1), 1);
    assert_int_equal(serve.n_prompt, 1000); // not 3000
    assert_says(serve.assumed, "mean length");
}

static void test_trap_marketed_bandwidth_below_the_drivers(void **state)
{
    (void)state;
    struct result r = row_of("b,stream,H200 SXM,1,,,,,,,,,kernel_bw,,,4850,,,,");
    assert_within_bound(&r);
    assert_says(r.reason, "1.01 times the printed datasheet"); // 4800 printed, 4916.7 by clock and width
    r = row_of("b,stream,H200 SXM,1,,,,,,,,,kernel_bw,,,4950,,,,");
    assert_over_bound(&r, "cache");
}

static void test_trap_marketed_bandwidth_above_the_drivers(void **state)
{
    (void)state;
    struct result r = row_of("b,stream,B200,1,,,,,,,,,kernel_bw,,,7800,,,,"); // 8000 printed, 7672 by clock and width
    assert_within_bound(&r);
    assert_near(r.bound_ns / r.median_ns, 7800 / 8000.0, 1e-6);
}

static void test_trap_accumulate_rates(void **state)
{
    (void)state;
    struct result r = row_of("f,cuBLAS,RTX 4090,1,,,,,fp16acc,,,,kernel_flops,,,,300,,,");
    assert_within_bound(&r);
    assert_near(r.datasheet_ns / r.median_ns, 300 / 330.4, 1e-3);
    r = row_of("f,cuBLAS,RTX 4090,1,,,,,bf16,,,,kernel_flops,,,,300,,,"); // sums in 32 bit, always
    assert_over_bound(&r, "");
    r = row_of("f,cuBLASLt,RTX 5090,1,,,,,fp8,,,,kernel_flops,,,,774,,,"); // the block-scaled path
    assert_within_bound(&r);
    assert_says(r.reason, "1.85 times the printed datasheet");
}

static void test_trap_kv_type_unknown(void **state)
{
    static const char ROW[] = "k,TensorRT-LLM,H100 SXM,1,llama2-7b,fp8,8,%s,fp8,112,128,2048,e2e_static,6400,,,,,,";
    char text[256];
    (void)state;
    snprintf(text, sizeof text, ROW, "");
    struct result r = row_of(text);
    assert_string_equal(r.type_k, "fp8"); // 112 x 2176 positions of 512 KiB are 119 GiB
    assert_says(r.assumed, "more would not fit");
    assert_within_bound(&r);
    snprintf(text, sizeof text, ROW, "fp16");
    r = row_of(text);
    assert_over_bound(&r, "does not fit");
}

static void test_trap_experts_of_a_batch(void **state)
{
    (void)state;
    struct result one = row_of("m,vLLM,H200 SXM,2,mixtral-8x7b,bf16,16,bf16,bf16,1,1,1,decode,100,,,,,,");
    struct result eight = row_of("m,vLLM,H200 SXM,2,mixtral-8x7b,bf16,16,bf16,bf16,8,1,1,decode,100,,,,,,");
    double expert = 32 * 3 * 4096 * 14336.0 * 2 / 2; // bytes of one in all layers on each of 2 devices
    double touched = 8 * (1 - pow(0.75, 8));         // 7.2 of 8
    assert_near(eight.weight_bytes - one.weight_bytes, (touched - 2) * expert, 1e-3);
    assert_true(eight.bound_ns < eight.roof_total_ns * 0.5); // physics: all eight may have chosen the same two
}

static void test_trap_pruned_models(void **state)
{
    (void)state;
    struct result r = row_of("o,vLLM,MI355X,8,llama3-405b pruned,fp4,4.5,fp8,fp4,,,1,e2e_flops,2019,,,,,,");
    assert_true(isnan(r.roof_ns));
    assert_says(r.reason, "pruned");
    r = row_of("o,vLLM,MI355X,8,llama3-405b,fp4,4.5,fp8,fp4,,,1,e2e_flops,2019,,,,,,open division: 405b pruned");
    assert_true(isnan(r.roof_ns));
}

static void test_trap_data_in_caches(void **state)
{
    (void)state;
    struct result r = row_of("c,stream,MI300X,1,,,,,,,,,kernel_bw,,,11900,,,,"); // what its Infinity Cache reads
    assert_over_bound(&r, "cache");
    // 135 MB in 8 bit stay in 256 MB: faster than memory, and no offence against physics
    r = row_of("c,x,MI300X,1,smollm2-135m,fp8,8,fp8,fp8,1,0,1,decode,60000,,,,,,");
    assert_within_bound(&r);
    assert_says(r.reason, "data in caches");
}

static void test_trap_rounded_tokens_per_second(void **state)
{
    char text[256];
    struct result r = row_of("r,calm,RTX 4090,1,llama2-7b,fp16,16,fp16,fp16,1,0,1,decode,69,,,,,,");
    (void)state;
    double most = 1e9 / r.bound_ns, printed = floor(most) + 1; // the next whole number above what is possible
    static const char ROW[] = "r,calm,RTX 4090,1,llama2-7b,fp16,16,fp16,fp16,1,0,1,decode,%.*f,,,,,,";
    snprintf(text, sizeof text, ROW, 0, printed);
    struct result rounded = row_of(text);
    assert_string_equal(rounded.verdict, printed - 0.5 < most ? "reported" : "over-bound");
    snprintf(text, sizeof text, ROW, 0, ceil(most) + 1);
    rounded = row_of(text);
    assert_over_bound(&rounded, "");
    snprintf(text, sizeof text, ROW, 3, most + 0.01); // printed to a thousandth it is no matter of rounding
    rounded = row_of(text);
    assert_over_bound(&rounded, "");
}

static void test_trap_b300_int8(void **state)
{
    (void)state;
    struct result r = row_of("i,cuBLASLt,B300,1,,,,,int8,,,,kernel_flops,,,,1000,,,");
    assert_over_bound(&r, "");
    r = row_of("i,cuBLASLt,B200,1,,,,,int8,,,,kernel_flops,,,,1000,,,");
    assert_within_bound(&r);
}

static void test_trap_one_bad_rig(void **state)
{
    (void)state;
    struct result r =
        row_of("x,llama.cpp,A100 SXM 80GB,1,llama3-8b,F16,16,f16,fp16,1,1024,1,prefill,681.47,,,,,,OUTLIER in the source");
    assert_true(r.roof_fraction < 0.05);
    assert_says(r.reason, "outlier");
}

static void test_trap_boost_clocks(void **state)
{
    (void)state;
    struct result r = row_of("c,cuBLASLt,RTX 4090,1,,,,,bf16,,,,kernel_flops,,,,179,,,");
    assert_within_bound(&r);
    assert_near(r.datasheet_ns / r.median_ns, 1.083, 0.001);
    assert_near(r.bound_ns / r.median_ns, 0.88, 0.001);
    assert_says(r.reason, "1.08 times the printed datasheet");
}

static void test_trap_links_in_both_directions(void **state)
{
    (void)state;
    struct result r = row_of("l,nccl,H100 SXM,1,,,,,,,,,p2p,,,880,,,,"); // 900 is the sum of both
    assert_over_bound(&r, "both directions");
    r = row_of("l,nccl,H100 SXM,1,,,,,,,,,p2p,,,400,,,,");
    assert_within_bound(&r);
    assert_near(r.bound_ns / r.median_ns, 400 / 450.0, 1e-9);
}

static void test_trap_one_device_or_all(void **state)
{
    static const char ROW[] = "d,TensorRT-LLM,H100 SXM,%s,llama3-70b,fp8,8,fp8,fp8,1,0,128,decode,150,,,,,,";
    char text[256];
    (void)state;
    snprintf(text, sizeof text, ROW, "1");
    struct result r = row_of(text);
    assert_over_bound(&r, "several devices");
    snprintf(text, sizeof text, ROW, "8");
    r = row_of(text);
    assert_within_bound(&r);
    assert_int_equal(r.tp, 8);
    assert_says(r.assumed, "an n-th of the work");
    r = row_of("d,stream,H100 SXM,8,,,,,,,,,kernel_bw,,,25000,,,,");
    assert_within_bound(&r);
}

static void test_trap_tokens_of_prompts_and_answers(void **state)
{
    static const char TEXT[] = "{\"elapsed_time\": 31.25, \"num_requests\": 1000, \"total_num_tokens\": 413000, "
                               "\"requests_per_second\": 32.0, \"tokens_per_second\": 13216.0}";
    struct import_flags flags = NO_FLAGS;
    struct result r;
    (void)state;
    flags.model = "llama-3-8b", flags.hardware = "h100-sxm";
    rows_of(TEXT, &flags, &r, 1);
    assert_true(isnan(r.tokens_per_s) && isnan(r.roof_ns)); // 13216 are neither of prompts nor of answers
    assert_says(r.reason, "count prompts too");
    flags.n_prompt = 285, flags.n_gen = 128;
    rows_of(TEXT, &flags, &r, 1);
    assert_near(r.tokens_per_s, 4096, 1e-9);
    assert_near(r.flops, 1000 * (2 * (285 + 127) * LAYERS_8B + 2 * 128 * HEAD_8B), 0.02); // attention is the rest
    assert_within_bound(&r);
    flags.n_gen = 512;
    rows_of(TEXT, &flags, &r, 1);
    assert_says(r.reason, "not the 413");
    r = row_of("t,LMDeploy,A100 SXM 80GB,1,llama2-7b,fp16,16,fp16,fp16,64,128,128,e2e_static,3024.07,,,,,,");
    assert_near(r.median_ns, 64 * 128 / 3024.07 * 1e9, 1e-9); // answers over a time that has the prompts in it
    assert_near(r.flops, 64 * (2 * (128 + 127) * 6476005376.0 + 2 * 128 * 131072000.0), 0.02);
}

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
        cmocka_unit_test(test_decode_by_hand),
        cmocka_unit_test(test_trap_speculative_decoding_counted_as_decode),
        cmocka_unit_test(test_trap_embedding_table_counted_as_read),
        cmocka_unit_test(test_trap_head_once_per_prompt),
        cmocka_unit_test(test_trap_gib_read_as_gb),
        cmocka_unit_test(test_trap_sparse_peak_used_as_dense),
        cmocka_unit_test(test_trap_longest_length_where_lengths_are_random),
        cmocka_unit_test(test_trap_marketed_bandwidth_below_the_drivers),
        cmocka_unit_test(test_trap_marketed_bandwidth_above_the_drivers),
        cmocka_unit_test(test_trap_accumulate_rates),
        cmocka_unit_test(test_trap_kv_type_unknown),
        cmocka_unit_test(test_trap_experts_of_a_batch),
        cmocka_unit_test(test_trap_pruned_models),
        cmocka_unit_test(test_trap_data_in_caches),
        cmocka_unit_test(test_trap_rounded_tokens_per_second),
        cmocka_unit_test(test_trap_b300_int8),
        cmocka_unit_test(test_trap_one_bad_rig),
        cmocka_unit_test(test_trap_boost_clocks),
        cmocka_unit_test(test_trap_links_in_both_directions),
        cmocka_unit_test(test_trap_one_device_or_all),
        cmocka_unit_test(test_trap_tokens_of_prompts_and_answers),
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
