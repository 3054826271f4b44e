// What is true of every plan, and numbers worked by hand.
#include "engine/backend.h"
#include "tests/tiny.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct shape {
    const char *name;
    int32_t layers, hidden, ffn, vocab, heads, kv_heads, head_dim;
    bool tied, qk_norm, qkv_bias;
    int32_t window;
};
static const struct shape QWEN3_06B = {"qwen3-0.6b", 28, 1024, 3072, 151936, 16, 8, 128, true, true, false, 0};
static const struct shape LLAMA3_8B = {"llama-3-8b", 32, 4096, 14336, 128256, 32, 8, 128, false, false, false, 0};
static const struct shape QWEN25_7B = {"qwen2.5-7b", 28, 3584, 18944, 152064, 28, 4, 128, false, false, true, 0};
static const struct shape LLAMA2_13B = {"llama-2-13b", 40, 5120, 13824, 32000, 40, 40, 128, false, false, false, 0};
static const struct shape MISTRAL_7B = {"mistral-7b", 32, 4096, 14336, 32000, 32, 8, 128, false, false, false, 4096};

static struct model_spec spec_of(const struct shape *s)
{
    struct model_spec spec = tiny_spec();
    snprintf(spec.name, sizeof spec.name, "%s", s->name);
    spec.num_hidden_layers = s->layers;
    spec.hidden_size = s->hidden;
    spec.intermediate_size = s->ffn;
    spec.vocab_size = s->vocab;
    spec.num_attention_heads = s->heads;
    spec.num_key_value_heads = s->kv_heads;
    spec.head_dim = spec.rope.rotary_dim = s->head_dim;
    spec.tie_word_embeddings = s->tied;
    spec.qk_norm = s->qk_norm;
    spec.qkv_bias = s->qkv_bias;
    for (int32_t i = 0; i < s->layers; i++)
        spec.window[i] = s->window;
    return spec;
}

static void make(struct plan *plan, const struct shape *shape, enum dtype weights, int32_t tp)
{
    struct model_spec spec = spec_of(shape);
    struct plan_options options = plan_options_default(weights);
    struct error e = {0};
    options.tp = tp;
    if (!plan_make(plan, &spec, &options, &e))
        fail_msg("%s", e.message);
}

static int32_t count_kind(const struct plan *plan, enum op_kind kind)
{
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_ops; i++)
        n += plan->op[i].kind == kind;
    return n;
}

// Slots: one writer, written before they are read, all but the logits read by somebody, as wide as their readers think.
static void check_slots(const struct plan *plan)
{
    int32_t *readers = calloc((size_t)plan->n_slots, sizeof *readers),
            *writers = calloc((size_t)plan->n_slots, sizeof *writers);
    assert_true(readers && writers);
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const struct op *op = &plan->op[i];
        for (int k = 0; k < 3; k++)
            if (op->in[k] >= 0) {
                assert_true(op->in[k] < plan->n_slots);
                assert_int_equal(writers[op->in[k]], 1);
                assert_true(op->rows == ROWS_OUT || plan->slot[op->in[k]].rows == ROWS_TOKENS);
                readers[op->in[k]]++;
            }
        if (op->out >= 0) {
            writers[op->out]++;
            assert_int_equal(plan->slot[op->out].rows, op->rows);
        }
    }
    for (int32_t s = 0; s < plan->n_slots; s++) {
        assert_int_equal(writers[s], 1);
        assert_int_equal(readers[s] == 0, s == plan->logits);
    }
    free(readers);
    free(writers);
}

// Shapes of the linear layers agree with slots and tensors.
static void check_linear(const struct plan *plan, const struct op *op)
{
    const struct tensor_spec *w = &plan->tensor[op->weight];
    assert_int_equal(plan->slot[op->in[0]].width, op->dim[0]);
    assert_int_equal(plan->slot[op->out].width, op->dim[1]);
    assert_int_equal(w->cols, op->dim[0]);
    assert_int_equal(w->rows, op->dim[1]);
    if (op->bias >= 0)
        assert_int_equal(plan->tensor[op->bias].cols, op->dim[1]);
}

