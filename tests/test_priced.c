// Models that are priced, not run: experts, latents, states, chunks. Parameters and KV bytes are those published; what a
// step reads and computes is worked out here from config.json's numbers alone.
#include "engine/base/json.h"
#include "roofline/catalogue.h"
#include "roofline/cost.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/files.h"
#include "tests/gguf_writer.h"

static void make(struct plan *plan, const char *name, struct plan_options options)
{
    struct model m;
    struct error e = {0};
    if (!catalogue_open_model(&m, name, &e) || !plan_make(plan, &m.spec, &options, &e))
        fail_msg("%s", e.message);
    model_close(&m);
}

static struct plan_options bf16(int32_t tp)
{
    struct plan_options options = plan_options_default(DTYPE_BF16);
    options.tp = tp;
    return options;
}

static uint64_t params_of(const struct plan *plan, bool with_indexer)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < plan->n_tensors; i++) {
        int role = plan->tensor[i].role;
        if (with_indexer || role < TENSOR_INDEX_Q || role > TENSOR_INDEX_WEIGHTS)
            sum += (uint64_t)plan->tensor[i].rows * (uint64_t)plan->tensor[i].cols;
    }
    return sum;
}

static double number_of(const char *path, const char *key)
{
    cJSON *json = NULL;
    struct error e = {0};
    if (!json_load(path, &json, &e))
        fail_msg("%s", e.message);
    const cJSON *n = json_member(json, key);
    double value = n ? n->valuedouble : 0;
    cJSON_Delete(json);
    return value;
}

// Index keys are counted apart by those who publish bytes per token.
static uint64_t kv_without_index(const struct plan *plan)
{
    uint64_t bytes = plan_kv_bytes_per_token(plan);
    for (int32_t g = 0; g < plan->n_kv_groups; g++)
        bytes -= (uint64_t)plan->kv_group[g].n_layers * kv_group_index_bytes(&plan->kv_group[g]);
    return bytes;
}

// Every entry of the catalogue makes a plan, with the parameters and KV bytes that its source states.
static void test_published_facts(void **state)
{
    struct catalogue_row *rows;
    struct error e = {0};
    int n, compared = 0;
    (void)state;
    assert_true(catalogue_list("models", &rows, &n, &e));
    for (int i = 0; i < n; i++) {
        char path[256];
        struct plan plan;
        snprintf(path, sizeof path, "configs/models/%s.json", rows[i].name);
        if (!rows[i].supported)
            fail_msg("%s: %s", rows[i].name, rows[i].detail);
        make(&plan, rows[i].name, bf16(1));
        double params = number_of(path, "params"), kv = number_of(path, "kv_bytes_per_token_16bit");
        if (params > 0 && (uint64_t)params != params_of(&plan, false))
            fail_msg("%s: %llu parameters", rows[i].name, (unsigned long long)params_of(&plan, false));
        // Gemma 4's published number takes the sliding geometry for all layers; 5 of 30 have 2 heads of 512 instead.
        if (!strcmp(rows[i].name, "gemma-4-26b-a4b"))
            kv += 5 * 2 * 2 * (2 * 512 - 8 * 256);
        if ((uint64_t)kv != kv_without_index(&plan))
            fail_msg("%s: %llu bytes of KV per token", rows[i].name, (unsigned long long)kv_without_index(&plan));
        compared += params > 0;
        plan_free(&plan);
    }
    assert_true(compared >= 74);
    free(rows);
}

static struct cost price(const struct plan *plan, int32_t sequences, int32_t context)
{
    struct batch batch;
    struct cost cost = {0};
    struct error e = {0};
    if (!batch_make_uniform(&batch, sequences, 1, context, context, &e) || !cost_of_step(plan, &batch, NULL, 0, &cost, &e))
        fail_msg("%s", e.message);
    batch_free(&batch);
    return cost;
}

static void assert_near(double value, double expected, double relative)
{
    if (!(fabs(value - expected) <= relative * fabs(expected)))
        fail_msg("%.17g, expected %.17g", value, expected);
}

