// The CPU backend as a whole: a row's logits are the same bits whatever its chunk, block size, neighbours and threads are;
// instruction sets agree; what it cannot do it refuses.
#include "engine/base/rng.h"
#include "engine/cpu/cover.h"
#include "tests/cpu_isas.h"
#include "tests/tiny.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 320, MAX_SEQS = 3, MAX_LENGTH = 330, CONTIGUOUS = 400 };

static struct tensor *random_model(const struct plan *plan)
{
    struct tensor *w = calloc((size_t)plan->n_tensors, sizeof *w);
    assert_non_null(w);
    for (int32_t i = 0; i < plan->n_tensors; i++) {
        const struct tensor_spec *t = &plan->tensor[i];
        uint64_t row_bytes = dtype_row_bytes((enum dtype)t->dtype, (uint64_t)t->cols);
        uint8_t *data = malloc(row_bytes * (uint64_t)t->rows);
        float *x = malloc((size_t)t->cols * sizeof *x);
        for (int32_t r = 0; r < t->rows; r++) {
            for (int32_t k = 0; k < t->cols; k++)
                x[k] = (rng_uniform(rng_at((uint64_t)i, (uint64_t)(r * t->cols + k))) * 2 - 1) *
                       (t->rows > 1 ? sqrtf(3 / (float)t->cols) : 1);
            assert_true(dtype_from_f32((enum dtype)t->dtype, x, data + (uint64_t)r * row_bytes, (size_t)t->cols));
        }
        free(x);
        w[i] = (struct tensor){.data = data, .dtype = (enum dtype)t->dtype, .rows = t->rows, .cols = t->cols};
    }
    return w;
}

static void free_model(struct tensor *w, const struct plan *plan)
{
    for (int32_t i = 0; i < plan->n_tensors; i++)
        free((void *)w[i].data);
    free(w);
}

// How a model is run; everything but `shape` should not show in the logits.
struct setup {
    const char *isa;
    int32_t threads, block_size, chunk; // chunk: rows of one sequence per step
    bool mixed;                         // all sequences in one step, each at its own pace; else one after the other
};

struct shape {
    struct model_spec spec;
    enum dtype weights, kv_k, kv_v;
    int32_t length[MAX_SEQS]; // 0: no such sequence
    bool rounds;              // linear layers in the weights' own arithmetic, not in f32
};

// A backend with one model; logits [MAX_SEQS][MAX_LENGTH][VOCAB].
struct rig {
    struct backend backend;
    struct plan plan;
    struct tensor *w;
    int32_t block_size, stride;
    float *logits;
};

static void rig_open(struct rig *r, const struct shape *shape, const struct setup *setup)
{
    struct error e = {0};
    struct plan_options o = plan_options_default(shape->weights);
    o.kv_k = shape->kv_k, o.kv_v = shape->kv_v;
    o.compute = DTYPE_F32, o.compute_of = shape->rounds ? cpu_compute_of : NULL;
    assert_true(plan_make(&r->plan, &shape->spec, &o, &e));
    r->w = random_model(&r->plan);
    r->block_size = setup->block_size;
    r->stride = (MAX_LENGTH + r->block_size - 1) / r->block_size;
    r->logits = calloc((size_t)MAX_SEQS * MAX_LENGTH * VOCAB, sizeof(float));
    struct kv_config config = {MAX_SEQS * r->stride, r->block_size, MAX_SEQS * MAX_LENGTH, MAX_SEQS, MAX_SEQS * MAX_LENGTH};
    struct backend_options b = {.threads = setup->threads, .isa = setup->isa};
    assert_true(backend_open(&r->backend, "cpu", &b, &e));
    if (!r->backend.load(r->backend.self, &r->plan, r->w, &e) || !r->backend.open(r->backend.self, &r->plan, &config, &e))
        fail_msg("%s", e.message);
}

static void rig_close(struct rig *r)
{
    backend_close(&r->backend);
    free_model(r->w, &r->plan);
    plan_free(&r->plan);
    free(r->logits);
}

static int32_t token_of(int32_t seq, int32_t pos)
{
    return (seq * 131 + pos * 37 + pos * pos) % VOCAB;
}