// Each layer writes its KV before it reads it, under one group and layer.
static void check_kv(const struct plan *plan)
{
    int32_t n_layers = 0, writes = 0;
    for (int32_t g = 0; g < plan->n_kv_groups; g++)
        n_layers += plan->kv_group[g].n_layers;
    assert_int_equal(n_layers, count_kind(plan, OP_ATTN));
    assert_int_equal(n_layers, count_kind(plan, OP_KV_WRITE));
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind == OP_KV_WRITE)
            writes++;
        if (op->kind != OP_ATTN) {
            assert_true(op->kind == OP_KV_WRITE || op->kv_group == -1);
            continue;
        }
        const struct kv_group *g = &plan->kv_group[op->kv_group];
        assert_int_equal(op->layer, writes - 1);
        assert_true(op->kv_layer < g->n_layers);
        assert_int_equal(op->dim[1], g->num_key_value_heads);
        assert_int_equal(op->dim[2], g->head_dim);
        assert_int_equal(op->dim[3], g->window);
        assert_int_equal(op->dim[0] % op->dim[1], 0);
    }
}

static void check_structure(const struct plan *plan)
{
    int32_t *used = calloc((size_t)plan->n_tensors, sizeof *used);
    assert_non_null(used);
    check_slots(plan);
    check_kv(plan);
    for (int32_t i = 0; i < plan->n_ops; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind == OP_LINEAR)
            check_linear(plan, op);
        if (op->weight >= 0)
            used[op->weight]++;
        if (op->bias >= 0)
            used[op->bias]++;
    }
    for (int32_t t = 0; t < plan->n_tensors; t++)
        assert_in_range(used[t], 1, 2); // 2: a tied embedding
    assert_int_equal(plan->slot[plan->logits].width, plan->vocab_size);
    assert_int_equal(plan->slot[plan->logits].rows, ROWS_OUT);
    free(used);
}

static void test_structure(void **state)
{
    (void)state;
    const struct shape *shape[] = {&QWEN3_06B, &LLAMA3_8B, &QWEN25_7B, &LLAMA2_13B, &MISTRAL_7B};
    for (int i = 0; i < 5; i++)
        for (int32_t tp = 1; tp <= 4; tp *= 2) {
            struct plan plan;
            make(&plan, shape[i], DTYPE_BF16, tp);
            check_structure(&plan);
            // Of the embedding, and two per layer.
            assert_int_equal(count_kind(&plan, OP_ALLREDUCE), tp == 1 ? 0 : 1 + 2 * shape[i]->layers);
            plan_free(&plan);
        }
}

static void make_tiny(struct plan *plan, const struct model_spec *spec)
{
    struct plan_options options = plan_options_default(DTYPE_F32);
    struct error e = {0};
    if (!plan_make(plan, spec, &options, &e))
        fail_msg("%s", e.message);
    check_structure(plan);
}

// Two layers: a norm before attention and feed-forward, behind both, or around them; one more before the head.
static void test_places_of_norms(void **state)
{
    static const int32_t N[] = {2 * 2 + 1, 2 * 4 + 1, 2 * 2 + 1};
    (void)state;
    for (int place = NORM_BEFORE; place <= NORM_AFTER; place++)
        for (int qk = QK_NORM_NONE; qk <= QK_NORM_ROW; qk++) {
            struct model_spec spec = tiny_spec();
            struct plan plan;
            spec.norm_place = (enum norm_place)place, spec.qk_norm = (enum qk_norm)qk;
            make_tiny(&plan, &spec);
            assert_int_equal(count_kind(&plan, OP_NORM), N[place] + (qk == QK_NORM_NONE ? 0 : 4));
            for (int32_t i = 0; i < plan.n_tensors; i++) {
                bool q = plan.tensor[i].role == TENSOR_ATTN_Q_NORM, k = plan.tensor[i].role == TENSOR_ATTN_K_NORM;
                if (q || k)
                    assert_int_equal(plan.tensor[i].cols, qk == QK_NORM_HEAD ? 16 : q ? 4 * 16 : 2 * 16);
            }
            plan_free(&plan);
        }
}