// DeepSeek-V3, one row after 4095: every matrix but the embedding table, 8 of 256 experts of 58 layers.
static void test_latent_attention(void **state)
{
    const uint64_t L = 61, D = 7168, H = 128, R = 512, q = 1536, n = 128, r = 64, v = 128, V = 129280, B = 1, ctx = 4096;
    struct plan plan;
    (void)state;
    make(&plan, "deepseek-v3", bf16(1));
    struct cost cost = price(&plan, (int32_t)B, (int32_t)ctx);
    uint64_t projections = D * q + q * H * (n + r) + D * (R + r) + H * v * D;
    uint64_t absorbed = H * R * (n + v) + ctx * H * (2 * R + r);
    uint64_t dense = 3 * (3 * D * 18432), expert = 3 * D * 2048, moe = 58 * (9 * expert + 256 * D);
    assert_int_equal(cost.kv_read_bytes, ctx * L * (R + r) * 2);
    assert_int_equal(cost.kv_write_bytes, L * (R + r) * 2);
    assert_int_equal(cost_flops(&cost), 2 * (L * (projections + absorbed) + dense + moe + V * D));
    uint64_t small = L * (2 * D + q + R) + D + 58 * 256, kv_b = L * H * R * (n + v);
    uint64_t read = L * projections + kv_b + dense + moe + V * D + D + small;
    assert_near((double)cost.weight_bytes, 2.0 * (double)read, 1e-9);
    plan_free(&plan);
    make(&plan, "deepseek-v3", bf16(8)); // every rank holds the whole latent
    assert_int_equal(plan_kv_bytes_per_token(&plan), 70272);
    plan_free(&plan);
}

// An indexer scores every position, 128 fp8 values and a scale each, and attention reads 2048 of them.
static void test_sparse_attention(void **state)
{
    struct plan plan;
    (void)state;
    make(&plan, "deepseek-v3.2", bf16(1));
    assert_int_equal(plan_kv_bytes_per_token(&plan), 61 * (1152 + 132));
    assert_int_equal(price(&plan, 2, 65536).kv_read_bytes, 2 * 61ull * (65536 * 132 + 2048 * 1152));
    assert_int_equal(price(&plan, 2, 1000).kv_read_bytes, 2 * 61ull * 1000 * (132 + 1152));
    plan_free(&plan);
}

// Rows that choose k of E at random touch E (1 - (1 - k/E)^B) experts: Mixtral's 8 rows 7.2 of 8.
static void test_expert_coverage(void **state)
{
    struct plan plan;
    const double expert = 3.0 * 4096 * 14336 * 2, layers = 32;
    (void)state;
    make(&plan, "mixtral-8x7b", bf16(1));
    struct cost one = price(&plan, 1, 100), eight = price(&plan, 8, 100), many = price(&plan, 4096, 1);
    double embedding_rows = 7.0 * 4096 * 2; // looked up by 8 rows, not by one
    assert_near((double)(eight.weight_bytes - one.weight_bytes) - embedding_rows,
                layers * expert * (8 * (1 - pow(0.75, 8)) - 2), 1e-9);
    assert_near(8 * (1 - pow(0.75, 8)), 7.2, 0.001);
    assert_int_equal(one.expert_spread_bytes, 0);
    assert_near((double)eight.expert_spread_bytes, layers * expert * (8 * (1 - pow(0.75, 8)) - 2), 1e-9);
    assert_near((double)many.expert_spread_bytes, layers * expert * 6, 1e-9);
    assert_near((double)(cost_flops(&eight)), 8.0 * (double)cost_flops(&one), 1e-9);
    plan_free(&plan);
}

// Qwen3-Next: 12 of 48 layers grow; 36 hold 32 x 128 x 128 values and 3 columns of 8192 channels, in bf16.
static void test_constant_states(void **state)
{
    struct plan plan;
    uint64_t layer = 2 * (32 * 128 * 128 + 3 * (2 * 16 * 128 + 32 * 128));
    (void)state;
    make(&plan, "qwen3-next", bf16(1));
    assert_int_equal(price(&plan, 5, 300).kv_read_bytes, 5 * (300ull * 24576 + 36 * layer));
    assert_int_equal(price(&plan, 5, 300).kv_write_bytes, 5 * (24576 + 36 * layer));
    plan_free(&plan);
    make(&plan, "nemotron-3-nano", bf16(1)); // Mamba-2, states in f32
    layer = 4 * 64 * 64 * 128 + 2 * 3 * (64 * 64 + 2 * 8 * 128);
    assert_int_equal(price(&plan, 1, 300).kv_read_bytes, 300ull * 6144 + 23 * layer);
    plan_free(&plan);
}