// One batch under construction.
struct step {
    struct batch b;
    int32_t token[MAX_SEQS * MAX_LENGTH], pos[MAX_SEQS * MAX_LENGTH], out_row[MAX_SEQS * MAX_LENGTH];
    int32_t seq_first[MAX_SEQS + 1], ctx_len[MAX_SEQS], seq[MAX_SEQS], *table;
};

static void step_begin(struct step *s, const struct rig *r)
{
    s->table = calloc((size_t)(MAX_SEQS * r->stride), sizeof *s->table);
    s->seq_first[0] = 0;
    s->b = (struct batch){.block_size = r->block_size,
                          .table_stride = r->stride,
                          .token = s->token,
                          .pos = s->pos,
                          .seq_first = s->seq_first,
                          .ctx_len = s->ctx_len,
                          .out_row = s->out_row,
                          .table = s->table};
}

// Appends rows first .. first+n-1 of a sequence; its blocks are those whose number modulo MAX_SEQS is its own, backwards.
static void step_add(struct step *s, const struct rig *r, int32_t seq, int32_t first, int32_t n)
{
    int32_t i = s->b.n_seqs++;
    for (int32_t p = first; p < first + n; p++) {
        s->token[s->b.n_tokens] = token_of(seq, p);
        s->pos[s->b.n_tokens] = p;
        s->out_row[s->b.n_tokens] = s->b.n_tokens;
        s->b.n_tokens++;
    }
    s->b.n_out = s->b.n_tokens;
    s->seq[i] = seq;
    s->seq_first[i + 1] = s->b.n_tokens;
    s->ctx_len[i] = first + n;
    for (int32_t k = 0; k < r->stride; k++)
        s->table[i * r->stride + k] = (r->stride - 1 - k) * MAX_SEQS + seq;
}

static void step_run(struct step *s, struct rig *r, struct trace *trace)
{
    struct error e = {0};
    if (!r->backend.run(r->backend.self, &r->plan, &s->b, trace, &e))
        fail_msg("%s", e.message);
    for (int32_t i = 0, row = 0; i < s->b.n_seqs; i++)
        for (; row < s->seq_first[i + 1]; row++)
            assert_true(r->backend.read(r->backend.self, row,
                                        r->logits + ((size_t)s->seq[i] * MAX_LENGTH + (size_t)s->pos[row]) * VOCAB, &e));
    free(s->table);
}

static void run_sequences(struct rig *r, const struct shape *shape, const struct setup *setup)
{
    static struct step s;
    int32_t done[MAX_SEQS] = {0};
    for (bool more = true; more;) {
        more = false;
        step_begin(&s, r);
        for (int32_t q = 0; q < MAX_SEQS; q++) {
            int32_t left = shape->length[q] - done[q], n = setup->mixed ? 1 + (setup->chunk - 1) * (q % 2) : setup->chunk;
            n = n < left ? n : left;
            if (!n || (!setup->mixed && s.b.n_seqs))
                continue;
            step_add(&s, r, q, done[q], n);
            done[q] += n;
        }
        if (s.b.n_seqs) {
            step_run(&s, r, NULL);
            more = true;
        } else {
            free(s.table);
        }
    }
}

// Logits of all rows under a setup. The caller frees.
static float *logits_of(const struct shape *shape, const struct setup *setup)
{
    struct rig r = {0};
    rig_open(&r, shape, setup);
    run_sequences(&r, shape, setup);
    float *logits = r.logits;
    r.logits = NULL;
    rig_close(&r);
    return logits;
}

// Largest difference relative to the largest logit.
static float difference(const float *a, const float *b)
{
    float high = 0, worst = 0;
    for (size_t i = 0; i < (size_t)MAX_SEQS * MAX_LENGTH * VOCAB; i++) {
        high = fmaxf(high, fabsf(b[i]));
        worst = fmaxf(worst, fabsf(a[i] - b[i]));
    }
    assert_true(high > 0.1f && isfinite(worst));
    return worst / high;
}

static struct shape make_shape(int32_t n_q, int32_t n_kv, int32_t head_dim, int32_t window, enum dtype kv)
{
    struct shape s = {tiny_spec(), DTYPE_F32, kv, kv, {23, 40, 9}, false};
    s.spec.num_attention_heads = n_q, s.spec.num_key_value_heads = n_kv;
    s.spec.head_dim = head_dim, s.spec.rope.rotary_dim = head_dim;
    s.spec.window[1] = window; // one layer sees everything, the other a window: two KV groups
    return s;
}

