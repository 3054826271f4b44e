// The CUDA backend as a whole on the emulator: its logits are the CPU backend's, whatever family, type, chunk and company;
// it generates the same tokens; steps are captured once; blocks can be copied and filled; what it cannot do it refuses.
#include "tests/cuda/rig.h"

enum { ALL = MAX_SEQS * MAX_LENGTH * VOCAB };

struct setup {
    int32_t chunk; // rows of one sequence per step
    bool mixed;    // all sequences in one step, each at its own pace; else one after the other
};

static struct draft step;

static void take_logits(struct rig *r, float *logits)
{
    step_run(&step, r, NULL);
    for (int32_t i = 0, row = 0; i < step.b.n_seqs; i++)
        for (; row < step.seq_first[i + 1]; row++)
            read_row(r, row, logits + (step.seq[i] * MAX_LENGTH + step.pos[row]) * VOCAB);
}

static void run_sequences(struct rig *r, const struct shape *shape, const struct setup *setup, float *logits)
{
    int32_t done[MAX_SEQS] = {0};
    for (bool more = true; more;) {
        step_begin(&step, r);
        for (int32_t q = 0; q < MAX_SEQS; q++) {
            int32_t left = shape->length[q] - done[q], n = setup->mixed ? 1 + (setup->chunk - 1) * (q % 2) : setup->chunk;
            n = n < left ? n : left;
            if (!n || (!setup->mixed && step.b.n_seqs))
                continue;
            step_add(&step, r, q, done[q], n, MAX_SEQS);
            done[q] += n;
        }
        more = step.b.n_seqs > 0;
        if (more)
            take_logits(r, logits);
    }
}

// Logits [MAX_SEQS][MAX_LENGTH][VOCAB] of all rows under a setup. The caller frees.
static float *logits_of(const struct shape *shape, enum place place, const struct setup *setup)
{
    struct rig r = {0};
    float *logits = calloc(ALL, sizeof *logits);
    rig_open(&r, shape, place);
    run_sequences(&r, shape, setup, logits);
    rig_close(&r);
    return logits;
}

// Families in small, each with another type of weights and KV.
enum { N_SHAPES = 10 };
static struct shape shape_number(int i)
{
    struct shape s[N_SHAPES] = {make_shape(4, 2, 32, DTYPE_BF16, DTYPE_BF16), make_shape(4, 4, 32, DTYPE_Q8_0, DTYPE_INT8),
                                make_shape(6, 1, 64, DTYPE_INT8, DTYPE_BF16), make_shape(2, 2, 96, DTYPE_INT4, DTYPE_F16),
                                make_shape(4, 1, 32, DTYPE_F16, DTYPE_BF16),  make_shape(4, 2, 32, DTYPE_BF16, DTYPE_INT8),
                                make_shape(6, 2, 32, DTYPE_BF16, DTYPE_BF16), make_shape(4, 2, 32, DTYPE_BF16, DTYPE_BF16),
                                make_shape(2, 1, 128, DTYPE_FP8, DTYPE_BF16), make_shape(4, 2, 64, DTYPE_BF16, DTYPE_FP8)};
    s[0].spec.qk_norm = QK_NORM_HEAD; // Qwen3
    s[1].spec.qkv_bias = s[1].spec.o_bias = s[1].spec.mlp_bias = true;
    s[2].spec.window[1] = 17; // one layer sees everything, the other a window: two KV groups
    s[4].spec.tie_word_embeddings = true;
    s[4].spec.qkv_bias = true; // Qwen2
    s[4].kv_v = DTYPE_INT8;
    // Gemma, OLMo-2 and Granite.
    s[5].spec.norm_place = NORM_BOTH, s[5].spec.qk_norm = QK_NORM_HEAD, s[5].spec.hidden_act = ACT_GELU_TANH;
    s[5].spec.embedding_multiplier = 8, s[5].spec.attn_logit_softcapping = 2, s[5].spec.final_logit_softcapping = 3;
    s[5].spec.rope_local = (struct rope_spec){.rotary_dim = 32, .theta = 500}, s[5].spec.window[0] = 5;
    s[6].spec.norm_place = NORM_AFTER, s[6].spec.qk_norm = QK_NORM_ROW;
    s[7].spec.embedding_multiplier = 6, s[7].spec.residual_multiplier = 0.4f, s[7].spec.logits_scaling = 3;
    s[7].spec.attention_multiplier = 0.09f, s[7].spec.o_bias = true, s[7].spec.rope.rotary_dim = 20;
    return s[i];
}

