// Closed formulas, written from config.json alone, equal what walking the plan gives: to the byte and to the FLOP, for every
// model of the catalogue that can be expressed. The others are refused by name.
#include "engine/base/json.h"
#include "roofline/capacity.h"
#include "roofline/catalogue.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Letters as in engine/op.h; L layers, of which `sliding` see a window of W positions.
struct shape {
    uint64_t L, D, H, K, d, F, V, W, sliding;
    uint64_t norms;   // of D values in each layer
    uint64_t qk_norm; // values of each layer's norms of q and k
    bool tied, qkv_bias, o_bias, mlp_bias;
    uint64_t params, kv_bytes_per_token; // as published
};

static uint64_t get(const cJSON *config, const char *key, uint64_t absent)
{
    const cJSON *m = json_member(config, key);
    return m ? (uint64_t)m->valuedouble : absent;
}

static bool is_set(const cJSON *config, const char *key)
{
    return cJSON_IsTrue(json_member(config, key));
}

static uint64_t count_sliding(const cJSON *config, const char *type, uint64_t layers)
{
    uint64_t n = 0;
    const cJSON *kind;
    if (!strcmp(type, "mistral") || !strcmp(type, "phi3"))
        return json_member(config, "sliding_window") ? layers : 0;
    if (strncmp(type, "gemma", 5))
        return 0;
    cJSON_ArrayForEach(kind, json_member(config, "layer_types")) n += !strcmp(kind->valuestring, "sliding_attention");
    return n;
}

static struct shape read_shape(const char *name)
{
    char path[1024];
    cJSON *json = NULL;
    struct error e = {0};
    if (!catalogue_find("models", name, path, sizeof path, &e) || !json_load(path, &json, &e))
        fail_msg("%s", e.message);
    const cJSON *c = json_member(json, "config");
    const char *type = json_member(c, "model_type")->valuestring;
    bool qwen2 = !strcmp(type, "qwen2"), gemma3 = !strncmp(type, "gemma3", 6), olmo2 = !strcmp(type, "olmo2");
    bool gemma = !strncmp(type, "gemma", 5), by_head = !strcmp(type, "qwen3") || gemma3;
    struct shape s = {.L = get(c, "num_hidden_layers", 0),
                      .D = get(c, "hidden_size", 0),
                      .H = get(c, "num_attention_heads", 0),
                      .F = get(c, "intermediate_size", 0),
                      .V = get(c, "vocab_size", 0),
                      .W = get(c, "sliding_window", 0),
                      .norms = gemma ? 4 : 2,
                      .tied = is_set(c, "tie_word_embeddings"),
                      .qkv_bias = qwen2 || is_set(c, "attention_bias"),
                      .o_bias = !qwen2 && is_set(c, "attention_bias"),
                      .mlp_bias = is_set(c, "mlp_bias"),
                      .params = get(json, "params", 0),
                      .kv_bytes_per_token = get(json, "kv_bytes_per_token_16bit", 0)};
    s.K = get(c, "num_key_value_heads", s.H);
    s.d = get(c, "head_dim", s.D / s.H);
    s.sliding = count_sliding(c, type, s.L);
    s.qk_norm = by_head ? 2 * s.d : olmo2 ? (s.H + s.K) * s.d : 0;
    cJSON_Delete(json);
    return s;
}

// Values of one layer before and behind attention; the matrices' part is what is multiplied.
static uint64_t qkv_matrices(const struct shape *s)
{
    return s->D * (s->H + 2 * s->K) * s->d;
}

static uint64_t rest_matrices(const struct shape *s)
{
    return s->H * s->d * s->D + 3 * s->D * s->F;
}

static uint64_t layer_vectors(const struct shape *s)
{
    return s->norms * s->D + s->qk_norm + (s->qkv_bias ? (s->H + 2 * s->K) * s->d : 0) + (s->o_bias ? s->D : 0) +
           (s->mlp_bias ? 2 * s->F + s->D : 0);
}

static uint64_t params_of(const struct shape *s)
{
    return s->L * (qkv_matrices(s) + rest_matrices(s) + layer_vectors(s)) + s->D + (s->tied ? 1 : 2) * s->V * s->D;
}