// Llama 4: 36 of 48 layers see their own chunk of 8192 only.
static void test_chunked_attention(void **state)
{
    struct plan plan;
    (void)state;
    make(&plan, "llama-4-scout", bf16(1));
    assert_int_equal(price(&plan, 1, 8192).kv_read_bytes, 8192ull * 196608);
    assert_int_equal(price(&plan, 1, 8193).kv_read_bytes, (8193ull * 12 + 1 * 36) * 4096);
    assert_int_equal(price(&plan, 1, 20000).kv_read_bytes, (20000ull * 12 + (20000 - 16384) * 36) * 4096);
    plan_free(&plan);
}

static uint64_t one_role(const struct plan *plan, int role)
{
    for (int32_t i = 0; i < plan->n_tensors; i++)
        if (plan->tensor[i].role == role)
            return (uint64_t)plan->tensor[i].rows * (uint64_t)plan->tensor[i].cols;
    fail_msg("no such tensor");
    return 0;
}

// Latent projections, routers and norms are whole on each of 8 ranks; heads, experts and vocabulary are not.
static void test_what_does_not_divide(void **state)
{
    struct plan whole, eighth;
    (void)state;
    make(&whole, "deepseek-v3", bf16(1));
    make(&eighth, "deepseek-v3", bf16(8));
    static const int WHOLE[] = {TENSOR_ATTN_Q_A, TENSOR_ATTN_KV_A, TENSOR_ROUTER, TENSOR_ATTN_NORM, TENSOR_ROUTER_BIAS};
    static const int SHARED[] = {TENSOR_ATTN_Q_B,  TENSOR_ATTN_KV_B, TENSOR_ATTN_O,  TENSOR_EXPERTS,
                                 TENSOR_SHARED_UP, TENSOR_OUTPUT,    TENSOR_FFN_DOWN};
    for (size_t i = 0; i < sizeof WHOLE / sizeof *WHOLE; i++)
        assert_int_equal(one_role(&eighth, WHOLE[i]), one_role(&whole, WHOLE[i]));
    for (size_t i = 0; i < sizeof SHARED / sizeof *SHARED; i++)
        assert_int_equal(8 * one_role(&eighth, SHARED[i]), one_role(&whole, SHARED[i]));
    plan_free(&whole);
    plan_free(&eighth);
}

// Stages hold all layers once, the first the embedding and the last the head.
static void test_pipeline_stages(void **state)
{
    struct plan whole, stage;
    uint64_t params = 0, kv = 0;
    int32_t first, count, sum = 0;
    (void)state;
    make(&whole, "deepseek-v2-lite", bf16(1));
    for (int32_t s = 0; s < 4; s++) {
        struct plan_options options = bf16(1);
        options.pp = 4, options.stage = s;
        make(&stage, "deepseek-v2-lite", options);
        params += params_of(&stage, true), kv += plan_kv_bytes_per_token(&stage);
        plan_stage_layers(27, 4, s, &first, &count);
        assert_int_equal(first, sum);
        assert_int_equal(plan_kv_bytes_per_token(&stage), (uint64_t)count * 1152);
        assert_true(count == 6 || count == 7);
        sum += count;
        plan_free(&stage);
    }
    assert_int_equal(sum, 27);
    assert_int_equal(params, params_of(&whole, true));
    assert_int_equal(kv, plan_kv_bytes_per_token(&whole));
    plan_free(&whole);
}