enum { N_SHAPES = 9 };
static struct shape shape_number(int i)
{
    struct shape s[N_SHAPES] = {
        make_shape(4, 2, 16, 0, DTYPE_F32), make_shape(4, 4, 12, 6, DTYPE_BF16), make_shape(6, 1, 20, 17, DTYPE_INT8),
        make_shape(2, 2, 32, 1, DTYPE_F16), make_shape(4, 1, 32, 0, DTYPE_BF16), make_shape(4, 2, 64, 0, DTYPE_INT8),
        make_shape(4, 2, 32, 5, DTYPE_F32), make_shape(9, 3, 16, 0, DTYPE_BF16), make_shape(4, 2, 16, 7, DTYPE_BF16)};
    s[0].spec.qk_norm = true;
    s[1].spec.qkv_bias = s[1].spec.o_bias = s[1].spec.mlp_bias = true;
    s[2].weights = DTYPE_Q8_0;
    s[2].spec.num_attention_heads = 8; // the input of attn_o: whole blocks
    s[3].weights = DTYPE_BF16;
    s[3].kv_v = DTYPE_INT8;
    s[4].length[1] = 270; // beyond one part of attention: with one KV head the parts are shared out
    s[4].spec.tie_word_embeddings = true;
    s[4].weights = DTYPE_F16;
    s[5].weights = DTYPE_Q4_0;
    // Gemma, OLMo-2 and Granite in small.
    s[6].spec.norm_place = NORM_BOTH, s[6].spec.qk_norm = QK_NORM_HEAD, s[6].spec.hidden_act = ACT_GELU_TANH;
    s[6].spec.embedding_multiplier = 8, s[6].spec.attn_logit_softcapping = 2, s[6].spec.final_logit_softcapping = 3;
    s[6].spec.rope_local = (struct rope_spec){.rotary_dim = 16, .theta = 500};
    s[7].spec.norm_place = NORM_AFTER, s[7].spec.qk_norm = QK_NORM_ROW;
    s[8].spec.embedding_multiplier = 6, s[8].spec.residual_multiplier = 0.4f, s[8].spec.logits_scaling = 3;
    s[8].spec.attention_multiplier = 0.09f, s[8].spec.o_bias = true, s[8].spec.rope.rotary_dim = 10;
    return s[i];
}

static void test_the_bits_do_not_depend_on_company(void **state)
{
    (void)state;
    for (int i = 0; i < N_ISAS; i++)
        for (int m = 0; isa_runs(i) && m < 2 * N_SHAPES; m++) {
            const char *isa = ISA_TABLE[i]->name;
            struct shape shape = shape_number(m / 2);
            shape.rounds = m % 2;
            struct setup setups[] = {{isa, 1, 16, 16, false}, {isa, 2, 16, 16, false}, {isa, 2, 1, 7, false},
                                     {isa, 2, 8, 1, false},   {isa, 3, 32, 60, true},  {isa, 1, CONTIGUOUS, 10, true}};
            float *first = logits_of(&shape, &setups[0]);
            for (size_t s = 1; s < sizeof setups / sizeof *setups; s++) {
                float *other = logits_of(&shape, &setups[s]);
                if (memcmp(first, other, (size_t)MAX_SEQS * MAX_LENGTH * VOCAB * sizeof *first))
                    fail_msg("%s, shape %d, setup %zu: differs by %g", isa, m, s, (double)difference(other, first));
                free(other);
            }
            free(first);
        }
}

// Rounding of KV or activations may tip over where two orders of summation differ in the last bit.
static float tolerance_of(const struct shape *s)
{
    float kv = s->kv_k == DTYPE_F32 ? 1e-5f : s->kv_k == DTYPE_INT8 || s->kv_v == DTYPE_INT8 ? 3e-2f : 1e-2f;
    return s->rounds && s->weights != DTYPE_F32 && kv < 2e-2f ? 2e-2f : kv;
}