static const struct op *first_of(const struct plan *plan, enum op_kind kind, int32_t layer)
{
    for (int32_t i = 0; i < plan->n_ops; i++)
        if (plan->op[i].kind == kind && (layer < 0 || plan->op[i].layer == layer))
            return &plan->op[i];
    fail_msg("no %s in layer %d", op_kind_name(kind), layer);
    return NULL;
}

static void check_factors(const struct plan *plan, float embed, float attn, float cap, float add, float head, float head_cap)
{
    const struct op *last = &plan->op[plan->n_ops - 1];
    assert_true(first_of(plan, OP_EMBED, -1)->param[0] == embed && first_of(plan, OP_LINEAR, 0)->param[0] == 1);
    assert_true(first_of(plan, OP_ATTN, 1)->param[0] == attn && first_of(plan, OP_ATTN, 1)->param[1] == cap);
    assert_true(first_of(plan, OP_ADD, 1)->param[0] == add && first_of(plan, OP_LINEAR, 0)->param[1] == 0);
    assert_true(last->param[0] == head && last->param[1] == head_cap);
}

static void test_factors(void **state)
{
    struct model_spec spec = tiny_spec();
    struct plan plan;
    (void)state;
    make_tiny(&plan, &spec);
    check_factors(&plan, 1, 0.25f, 0, 1, 1, 0);
    assert_int_equal(first_of(&plan, OP_ACT, 1)->dim[1], ACT_SILU);
    plan_free(&plan);
    spec.embedding_multiplier = 8, spec.attention_multiplier = 0.5f, spec.residual_multiplier = 0.22f;
    spec.logits_scaling = 4, spec.attn_logit_softcapping = 50, spec.final_logit_softcapping = 30;
    spec.hidden_act = ACT_GELU_TANH;
    make_tiny(&plan, &spec);
    check_factors(&plan, 8, 0.5f, 50, 0.22f, 0.25f, 30);
    assert_int_equal(first_of(&plan, OP_ACT, 1)->dim[1], ACT_GELU_TANH);
    plan_free(&plan);
}

// Layers with a window turn by the local rope where the model has one.
static void test_rope_by_kind_of_layer(void **state)
{
    struct model_spec spec = tiny_spec();
    struct plan plan;
    (void)state;
    spec.window[0] = 4;
    make_tiny(&plan, &spec);
    assert_int_equal(plan.n_ropes, 1);
    assert_int_equal(first_of(&plan, OP_ROPE, 0)->dim[3], 0);
    plan_free(&plan);
    spec.rope_local = (struct rope_spec){.rotary_dim = 8, .theta = 100};
    make_tiny(&plan, &spec);
    const struct op *local = first_of(&plan, OP_ROPE, 0), *global = first_of(&plan, OP_ROPE, 1);
    assert_true(plan.n_ropes == 2 && plan.rope[local->dim[3]].theta == 100 && local->dim[2] == 8);
    assert_true(plan.rope[global->dim[3]].theta == 10000 && global->dim[2] == 16);
    plan_free(&plan);
}

static uint64_t kv_per_token(const struct shape *shape, enum dtype weights, int32_t tp)
{
    struct plan plan;
    make(&plan, shape, weights, tp);
    uint64_t bytes = plan_kv_bytes_per_token(&plan);
    plan_free(&plan);
    return bytes;
}

static void test_kv_bytes_per_token(void **state)
{
    (void)state;
    assert_int_equal(kv_per_token(&QWEN3_06B, DTYPE_BF16, 1), 114688);
    assert_int_equal(kv_per_token(&LLAMA3_8B, DTYPE_BF16, 1), 131072);
    assert_int_equal(kv_per_token(&QWEN25_7B, DTYPE_BF16, 1), 57344);
    assert_int_equal(kv_per_token(&LLAMA2_13B, DTYPE_F16, 1) * 2048, 1677721600);
    assert_int_equal(kv_per_token(&LLAMA3_8B, DTYPE_F32, 1), 262144);
}