// Keys attended by the rows at positions c..c+m-1 in all layers, summed. Without a window m*c + m(m+1)/2.
static uint64_t pairs_of(const struct shape *s, uint64_t c, uint64_t m)
{
    uint64_t pairs = (s->L - s->sliding) * (m * c + m * (m + 1) / 2);
    for (uint64_t p = c; s->sliding && p < c + m; p++)
        pairs += s->sliding * (p + 1 < s->W ? p + 1 : s->W);
    return pairs;
}

// Positions whose KV these rows read in all layers, summed.
static uint64_t positions_of(const struct shape *s, uint64_t c, uint64_t m)
{
    uint64_t in_window = c + 1 > s->W ? s->W + m - 1 : c + m;
    return (s->L - s->sliding) * (c + m) + s->sliding * in_window;
}

// A step of B sequences, each appending m rows to c positions; row: bytes of one head's K or V.
static struct cost closed_form(const struct shape *s, uint64_t B, uint64_t c, uint64_t m, uint64_t row)
{
    uint64_t looked_up = B * m < s->V ? B * m : s->V;
    struct cost cost = {.weight_bytes = 2 * (params_of(s) - (s->tied ? 0 : (s->V - looked_up) * s->D)),
                        .kv_read_bytes = B * positions_of(s, c, m) * 2 * s->K * row,
                        .kv_write_bytes = B * m * s->L * 2 * s->K * row};
    cost.flops[DTYPE_BF16] = 2 * B * m * (s->L * qkv_matrices(s) + (s->L - 1) * rest_matrices(s)) +
                             2 * B * (rest_matrices(s) + s->D * s->V) + 4 * B * s->H * s->d * pairs_of(s, c, m);
    return cost;
}

static void make_plan(struct plan *plan, const char *name, enum dtype kv, int32_t tp)
{
    struct model m;
    struct error e = {0};
    struct plan_options options = plan_options_default(DTYPE_BF16);
    options.kv_k = options.kv_v = kv;
    options.tp = tp;
    if (!catalogue_open_model(&m, name, &e) || !plan_make(plan, &m.spec, &options, &e))
        fail_msg("%s", e.message);
    model_close(&m);
}

static void assert_equal(const char *name, const char *what, uint64_t plan, uint64_t formula)
{
    if (plan != formula)
        fail_msg("%s: %s of the plan %llu, of the formula %llu", name, what, (unsigned long long)plan,
                 (unsigned long long)formula);
}

static void check_step(const char *name, const struct plan *plan, const struct shape *s, int32_t B, int32_t c, int32_t m)
{
    struct batch batch;
    struct cost cost, formula = closed_form(s, (uint64_t)B, (uint64_t)c, (uint64_t)m, dtype_row_bytes(plan->kv_k, s->d));
    struct error e = {0};
    if (!batch_make_uniform(&batch, B, m, c + m, c + m, &e) || !cost_of_step(plan, &batch, NULL, 0, &cost, &e))
        fail_msg("%s", e.message);
    batch_free(&batch);
    assert_equal(name, "weights", cost.weight_bytes, formula.weight_bytes);
    assert_equal(name, "KV read", cost.kv_read_bytes, formula.kv_read_bytes);
    assert_equal(name, "KV written", cost.kv_write_bytes, formula.kv_write_bytes);
    assert_equal(name, "FLOPs", cost.flops[DTYPE_BF16], formula.flops[DTYPE_BF16]);
    assert_equal(name, "all FLOPs", cost_flops(&cost), cost.flops[DTYPE_BF16]);
}

static void check_model(const char *name)
{
    static const enum dtype KV[] = {DTYPE_BF16, DTYPE_INT8};
    struct shape s = read_shape(name);
    assert_equal(name, "published parameters", params_of(&s), s.params);
    for (int i = 0; i < 2; i++) {
        struct plan plan;
        make_plan(&plan, name, KV[i], 1);
        assert_equal(name, "weight bytes", plan_weight_bytes(&plan), 2 * s.params);
        assert_equal(name, "KV per token", plan_kv_bytes_per_token(&plan), s.L * 2 * s.K * dtype_row_bytes(KV[i], s.d));
        if (KV[i] == DTYPE_BF16)
            assert_equal(name, "published KV per token", plan_kv_bytes_per_token(&plan), s.kv_bytes_per_token);
        check_step(name, &plan, &s, 1, 0, 1);
        check_step(name, &plan, &s, 32, 4095, 1);
        check_step(name, &plan, &s, 3, 8999, 1);
        check_step(name, &plan, &s, 1, 0, 512);
        check_step(name, &plan, &s, 2, 0, 6000);
        check_step(name, &plan, &s, 5, 4090, 17);
        plan_free(&plan);
    }
}