static const struct setup SETUP[] = {{40, false}, {13, false}, {1, true}, {20, true}};
enum { N_SETUPS = sizeof SETUP / sizeof *SETUP };

// Activations are bf16, with 8 bits: a few roundings in each of a dozen steps.
static const float TOLERANCE = 0.04f;

// fp8 has 4: where K and V round one way there and the other way here, the difference is 16 times that of bf16.
static float tolerance_of(const struct shape *shape)
{
    return shape->kv_k == DTYPE_FP8 ? 0.1f : TOLERANCE;
}

static void test_logits_are_the_cpus(void **state)
{
    (void)state;
    for (int m = 0; m < N_SHAPES; m++) {
        struct shape shape = shape_number(m);
        float *expected = logits_of(&shape, ON_CPU_F32, &SETUP[0]), worst = 0;
        for (int i = 0; i < N_SETUPS; i += getenv("KVBENCH_SANITIZED") ? 3 : 1) {
            float *got = logits_of(&shape, ON_CUDA, &SETUP[i]);
            float d = difference(expected, got, ALL);
            worst = d > worst ? d : worst;
            if (!(d <= tolerance_of(&shape)))
                fail_msg("shape %d, setup %d: differs by %g", m, i, (double)d);
            free(got);
        }
        print_message("shape %d: within %.4f of the largest logit\n", m, (double)worst);
        free(expected);
    }
}

// The CPU computes in bf16 too: two roundings apart.
static void test_logits_in_bf16(void **state)
{
    (void)state;
    for (int m = 0; m < N_SHAPES; m += 7) {
        struct shape shape = shape_number(m);
        float *expected = logits_of(&shape, ON_CPU_BF16, &SETUP[0]), *got = logits_of(&shape, ON_CUDA, &SETUP[0]);
        assert_true(difference(expected, got, ALL) <= TOLERANCE);
        free(expected), free(got);
    }
}

// Products of fp8 round activations to 4 bits: the logits of the same weights multiplied in bf16 are as near as that lets
// them be, by rows that cublasLt scales as by rows that are scaled afterwards; a chip without such products widens, bit for
// bit.
static void test_products_in_fp8(void **state)
{
    (void)state;
    static const char *const CHIP[] = {"80", "90", "100"};
    struct shape in_bf16 = shape_number(8), in_fp8 = in_bf16;
    in_fp8.in_fp8 = true;
    float *widened = logits_of(&in_bf16, ON_CUDA, &SETUP[0]), *by_row = NULL;
    for (int i = 0; i < 3; i++) {
        setenv("KVEMU_CHIP", CHIP[i], 1);
        struct cudaDeviceProp device;
        assert_int_equal(cudaGetDeviceProperties(&device, 0), cudaSuccess);
        float *got = logits_of(&in_fp8, ON_CUDA, &SETUP[0]), d = difference(widened, got, ALL);
        print_message("chip %s: within %.4f of the largest logit\n", CHIP[i], (double)d);
        assert_true(device.major * 10 + device.minor >= 89 ? d > 0.01f && d < 0.15f : d == 0);
        if (i == 2)
            assert_true(difference(by_row, got, ALL) < 0.1f);
        free(by_row);
        by_row = got;
    }
    unsetenv("KVEMU_CHIP");
    free(by_row), free(widened);
}