static void test_quantized_kv_counts_its_scales(void **state)
{
    (void)state;
    struct model_spec spec = spec_of(&QWEN3_06B);
    struct plan_options options = plan_options_default(DTYPE_BF16);
    struct plan plan;
    options.kv_k = options.kv_v = DTYPE_INT8;
    assert_true(plan_make(&plan, &spec, &options, NULL));
    assert_int_equal(plan_kv_bytes_per_token(&plan), 28 * 8 * 2 * 130);
    plan_free(&plan);
    options.kv_k = DTYPE_F16;
    assert_true(plan_make(&plan, &spec, &options, NULL));
    assert_int_equal(plan_kv_bytes_per_token(&plan), 28 * 8 * (256 + 130));
    plan_free(&plan);
}

// 8 KV heads over 16 ranks: each rank keeps one, so two ranks hold the same.
static void test_tensor_parallel_shares(void **state)
{
    (void)state;
    struct plan one, four, sixteen;
    assert_int_equal(kv_per_token(&LLAMA3_8B, DTYPE_BF16, 4), 131072 / 4);
    assert_int_equal(kv_per_token(&LLAMA3_8B, DTYPE_BF16, 8), 131072 / 8);
    assert_int_equal(kv_per_token(&LLAMA3_8B, DTYPE_BF16, 16), 131072 / 8);
    make(&one, &LLAMA3_8B, DTYPE_BF16, 1);
    make(&four, &LLAMA3_8B, DTYPE_BF16, 4);
    make(&sixteen, &LLAMA3_8B, DTYPE_BF16, 16);
    assert_int_equal(plan_weight_bytes(&one), 16060522496); // 8,030,261,248 parameters
    uint64_t norms = 65 * 4096 * 2;
    assert_int_equal(plan_weight_bytes(&four), (16060522496 - norms) / 4 + norms);
    assert_int_equal(four.vocab_size, 128256 / 4);
    assert_int_equal(sixteen.kv_group[0].num_key_value_heads, 1);
    plan_free(&one);
    plan_free(&four);
    plan_free(&sixteen);
}

static void test_shards_that_do_not_divide(void **state)
{
    (void)state;
    struct model_spec spec = spec_of(&QWEN25_7B);
    struct plan_options options = plan_options_default(DTYPE_BF16);
    struct plan plan;
    struct error e;
    options.tp = 8; // 28 heads
    assert_false(plan_make(&plan, &spec, &options, &e));
    assert_int_equal(e.kind, ERROR_UNSUPPORTED);
    assert_non_null(strstr(e.message, "28 attention heads"));
    struct model_spec by_row = tiny_spec();
    by_row.qk_norm = QK_NORM_ROW;
    options.tp = 2;
    assert_false(plan_make(&plan, &by_row, &options, &e));
    assert_int_equal(e.kind, ERROR_UNSUPPORTED);
    options.tp = -1;
    assert_false(plan_make(&plan, &spec, &options, &e));
    assert_int_equal(e.kind, ERROR_USAGE);
    options.tp = 1;
    options.weights = DTYPE_Q6_K;
    spec.hidden_size = 1000; // not whole blocks of 256
    assert_false(plan_make(&plan, &spec, &options, &e));
    assert_int_equal(e.kind, ERROR_UNSUPPORTED);
}