static void test_instruction_sets_agree(void **state)
{
    (void)state;
    for (int m = 0; m < 2 * N_SHAPES; m++) {
        struct shape shape = shape_number(m / 2);
        shape.rounds = m % 2;
        shape.length[1] = shape.length[1] > 140 ? shape.length[1] : 140; // enough rows for all tiles
        float *expected = logits_of(&shape, &(struct setup){"ref", 1, 16, 16, false});
        for (int i = 0; i < N_ISAS; i++) {
            if (!isa_runs(i))
                continue;
            const char *isa = ISA_TABLE[i]->name;
            struct setup setups[] = {{isa, 2, 16, 5, true}, {isa, 2, 16, 150, false}};
            for (size_t s = 0; s < sizeof setups / sizeof *setups; s++) {
                float *got = logits_of(&shape, &setups[s]);
                float d = difference(got, expected);
                if (d > tolerance_of(&shape))
                    fail_msg("%s, shape %d%s, setup %zu: differs by %g", isa, m / 2, shape.rounds ? ", rounding" : "", s,
                             (double)d);
                free(got);
            }
        }
        free(expected);
    }
}

// What the comparisons above are worth: small mistakes in the model must show.
static void test_mistakes_show(void **state)
{
    (void)state;
    struct setup setup = {"auto", 2, 16, 16, false};
    struct shape right = make_shape(4, 2, 16, 6, DTYPE_F32), window = make_shape(4, 2, 16, 7, DTYPE_F32);
    struct shape theta = right, eps = right;
    theta.spec.rope.theta *= 1.01;
    eps.spec.rms_norm_eps = 1e-2f;
    float *expected = logits_of(&right, &setup), *same = logits_of(&right, &setup);
    assert_memory_equal(expected, same, (size_t)MAX_SEQS * MAX_LENGTH * VOCAB * sizeof *same);
    const struct shape *wrong[] = {&window, &theta, &eps};
    for (int i = 0; i < 3; i++) {
        float *got = logits_of(wrong[i], &setup);
        assert_true(difference(got, expected) > 1e-4f);
        free(got);
    }
    free(expected);
    free(same);
}

// Only some rows of a prefill are wanted: they are the rows of the full answer, bit by bit.
static void test_wanted_rows_are_those_of_all(void **state)
{
    (void)state;
    static struct step s;
    struct shape shape = make_shape(4, 2, 16, 6, DTYPE_F32);
    struct setup setup = {"auto", 2, 16, 140, false};
    shape.length[1] = 140;
    struct rig r = {0};
    struct error e;
    rig_open(&r, &shape, &setup);
    run_sequences(&r, &shape, &setup);
    const float *all = r.logits + (size_t)MAX_LENGTH * VOCAB; // sequence 1, 140 rows
    float row[VOCAB];
    for (int32_t step = 1; step <= 9; step += 8) { // every row but the first, then every ninth
        step_begin(&s, &r);
        step_add(&s, &r, 1, 0, 140);
        s.b.n_out = 0;
        for (int32_t i = 1; i < 140; i += step)
            s.out_row[s.b.n_out++] = i;
        assert_true(r.backend.run(r.backend.self, &r.plan, &s.b, NULL, &e));
        for (int32_t i = 0; i < s.b.n_out; i++) {
            assert_true(r.backend.read(r.backend.self, i, row, &e));
            assert_memory_equal(row, all + s.out_row[i] * VOCAB, sizeof row);
        }
        assert_false(r.backend.read(r.backend.self, s.b.n_out, row, &e));
        free(s.table);
    }
    rig_close(&r);
}