// What the tolerance is worth: small mistakes in the model exceed it.
static void test_mistakes_show(void **state)
{
    (void)state;
    struct shape right = shape_number(2), wrong[3] = {right, right, right};
    wrong[0].spec.window[1] = 12, wrong[1].spec.rope.theta = 5000, wrong[2].spec.qkv_bias = true;
    float *expected = logits_of(&right, ON_CPU_F32, &SETUP[0]);
    for (int i = 0; i < 3; i++) {
        float *got = logits_of(&wrong[i], ON_CUDA, &SETUP[0]);
        assert_true(difference(expected, got, ALL) > TOLERANCE);
        free(got);
    }
    free(expected);
}

static int32_t likeliest(const float *logits, float *ahead)
{
    int32_t best = 0;
    float second = -INFINITY, high = 0;
    for (int32_t i = 0; i < VOCAB; i++) {
        high = fmaxf(high, fabsf(logits[i]));
        if (logits[i] > logits[best])
            best = i;
    }
    for (int32_t i = 0; i < VOCAB; i++)
        if (i != best)
            second = fmaxf(second, logits[i]);
    *ahead = (logits[best] - second) / high;
    return best;
}

enum { PROMPT = 6, GENERATED = 16, RULES = 4 };

// What the device chooses of output row 0, whose logits these are: the likeliest, and draws by other rules, all at once.
static void check_choices(const struct rig *r, const float *logits, int32_t n_tokens)
{
    static const struct sampler SAMPLER[RULES] = {{.top_p = 1},
                                                  {.temperature = 0.8f, .top_p = 1},
                                                  {.temperature = 1, .top_k = 9, .top_p = 0.9f},
                                                  {.top_k = 3, .top_p = 0.5f}};
    struct choice choice[RULES];
    struct error e = {0};
    int32_t expected[RULES], got[RULES];
    for (int i = 0; i < RULES; i++) {
        struct sampler s = SAMPLER[i];
        float row[VOCAB];
        memcpy(row, logits, sizeof row);
        expected[i] = sampler_source(&s).next(&s, row, VOCAB, n_tokens);
        choice[i] = sampler_choice(&s, 0, n_tokens);
        sampler_free(&s);
    }
    if (!r->backend.choose(r->backend.self, choice, RULES, got, &e))
        fail_msg("%s", e.message);
    assert_memory_equal(got, expected, sizeof got);
}

// Greedy tokens behind a prompt; returns by how much the closest choice was ahead, relative to the largest logit.
static float generate(const struct shape *shape, enum place place, int32_t *token)
{
    struct rig r = {0};
    float logits[VOCAB], ahead, least = INFINITY;
    rig_open(&r, shape, place);
    for (int32_t i = 0, at = 0; i < GENERATED; i++) {
        int32_t n = i ? 1 : PROMPT;
        step_begin(&step, &r);
        step_add(&step, &r, 0, at, n, MAX_SEQS);
        if (i)
            step.token[0] = token[i - 1];
        step.b.n_out = 1, step.out_row[0] = n - 1;
        step_run(&step, &r, NULL);
        read_row(&r, 0, logits);
        if (place == ON_CUDA)
            check_choices(&r, logits, at + n);
        token[i] = likeliest(logits, &ahead);
        least = fminf(least, ahead);
        at += n;
    }
    rig_close(&r);
    return least;
}

// The seed is the first whose every token is ahead by more than the tolerance on the CPU, so that rounding cannot decide.
static void test_the_same_tokens(void **state)
{
    (void)state;
    struct shape shape = make_shape(4, 2, 32, DTYPE_BF16, DTYPE_BF16);
    int32_t expected[GENERATED], got[GENERATED];
    float ahead = 0;
    while (ahead <= TOLERANCE && shape.seed < 10000)
        shape.seed++, ahead = generate(&shape, ON_CPU_F32, expected);
    print_message("seed %d: the closest token is ahead by %.4f\n", (int)shape.seed, (double)ahead);
    assert_true(ahead > TOLERANCE);
    generate(&shape, ON_CUDA, got);
    assert_memory_equal(expected, got, sizeof got);
}