static void test_families_differ_where_they_should(void **state)
{
    (void)state;
    struct plan plan;
    make(&plan, &QWEN3_06B, DTYPE_BF16, 1);
    assert_int_equal(count_kind(&plan, OP_NORM), 28 * 4 + 1);
    assert_int_equal(count_kind(&plan, OP_LINEAR), 28 * 7 + 1);
    assert_int_equal(plan.n_tensors, 2 + 28 * 11); // tied: no head of its own
    const struct op *head = &plan.op[plan.n_ops - 1];
    assert_int_equal(plan.tensor[head->weight].role, TENSOR_TOKEN_EMBD);
    assert_string_equal(op_label(&plan, head), "output");
    plan_free(&plan);
    make(&plan, &QWEN25_7B, DTYPE_BF16, 1);
    assert_int_equal(plan.n_tensors, 3 + 28 * 12);
    plan_free(&plan);
    make(&plan, &MISTRAL_7B, DTYPE_BF16, 1);
    assert_int_equal(plan.n_kv_groups, 1);
    assert_int_equal(plan.kv_group[0].window, 4096);
    plan_free(&plan);
}

// Alternating windows make two groups of KV, each with its own layer numbers.
static void test_layers_group_by_window(void **state)
{
    (void)state;
    struct model_spec spec = tiny_spec();
    struct plan_options options = plan_options_default(DTYPE_F32);
    struct plan plan;
    spec.num_hidden_layers = 6;
    for (int32_t i = 0; i < 6; i++)
        spec.window[i] = i % 3 == 2 ? 0 : 8;
    assert_true(plan_make(&plan, &spec, &options, NULL));
    check_structure(&plan);
    assert_int_equal(plan.n_kv_groups, 2);
    assert_int_equal(plan.kv_group[0].n_layers, 4);
    assert_int_equal(plan.kv_group[1].n_layers, 2);
    plan_free(&plan);
    spec.num_hidden_layers = PLAN_MAX_KV_GROUPS + 1;
    for (int32_t i = 0; i <= PLAN_MAX_KV_GROUPS; i++)
        spec.window[i] = i;
    assert_false(plan_make(&plan, &spec, &options, NULL)); // more kinds than a plan holds
}

// The last layer goes on with the rows whose logits are wanted only.
static void test_only_wanted_rows_after_the_last_attention(void **state)
{
    (void)state;
    struct plan plan;
    bool after = false;
    make(&plan, &LLAMA3_8B, DTYPE_BF16, 1);
    for (int32_t i = 0; i < plan.n_ops; i++) {
        assert_int_equal(plan.op[i].rows, after ? ROWS_OUT : ROWS_TOKENS);
        after = after || (plan.op[i].kind == OP_ATTN && plan.op[i].layer == 31);
    }
    plan_free(&plan);
}

static void test_slots_die_at_their_last_use(void **state)
{
    (void)state;
    struct plan plan;
    int32_t *last;
    make(&plan, &QWEN3_06B, DTYPE_BF16, 1);
    last = calloc((size_t)plan.n_slots, sizeof *last);
    assert_non_null(last);
    plan_slot_last_use(&plan, last);
    for (int32_t i = 0; i < plan.n_ops; i++)
        for (int k = 0; k < 3; k++)
            if (plan.op[i].in[k] >= 0)
                assert_true(last[plan.op[i].in[k]] >= i);
    assert_int_equal(last[plan.logits], plan.n_ops);
    free(last);
    plan_free(&plan);
}

// One layer of each kind that is priced only, behind learned positions and LayerNorm.
static struct model_spec odd_spec(void)
{
    struct model_spec spec = tiny_spec();
    spec.num_hidden_layers = 2;
    spec.mixer[0] = MIXER_STATE, spec.ffn[0] = FFN_PLAIN;
    spec.state = (struct state_spec){
        .num_v_heads = 4, .num_k_heads = 2, .k_head_dim = 8, .v_head_dim = 8, .conv_kernel = 4, .dtype = DTYPE_F32};
    spec.ffn[1] = FFN_EXPERTS;
    spec.experts = (struct experts_spec){.num_experts = 4, .num_experts_per_tok = 2, .moe_intermediate_size = 8};
    spec.mla = (struct mla_spec){.kv_lora_rank = 16,
                                 .q_lora_rank = 8,
                                 .qk_nope_head_dim = 8,
                                 .qk_rope_head_dim = 4,
                                 .v_head_dim = 8,
                                 .index_n_heads = 2,
                                 .index_head_dim = 4,
                                 .index_topk = 3};
    spec.n_positions = 64, spec.layer_norm = true;
    return spec;
}