// Trace rows follow the cover: every operation once, in order, times that do not go back.
static void test_trace_follows_the_cover(void **state)
{
    (void)state;
    static struct step s;
    static struct trace_row rows[256];
    struct shape shape = shape_number(0);
    struct setup setup = {cpu_isa_best(), 2, 16, 140, false};
    struct rig r = {0};
    rig_open(&r, &shape, &setup);
    for (int32_t n = 1; n <= 140; n += 139) {
        struct trace trace = {.row = rows, .capacity = 256};
        step_begin(&s, &r);
        step_add(&s, &r, 0, 0, n);
        struct batch_shape bs = batch_shape_of(&s.b);
        struct span spans[256];
        int32_t n_spans = r.backend.cover(NULL, &r.plan, &bs, spans), next = 0;
        step_run(&s, &r, &trace);
        assert_int_equal(trace.n, n_spans);
        for (int32_t i = 0; i < n_spans; i++) {
            assert_memory_equal(&rows[i].span, &spans[i], sizeof *spans);
            assert_int_equal(spans[i].first, next);
            assert_true(spans[i].kernel < CPU_SPAN_COUNT);
            assert_string_not_equal(r.backend.kernel_name(NULL, spans[i].kernel), "none");
            assert_true(rows[i].end_ns >= rows[i].begin_ns && (!i || rows[i].begin_ns >= rows[i - 1].end_ns));
            next += spans[i].count;
        }
        assert_int_equal(next, r.plan.n_ops);
        assert_string_equal(cpu_kernel_name(NULL, spans[1].kernel), "norm+qkv");
        assert_string_equal(cpu_kernel_name(NULL, spans[2].kernel), "qk_norm+rope+kv_write");
        assert_string_equal(cpu_kernel_name(NULL, spans[n_spans - 1].kernel), "norm+linear");
    }
    rig_close(&r);
}

// A copied block serves as the original did, and a fill depends on its seed only.
static void test_blocks_can_be_copied_and_filled(void **state)
{
    (void)state;
    static struct step s;
    for (int m = 0; m < 4; m++) {
        struct shape shape = shape_number(m);
        struct setup setup = {"auto", 2, 8, 16, false};
        struct rig r = {0};
        struct error e;
        float first[VOCAB], second[VOCAB];
        rig_open(&r, &shape, &setup);
        for (int32_t k = 0; k < 3; k++)
            assert_true(r.backend.fill(r.backend.self, k, 5 + (uint64_t)k, &e));
        for (int round = 0; round < 3; round++) { // as filled, copied elsewhere, filled elsewhere with the same seeds
            step_begin(&s, &r);
            step_add(&s, &r, 0, 20, 1);
            for (int32_t k = 0; k < 3; k++) {
                s.table[k] = k + 10 * round;
                struct kv_move move = {0, 0, k, k + 10};
                if (round == 1)
                    assert_true(r.backend.move(r.backend.self, &move, 1, &e));
                if (round == 2)
                    assert_true(r.backend.fill(r.backend.self, k + 20, 5 + (uint64_t)k, &e));
            }
            assert_true(r.backend.run(r.backend.self, &r.plan, &s.b, NULL, &e));
            assert_true(r.backend.read(r.backend.self, 0, round ? second : first, &e));
            if (round)
                assert_memory_equal(first, second, sizeof first);
            free(s.table);
        }
        assert_true(r.backend.fill(r.backend.self, 20, 99, &e)); // another seed shows
        step_begin(&s, &r);
        step_add(&s, &r, 0, 20, 1);
        for (int32_t k = 0; k < 3; k++)
            s.table[k] = k + 20;
        assert_true(r.backend.run(r.backend.self, &r.plan, &s.b, NULL, &e));
        assert_true(r.backend.read(r.backend.self, 0, second, &e));
        assert_true(memcmp(first, second, sizeof first) != 0);
        free(s.table);
        rig_close(&r);
    }
}

static void expect_refusal(const struct shape *shape, int32_t tp, int32_t n_blocks, enum error_kind kind, const char *says)
{
    struct plan plan;
    struct error e = {0};
    struct plan_options o = plan_options_default(shape->weights);
    o.kv_k = shape->kv_k, o.kv_v = shape->kv_v, o.tp = tp;
    assert_true(plan_make(&plan, &shape->spec, &o, &e));
    struct tensor *w = calloc((size_t)plan.n_tensors, sizeof *w);
    for (int32_t i = 0; i < plan.n_tensors; i++)
        w[i] = (struct tensor){.data = calloc(1, tensor_bytes(&plan.tensor[i])),
                               .dtype = (enum dtype)plan.tensor[i].dtype,
                               .rows = plan.tensor[i].rows,
                               .cols = plan.tensor[i].cols};
    struct backend b;
    assert_true(backend_open(&b, "cpu", &(struct backend_options){.threads = 1}, &e));
    assert_false(b.load(b.self, &plan, w, &e) && b.open(b.self, &plan, &(struct kv_config){n_blocks, 16, 16, 1, 16}, &e));
    assert_int_equal(e.kind, kind);
    if (!strstr(e.message, says))
        fail_msg("'%s' does not say '%s'", e.message, says);
    backend_close(&b);
    free_model(w, &plan);
    plan_free(&plan);
}