static void decode_step(struct rig *r, int32_t n_seqs, int32_t context)
{
    step_begin(&step, r);
    for (int32_t q = 0; q < n_seqs; q++)
        step_add(&step, r, q, context - 1, 1, n_seqs);
    step_run(&step, r, NULL);
}

static const struct cuda_graph *graph_for(const struct cuda *c, int32_t n_seqs)
{
    for (int32_t i = 0; i < c->n_graphs; i++)
        if (c->graph[i].n_seqs == n_seqs)
            return &c->graph[i];
    return NULL;
}

// Captured when first met, then launched again; 64 are kept, and the one unused for longest makes room.
static void test_steps_are_captured_once(void **state)
{
    (void)state;
    struct shape shape = make_shape(1, 1, 32, DTYPE_BF16, DTYPE_BF16);
    shape.spec.num_hidden_layers = 1;
    struct rig r = {0};
    const struct kv_config config = {STEP_SEQS, BLOCK, STEP_SEQS, STEP_SEQS, STEP_SEQS};
    rig_open_sized(&r, &shape, ON_CUDA, &config);
    struct cuda *c = cuda_of(&r);
    decode_step(&r, 2, 1);
    cudaGraphExec_t two = c->graph[0].exec;
    assert_int_equal(c->n_graphs, 1);
    for (int32_t context = 2; context < 6; context++)
        decode_step(&r, 2, context);
    assert_int_equal(c->n_graphs, 1);
    assert_ptr_equal(c->graph[0].exec, two);
    step_begin(&step, &r);
    step_add(&step, &r, 0, 0, 3, 1); // a prompt is walked
    step_run(&step, &r, NULL);
    assert_int_equal(c->n_graphs, 1);
    for (int32_t n = 1; n <= CUDA_GRAPHS; n++)
        decode_step(&r, n, 3);
    assert_int_equal(c->n_graphs, CUDA_GRAPHS);
    decode_step(&r, 1, 4);
    decode_step(&r, CUDA_GRAPHS + 1, 1);
    assert_int_equal(c->n_graphs, CUDA_GRAPHS);
    assert_null(graph_for(c, 2));
    assert_non_null(graph_for(c, 1));
    assert_non_null(graph_for(c, CUDA_GRAPHS + 1));
    rig_close(&r);
}

static const enum dtype KV[] = {DTYPE_BF16, DTYPE_F16, DTYPE_FP8, DTYPE_INT8};

// The bytes of a block after the same fill are those of the CPU, and so is a step over long filled contexts, which splits.
static void test_fills_are_the_cpus(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof KV / sizeof *KV; t++) {
        struct shape shape = make_shape(4, 1, 64, DTYPE_BF16, KV[t]);
        struct rig cpu = {0}, cuda = {0};
        struct error e;
        const struct kv_config config = {3 * 90, BLOCK, 3, 3, 3};
        float expected[3][VOCAB], got[3][VOCAB];
        rig_open_sized(&cpu, &shape, ON_CPU_F32, &config);
        rig_open_sized(&cuda, &shape, ON_CUDA, &config);
        for (int32_t k = 0; k < config.n_blocks; k++)
            assert_true(cpu.backend.fill(cpu.backend.self, k, (uint64_t)k, &e) &&
                        cuda.backend.fill(cuda.backend.self, k, (uint64_t)k, &e));
        struct kv_storage *kv = &((struct cpu *)cpu.backend.self)->kv;
        struct cuda *c = cuda_of(&cuda);
        uint8_t *bytes = malloc(c->kv_bytes);
        assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
        assert_int_equal(c->kv_bytes, kv->bytes);
        assert_int_equal(cudaMemcpy(bytes, c->kv, c->kv_bytes, cudaMemcpyDeviceToHost), cudaSuccess);
        assert_memory_equal(bytes, kv->memory, kv->bytes);
        free(bytes);
        struct rig *rigs[] = {&cpu, &cuda};
        for (int i = 0; i < 2; i++) {
            step_begin(&step, rigs[i]);
            step_add(&step, rigs[i], 0, 700, 1, 3), step_add(&step, rigs[i], 1, 9, 1, 3),
                step_add(&step, rigs[i], 2, 300, 1, 3);
            step_run(&step, rigs[i], NULL);
            for (int32_t row = 0; row < 3; row++)
                read_row(rigs[i], row, (i ? got : expected)[row]);
        }
        assert_true(c->graph[0].splits > 1);
        assert_true(difference(expected[0], got[0], 3 * VOCAB) <= tolerance_of(&shape));
        rig_close(&cpu), rig_close(&cuda);
    }
}