static void refuses_cleanly(const char *backend, const struct plan *plan)
{
    struct backend_options options = {.threads = 1};
    struct backend b;
    struct error e = {0};
    assert_true(backend_open(&b, backend, &options, NULL));
    for (int32_t k = 0; k < plan->n_ops; k++)
        if (plan->op[k].kind > OP_ALLREDUCE) {
            assert_false(b.supports(b.self, &plan->op[k], &e));
            assert_non_null(strstr(e.message, "priced, not run"));
        }
    backend_close(&b);
}

// What a plan of one rank needs, the backends that compute have; all else somebody must at least witness.
static void test_every_operation_has_a_backend(void **state)
{
    (void)state;
    int n;
    const char *const *name = backend_names(&n);
    struct backend_options options = {.threads = 1};
    struct plan_options defaults = plan_options_default(DTYPE_F32);
    struct model_spec spec = odd_spec();
    struct plan one, two, odd;
    assert_true(plan_make(&odd, &spec, &defaults, NULL));
    check_slots(&odd);
    refuses_cleanly("cpu", &odd);
    make(&one, &QWEN25_7B, DTYPE_BF16, 1);
    make(&two, &QWEN3_06B, DTYPE_BF16, 2);
    bool seen[OP_KIND_COUNT] = {false};
    for (int i = 0; i < n; i++) {
        struct backend b;
        struct error e = {0};
        if (!backend_open(&b, name[i], &options, &e)) { // a device that is not here
            assert_int_equal(e.kind, ERROR_DEVICE);
            continue;
        }
        for (int32_t k = 0; k < one.n_ops; k++)
            assert_true(b.supports(b.self, &one.op[k], NULL));
        for (int32_t k = 0; k < two.n_ops; k++)
            if (b.supports(b.self, &two.op[k], NULL))
                seen[two.op[k].kind] = true;
        for (int32_t k = 0; k < odd.n_ops; k++)
            if (b.supports(b.self, &odd.op[k], NULL))
                seen[odd.op[k].kind] = true;
        backend_close(&b);
    }
    for (int k = 0; k < OP_KIND_COUNT; k++)
        assert_true(seen[k]);
    plan_free(&one);
    plan_free(&two);
    plan_free(&odd);
}

static void test_names(void **state)
{
    (void)state;
    char name[64];
    assert_true(tensor_name_hf(TENSOR_ATTN_Q, 7, name, sizeof name));
    assert_string_equal(name, "model.layers.7.self_attn.q_proj.weight");
    assert_true(tensor_name_gguf(TENSOR_FFN_DOWN, 12, name, sizeof name));
    assert_string_equal(name, "blk.12.ffn_down.weight");
    assert_true(tensor_name_gguf(TENSOR_OUTPUT_NORM, -1, name, sizeof name));
    assert_string_equal(name, "output_norm.weight");
    assert_false(tensor_name_hf(TENSOR_ATTN_Q, 7, name, 8));
    assert_string_equal(op_kind_name(OP_KV_WRITE), "kv_write");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_structure),
        cmocka_unit_test(test_places_of_norms),
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_rope_by_kind_of_layer),
        cmocka_unit_test(test_kv_bytes_per_token),
        cmocka_unit_test(test_quantized_kv_counts_its_scales),
        cmocka_unit_test(test_tensor_parallel_shares),
        cmocka_unit_test(test_shards_that_do_not_divide),
        cmocka_unit_test(test_families_differ_where_they_should),
        cmocka_unit_test(test_layers_group_by_window),
        cmocka_unit_test(test_only_wanted_rows_after_the_last_attention),
        cmocka_unit_test(test_slots_die_at_their_last_use),
        cmocka_unit_test(test_every_operation_has_a_backend),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