static void test_refusals_at_load(void **state)
{
    (void)state;
    struct shape s = make_shape(4, 2, 32, 0, DTYPE_FP8);
    expect_refusal(&s, 1, 8, ERROR_UNSUPPORTED, "fp8");
    s.kv_k = s.kv_v = DTYPE_INT4;
    expect_refusal(&s, 1, 8, ERROR_UNSUPPORTED, "int4");
    s.kv_k = s.kv_v = DTYPE_F32;
    expect_refusal(&s, 2, 8, ERROR_UNSUPPORTED, "one rank");
    expect_refusal(&s, 1, INT32_MAX, ERROR_MEMORY, "TiB");
    expect_refusal(&s, 1, 0, ERROR_USAGE, "0 blocks");
    s.weights = DTYPE_FP8;
    expect_refusal(&s, 1, 8, ERROR_UNSUPPORTED, "fp8");
}

static void test_bad_batches_are_refused(void **state)
{
    (void)state;
    static struct step s;
    struct shape shape = shape_number(0);
    struct setup setup = {"auto", 1, 16, 16, false};
    struct rig r = {0};
    struct error e;
    rig_open(&r, &shape, &setup);
    for (int fault = 0; fault < 6; fault++) {
        step_begin(&s, &r);
        step_add(&s, &r, 0, 0, 5);
        switch (fault) {
        case 0: s.token[2] = VOCAB; break;
        case 1: s.token[2] = -1; break;
        case 2: s.table[0] = MAX_SEQS * r.stride; break;
        case 3: s.pos[4] = 7; break;
        case 4: s.b.n_tokens = MAX_SEQS * MAX_LENGTH + 1; break;
        case 5: s.b.block_size = 8; break;
        }
        assert_false(r.backend.run(r.backend.self, &r.plan, &s.b, NULL, &e));
        assert_int_equal(e.kind, ERROR_USAGE);
        free(s.table);
    }
    assert_false(r.backend.fill(r.backend.self, -1, 1, &e));
    assert_false(r.backend.move(r.backend.self, &(struct kv_move){0, 1, 0, 0}, 1, &e));
    assert_int_equal(e.kind, ERROR_UNSUPPORTED);
    assert_true(r.backend.memory_bytes(r.backend.self) > plan_weight_bytes(&r.plan));
    rig_close(&r);
}

static void test_backends_by_name(void **state)
{
    (void)state;
    struct backend b;
    struct error e = {0};
    struct backend_options o = {.threads = 1};
    assert_true(backend_open(&b, "auto", &o, &e));
    assert_string_equal(b.name, "cpu");
    assert_string_equal(cpu_isa_selected(&b), getenv("KVBENCH_ISA") ? cpu_isa_selected(&b) : cpu_isa_best());
    backend_close(&b);
    assert_false(backend_open(&b, "cuda", &o, &e));
    assert_int_equal(e.kind, ERROR_DEVICE);
    assert_int_equal(error_exit_code(e.kind), 3);
    assert_non_null(strstr(e.message, "kvbench predict"));
    assert_false(backend_open(&b, "cpuu", &o, &e));
    assert_int_equal(e.kind, ERROR_USAGE);
    assert_non_null(strstr(e.message, "'cpu'"));
    backend_close(&b);
    o.isa = "sse9";
    assert_false(backend_open(&b, "cpu", &o, &e));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_bits_do_not_depend_on_company),
        cmocka_unit_test(test_instruction_sets_agree),
        cmocka_unit_test(test_mistakes_show),
        cmocka_unit_test(test_wanted_rows_are_those_of_all),
        cmocka_unit_test(test_trace_follows_the_cover),
        cmocka_unit_test(test_blocks_can_be_copied_and_filled),
        cmocka_unit_test(test_refusals_at_load),
        cmocka_unit_test(test_bad_batches_are_refused),
        cmocka_unit_test(test_backends_by_name),
    };
    isa_report();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