// Copied blocks serve as the originals did.
static void test_blocks_can_be_copied(void **state)
{
    (void)state;
    for (int m = 0; m < 4; m++) {
        struct shape shape = shape_number(m);
        struct rig r = {0};
        struct error e;
        float logits[2][VOCAB];
        rig_open(&r, &shape, ON_CUDA);
        for (int32_t k = 0; k < 3; k++)
            assert_true(r.backend.fill(r.backend.self, k, 5 + (uint64_t)k, &e) &&
                        r.backend.fill(r.backend.self, k + 10, 50, &e));
        for (int round = 0; round < 2; round++) {
            step_begin(&step, &r);
            step_add(&step, &r, 0, 20, 1, 1);
            for (int32_t k = 0; k < 3; k++) {
                const struct kv_move copy = {0, 0, k, k + 10};
                step.table[k] = k + 10 * round;
                assert_true(!round || r.backend.move(r.backend.self, &copy, 1, &e));
            }
            step_run(&step, &r, NULL);
            read_row(&r, 0, logits[round]);
        }
        assert_memory_equal(logits[0], logits[1], sizeof *logits);
        rig_close(&r);
    }
}

// Rows of a trace: every operation once, in order, times that do not go back. A traced step gives the same logits.
static void test_trace_follows_the_cover(void **state)
{
    (void)state;
    static struct trace_row rows[256];
    struct shape shape = shape_number(0);
    struct rig r = {0};
    float plain[VOCAB], traced[VOCAB];
    rig_open(&r, &shape, ON_CUDA);
    for (int32_t n = 1; n <= 20; n += 19) {
        struct trace trace = {.row = rows, .capacity = 256};
        struct span spans[256];
        step_begin(&step, &r);
        step_add(&step, &r, 0, 0, n, MAX_SEQS);
        step_run(&step, &r, NULL);
        read_row(&r, n - 1, plain);
        struct batch_shape bs = batch_shape_of(&step.b);
        int32_t n_spans = r.backend.cover(r.backend.self, &r.plan, &bs, spans), next = 0;
        step_run(&step, &r, &trace);
        read_row(&r, n - 1, traced);
        assert_memory_equal(plain, traced, sizeof plain);
        assert_int_equal(trace.n, n_spans);
        for (int32_t i = 0; i < n_spans; i++) {
            assert_memory_equal(&rows[i].span, &spans[i], sizeof *spans);
            assert_int_equal(spans[i].first, next);
            assert_string_not_equal(r.backend.kernel_name(NULL, spans[i].kernel), "none");
            assert_true(rows[i].end_ns >= rows[i].begin_ns && (!i || rows[i].begin_ns >= rows[i - 1].end_ns));
            next += spans[i].count;
        }
        assert_int_equal(next, r.plan.n_ops);
    }
    rig_close(&r);
}

