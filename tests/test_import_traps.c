// What makes a correct bound look beaten, or a wrong number look right: each of these traps is a test of its own. Numbers
// are worked by hand from shapes and data sheets.
#include "tests/import_rows.h"

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
    r = row_of("i,llama.cpp,GB10 (DGX Spark),1,,,,,int8,,,,kernel_flops,,,,200,,,"); // as fp8, since none is printed
    assert_within_bound(&r);
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
    };
    return cmocka_run_group_tests(tests, open_catalogue, close_catalogue);
}