// Dense decoders with heads of one size whose parameters are published; the others have tests/test_priced.c.
static bool is_plain(const char *name)
{
    struct shape s = {0};
    struct model m;
    struct error e = {0};
    assert_true(catalogue_open_model(&m, name, &e));
    bool plain = !m.spec.experts.num_experts && !m.spec.mla.kv_lora_rank && !m.spec.state.num_v_heads && !m.spec.layer_norm;
    model_close(&m);
    if (plain)
        s = read_shape(name);
    return plain && s.params;
}

static void test_every_model(void **state)
{
    struct catalogue_row *rows;
    struct error e = {0};
    int n, expressed = 0;
    (void)state;
    assert_true(catalogue_list("models", &rows, &n, &e));
    for (int i = 0; i < n; i++) {
        struct model m;
        if (rows[i].supported) {
            if (is_plain(rows[i].name))
                check_model(rows[i].name), expressed++;
            continue;
        }
        e.kind = ERROR_NONE;
        assert_false(catalogue_open_model(&m, rows[i].name, &e));
        assert_int_equal(e.kind, ERROR_UNSUPPORTED);
        assert_non_null(strstr(e.message, rows[i].name));
    }
    assert_true(expressed >= 47 && n >= 80); // neither side of this test is empty
    free(rows);
}

static void test_published_numbers(void **state)
{
    static const struct {
        const char *name;
        uint64_t kv_bytes;
    } KNOWN[] = {{"qwen3-0.6b", 114688}, {"llama-3-8b", 131072}, {"qwen2.5-7b", 57344}, {"llama-2-13b", 819200}};
    (void)state;
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++) {
        struct plan plan;
        make_plan(&plan, KNOWN[i].name, DTYPE_F16, 1);
        assert_int_equal(plan_kv_bytes_per_token(&plan), KNOWN[i].kv_bytes);
        if (i == 3)
            assert_int_equal(capacity_kv_bytes(&plan, 2048, 16), 1677721600);
        plan_free(&plan);
    }
}

// Llama-3-70B on 4 ranks: a quarter of each matrix, of the heads and of the vocabulary; norms whole; 2 * 3/4 of 161
// all-reduces (one behind the embedding, two per layer) of [rows, 8192] bf16, the last two with the output rows alone.
static void test_one_of_four_ranks(void **state)
{
    struct shape s = read_shape("llama-3-70b");
    struct plan plan;
    struct batch batch;
    struct cost cost;
    struct error e = {0};
    (void)state;
    make_plan(&plan, "llama-3-70b", DTYPE_BF16, 4);
    uint64_t matrices = s.L * (qkv_matrices(&s) + rest_matrices(&s)) / 4, norms = s.L * 2 * s.D + s.D;
    assert_int_equal(plan_weight_bytes(&plan), 2 * (matrices + norms + 2 * s.V * s.D / 4));
    assert_int_equal(plan_kv_bytes_per_token(&plan), 2 * 80 * 2 * 2 * 128);
    assert_true(batch_make_uniform(&batch, 32, 1, 8192, 8192, &e) && cost_of_step(&plan, &batch, NULL, 0, &cost, &e));
    batch_free(&batch);
    assert_int_equal(cost.weight_bytes, 2 * (matrices + norms + s.V * s.D / 4 + 32 * s.D));
    assert_int_equal(cost.kv_read_bytes, 32 * 8192ull * plan_kv_bytes_per_token(&plan));
    assert_int_equal(cost.flops[DTYPE_BF16], 32 * (2 * (matrices + s.V * s.D / 4) + 4 * s.L * (s.H / 4) * s.d * 8192));
    assert_int_equal(cost.link_bytes, 161 * (32 * 8192 * 2) * 2 * 3 / 4);
    plan_free(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_model),
        cmocka_unit_test(test_published_numbers),
        cmocka_unit_test(test_one_of_four_ranks),
    };
    return cmocka_run_group_tests_name("formulas", tests, NULL, NULL);
}