// Only some rows of a prompt are wanted: they are those of the full answer.
static void test_wanted_rows(void **state)
{
    (void)state;
    struct shape shape = shape_number(2);
    struct rig r = {0};
    static float all[40][VOCAB];
    float row[VOCAB];
    rig_open(&r, &shape, ON_CUDA);
    step_begin(&step, &r);
    step_add(&step, &r, 1, 0, 40, MAX_SEQS);
    step_run(&step, &r, NULL);
    for (int32_t i = 0; i < 40; i++)
        read_row(&r, i, all[i]);
    for (int32_t by = 2; by <= 39; by += 37) { // many rows by cuBLAS, one by the own kernel
        step.b.n_out = 0;
        for (int32_t i = 1; i < 40; i += by)
            step.out_row[step.b.n_out++] = i;
        step_run(&step, &r, NULL);
        for (int32_t i = 0; i < step.b.n_out; i++) {
            read_row(&r, i, row);
            assert_true(difference(all[step.out_row[i]], row, VOCAB) <= TOLERANCE);
        }
    }
    struct error e;
    step.b.n_out = 0; // a part of a prompt but the last: none is
    step_run(&step, &r, NULL);
    assert_false(r.backend.read(r.backend.self, 0, row, &e));
    rig_close(&r);
}

static uint16_t linear_strategy(struct rig *r, int32_t rows)
{
    struct span spans[256];
    struct batch_shape shape = {.n_tokens = rows, .n_seqs = 1, .n_out = rows, .max_rows = rows, .max_ctx = rows};
    int32_t n = r->backend.cover(r->backend.self, &r->plan, &shape, spans);
    while (n-- > 0)
        if (spans[n].kernel == CUDA_SPAN_LINEAR)
            return spans[n].strategy;
    fail_msg("no linear layer");
    return 0;
}

// Who multiplies: by name, and by a table, which is written by hand here since times mean nothing on the emulator.
static void test_who_multiplies(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t most; // rows of the own kernel
    } BY[] = {{"fixed", CUDA_OWN_ROWS}, {"own", CUDA_LINEAR_MAX_ROWS}, {"blas", 0}};
    struct shape shape = shape_number(1);
    struct rig r = {0};
    struct error e = {0};
    static float expected[ALL], got[ALL];
    rig_open(&r, &shape, ON_CUDA);
    run_sequences(&r, &shape, &SETUP[0], expected);
    for (int i = 0; i < 3; i++) {
        assert_true(cuda_choose_by(cuda_of(&r), BY[i].name, &e));
        for (int32_t rows = 1; rows <= 80; rows++)
            assert_int_equal(linear_strategy(&r, rows), rows <= BY[i].most ? CUDA_STRATEGY_OWN : CUDA_STRATEGY_BLAS);
        run_sequences(&r, &shape, &SETUP[0], got);
        assert_true(difference(expected, got, ALL) <= TOLERANCE);
    }
    assert_true(cuda_choose_by(cuda_of(&r), NULL, &e)); // by times
    assert_int_equal(linear_strategy(&r, CUDA_OWN_ROWS), CUDA_STRATEGY_OWN);
    assert_int_equal(linear_strategy(&r, CUDA_OWN_ROWS + 1), CUDA_STRATEGY_BLAS); // nothing is timed yet
    assert_true(cuda_choose_time(cuda_of(&r), &e));
    assert_int_equal(cuda_of(&r)->n_choices, 5); // qkv, o, gate and up, down, the head
    for (int32_t i = 0; i < cuda_of(&r)->n_choices; i++)
        cuda_of(&r)->choice[i].own = 0x54; // up to 4, 16 and 64 rows
    assert_int_equal(linear_strategy(&r, 2), CUDA_STRATEGY_BLAS);
    assert_int_equal(linear_strategy(&r, 3), CUDA_STRATEGY_OWN);
    assert_int_equal(linear_strategy(&r, 8), CUDA_STRATEGY_BLAS);
    assert_int_equal(linear_strategy(&r, 9), CUDA_STRATEGY_OWN);
    assert_int_equal(linear_strategy(&r, 32), CUDA_STRATEGY_BLAS);
    assert_int_equal(linear_strategy(&r, 64), CUDA_STRATEGY_OWN);
    assert_int_equal(linear_strategy(&r, 65), CUDA_STRATEGY_BLAS);
    run_sequences(&r, &shape, &SETUP[3], got);
    assert_true(difference(expected, got, ALL) <= TOLERANCE);
    rig_close(&r);
}