// With DP attention a rank has whole heads and its own sequences, and the experts see the rows of all ranks.
static void test_dp_attention(void **state)
{
    struct plan dp, tp;
    struct plan_options options = bf16(8);
    (void)state;
    make(&tp, "deepseek-v3", options);
    options.dp_attention = true;
    make(&dp, "deepseek-v3", options);
    assert_int_equal(one_role(&dp, TENSOR_ATTN_Q_B), 8 * one_role(&tp, TENSOR_ATTN_Q_B));
    assert_int_equal(one_role(&dp, TENSOR_EXPERTS), one_role(&tp, TENSOR_EXPERTS));
    struct cost a = price(&dp, 4, 1000), b = price(&tp, 32, 1000); // the same 32 sequences
    assert_int_equal(8 * a.kv_read_bytes, b.kv_read_bytes);
    assert_near((double)a.expert_spread_bytes, (double)b.expert_spread_bytes, 1e-9);
    plan_free(&dp);
    plan_free(&tp);
}

// A GGUF header of a family that is priced only: the facts of its config.json under other names.
static void test_gguf_header(void **state)
{
    static const struct {
        const char *key;
        uint32_t value;
    } VALUES[] = {{"deepseek2.block_count", 4},
                  {"deepseek2.embedding_length", 64},
                  {"deepseek2.context_length", 4096},
                  {"deepseek2.feed_forward_length", 96},
                  {"deepseek2.attention.head_count", 4},
                  {"deepseek2.attention.head_count_kv", 4},
                  {"deepseek2.expert_count", 8},
                  {"deepseek2.expert_used_count", 2},
                  {"deepseek2.expert_feed_forward_length", 32},
                  {"deepseek2.expert_shared_count", 1},
                  {"deepseek2.leading_dense_block_count", 1},
                  {"deepseek2.attention.kv_lora_rank", 16},
                  {"deepseek2.attention.q_lora_rank", 24},
                  {"deepseek2.rope.dimension_count", 8},
                  {"deepseek2.attention.key_length", 24},
                  {"deepseek2.attention.value_length", 16}};
    enum { N = sizeof VALUES / sizeof *VALUES };
    static struct bytes file;
    char folder[64], path[128];
    struct model m;
    struct error e = {0};
    (void)state;
    put_head(&file, 3, 1, N + 1);
    put_string_value(&file, "general.architecture", "deepseek2");
    for (int i = 0; i < N; i++)
        put_u32_value(&file, VALUES[i].key, VALUES[i].value);
    put_tensor(&file, "token_embd.weight", 64, 100, 0, 0);
    put_padding(&file, 32);
    put_zeros(&file, 64 * 100 * 4);
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/tiny.gguf", folder);
    FILE *f = fopen(path, "w");
    assert_true(f && fwrite(file.data, 1, file.size, f) == file.size && fclose(f) == 0);
    if (!model_open(&m, path, &e))
        fail_msg("%s", e.message);
    assert_int_equal(m.spec.mla.kv_lora_rank, 16);
    assert_int_equal(m.spec.mla.qk_nope_head_dim, 16);
    assert_int_equal(m.spec.experts.num_experts, 8);
    assert_int_equal(m.spec.ffn[0], FFN_GATED);
    assert_int_equal(m.spec.ffn[1], FFN_EXPERTS);
    struct plan plan;
    struct plan_options options = bf16(1);
    assert_true(plan_make(&plan, &m.spec, &options, &e));
    assert_int_equal(plan_kv_bytes_per_token(&plan), 4 * (16 + 8) * 2);
    assert_int_equal(model_stored_bytes(&m), 64 * 100 * 4);
    plan_free(&plan);
    model_close(&m);
    scratch_remove(folder, "tiny.gguf", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_facts),      cmocka_unit_test(test_latent_attention),
        cmocka_unit_test(test_sparse_attention),     cmocka_unit_test(test_expert_coverage),
        cmocka_unit_test(test_constant_states),      cmocka_unit_test(test_chunked_attention),
        cmocka_unit_test(test_what_does_not_divide), cmocka_unit_test(test_pipeline_stages),
        cmocka_unit_test(test_dp_attention),         cmocka_unit_test(test_gguf_header),
    };
    return cmocka_run_group_tests_name("priced", tests, NULL, NULL);
}