// Calls that fail while linear layers are timed.
static void test_timing_may_fail(void **state)
{
    (void)state;
    static const char *const CALL[] = {"1", "2", "3", "5", "8", "13", "21", "34"};
    struct shape shape = shape_number(0);
    struct rig r = {0};
    struct error e;
    rig_open(&r, &shape, ON_CUDA);
    assert_true(cuda_choose_by(cuda_of(&r), "auto", &e));
    for (int i = 0; i < 8; i++) {
        e = (struct error){0};
        setenv("KVEMU_FAIL", CALL[i], 1);
        assert_false(cuda_choose_time(cuda_of(&r), &e));
        assert_int_equal(e.kind, ERROR_DEVICE);
        assert_int_equal(cuda_of(&r)->n_choices, 0);
    }
    unsetenv("KVEMU_FAIL");
    assert_true(cuda_choose_time(cuda_of(&r), &e));
    assert_false(cuda_choose_by(cuda_of(&r), "avx2", &e));
    assert_non_null(strstr(e.message, "no kernel set 'avx2', expected auto"));
    rig_close(&r);
}

static void expect_refusal(const struct shape *shape, int32_t block_size, int32_t n_blocks, enum error_kind kind,
                           const char *says)
{
    struct backend b;
    struct plan plan;
    struct error e = {0};
    struct plan_options o = plan_options_default(shape->weights);
    o.kv_k = shape->kv_k, o.kv_v = shape->kv_v;
    assert_true(plan_make(&plan, &shape->spec, &o, &e));
    struct tensor *w = random_model(&plan, shape, false);
    assert_true(kvbench_cuda_plugin_1()->open(&b, &(struct backend_options){0}, &e));
    assert_false(b.load(b.self, &plan, w, &e) &&
                 b.open(b.self, &plan, &(struct kv_config){n_blocks, block_size, 16, 1, 16}, &e));
    assert_int_equal(e.kind, kind);
    assert_null(strchr(e.message, '\n'));
    if (!strstr(e.message, says))
        fail_msg("'%s' does not say '%s'", e.message, says);
    backend_close(&b);
    free_model(w, &plan);
    plan_free(&plan);
}

static void test_refusals(void **state)
{
    (void)state;
    struct shape s = make_shape(4, 2, 32, DTYPE_BF16, DTYPE_F32);
    expect_refusal(&s, 8, 8, ERROR_UNSUPPORTED, "KV as bf16, f16, fp8 or int8, not f32");
    s.kv_k = s.kv_v = DTYPE_INT8;
    expect_refusal(&s, 4, 8, ERROR_UNSUPPORTED, "multiple of 8 tokens");
    s.kv_k = s.kv_v = DTYPE_BF16;
    expect_refusal(&s, 8, 0, ERROR_USAGE, "0 blocks");
    expect_refusal(&s, 8, INT32_MAX / 8, ERROR_MEMORY, "GiB");
    s = make_shape(4, 2, 48, DTYPE_BF16, DTYPE_BF16);
    expect_refusal(&s, 8, 8, ERROR_UNSUPPORTED, "not 48");
    s = make_shape(4, 2, 160, DTYPE_BF16, DTYPE_BF16);
    expect_refusal(&s, 8, 8, ERROR_UNSUPPORTED, "not 160");
    struct op op = {.kind = OP_ALLREDUCE, .dim = {64, 2}};
    struct backend b;
    struct error e = {0};
    assert_true(kvbench_cuda_plugin_1()->open(&b, &(struct backend_options){0}, &e));
    assert_false(b.supports(b.self, &op, &e));
    assert_non_null(strstr(e.message, "one rank"));
    op.kind = OP_EXPERTS;
    assert_false(b.supports(b.self, &op, &e));
    assert_non_null(strstr(e.message, "priced, not run"));
    backend_close(&b);
    assert_false(kvbench_cuda_plugin_1()->open(&b, &(struct backend_options){.device = 99}, &e));
    assert_int_equal(e.kind, ERROR_DEVICE);
    assert_non_null(strstr(e.message, "device 99"));
}

static void test_bad_batches_are_refused(void **state)
{
    (void)state;
    struct shape shape = shape_number(0);
    struct rig r = {0};
    struct error e;
    float logits[VOCAB];
    int32_t id;
    rig_open(&r, &shape, ON_CUDA);
    for (int fault = 0; fault < 8; fault++) {
        step_begin(&step, &r);
        step_add(&step, &r, 0, 0, 5, MAX_SEQS);
        switch (fault) {
        case 0: step.token[2] = VOCAB; break;
        case 1: step.token[2] = -1; break;
        case 2: step.table[0] = MAX_SEQS * r.stride; break;
        case 3: step.pos[4] = 7; break;
        case 4: step.b.n_tokens = MAX_SEQS * MAX_LENGTH + 1; break;
        case 5: step.b.block_size = 16; break;
        case 6: step.out_row[1] = 5; break;
        case 7: step.seq_first[1] = 4; break;
        }
        if (r.backend.run(r.backend.self, &r.plan, &step.b, NULL, &e))
            fail_msg("fault %d passes", fault);
        assert_int_equal(e.kind, ERROR_USAGE);
    }
    assert_false(r.backend.fill(r.backend.self, -1, 1, &e));
    assert_false(r.backend.move(r.backend.self, &(struct kv_move){0, 1, 0, 0}, 1, &e));
    assert_int_equal(e.kind, ERROR_UNSUPPORTED);
    assert_false(r.backend.read(r.backend.self, 0, logits, &e)); // no step has run
    assert_false(r.backend.choose(r.backend.self, &(struct choice){.top_p = 1}, 1, &id, &e));
    assert_non_null(strstr(e.message, "output row 0"));
    step_begin(&step, &r);
    step_add(&step, &r, 0, 0, 1, MAX_SEQS);
    step_run(&step, &r, NULL);
    assert_false(r.backend.choose(r.backend.self, &(struct choice){.top_p = 0}, 1, &id, &e));
    assert_false(r.backend.choose(r.backend.self, &(struct choice){.top_p = 1, .u = 1}, 1, &id, &e));
    assert_false(r.backend.choose(r.backend.self, NULL, MAX_SEQS * MAX_LENGTH + 1, &id, &e));
    assert_true(r.backend.choose(r.backend.self, &(struct choice){.top_p = 1}, 1, &id, &e));
    assert_true(r.backend.memory_bytes(r.backend.self) > plan_weight_bytes(&r.plan));
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits_are_the_cpus),
        cmocka_unit_test(test_logits_in_bf16),
        cmocka_unit_test(test_products_in_fp8),
        cmocka_unit_test(test_mistakes_show),
        cmocka_unit_test(test_the_same_tokens),
        cmocka_unit_test(test_steps_are_captured_once),
        cmocka_unit_test(test_fills_are_the_cpus),
        cmocka_unit_test(test_blocks_can_be_copied),
        cmocka_unit_test(test_trace_follows_the_cover),
        cmocka_unit_test(test_wanted_rows),
        cmocka_unit_test(test_who_multiplies),
        cmocka_unit_test(test_timing_may_fail),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bad_batches_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(step.table);
    return failed;
}
