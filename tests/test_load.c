// Models and their weights: the same model from two formats is the same, random weights do not depend on how they are read,
// and spoiled folders and files are refused in one line.
#include "engine/base/file.h"
#include "engine/base/units.h"
#include "engine/load/model.h"
#include "tests/files.h"
#include "tests/gguf_writer.h"

#include <math.h>

// A model with the plan of the types its files store, and its weights.
struct loaded {
    struct model model;
    struct plan plan;
    struct weights weights;
};

// Every row, so that whatever is wrong with them is found; into data[i] unless NULL, `step` rows at a time.
static bool read_all(const struct weights *w, const struct plan *plan, int32_t step, uint8_t **data, struct error *e)
{
    bool ok = true;
    for (int32_t i = 0; ok && i < plan->n_tensors; i++) {
        const struct tensor *t = &w->tensor[i];
        uint64_t row_bytes = dtype_row_bytes(t->dtype, (uint64_t)t->cols);
        uint8_t *rows = malloc(row_bytes * (uint64_t)t->rows);
        assert_non_null(rows);
        for (int32_t r = 0; ok && r < t->rows; r += step)
            ok = tensor_read(t, r, t->rows - r < step ? t->rows - r : step, rows + (uint64_t)r * row_bytes, e);
        if (data)
            data[i] = rows;
        else
            free(rows);
    }
    return ok;
}

static bool load_as(struct loaded *l, const char *path, const enum dtype *type, struct error *e)
{
    *l = (struct loaded){0};
    *e = (struct error){0};
    if (!model_open(&l->model, path, e))
        return false;
    struct plan_options options = plan_options_default(type ? *type : l->model.spec.dtype);
    if (!type)
        options.tensor_dtype = model_tensor_dtype, options.ctx = &l->model;
    return plan_make(&l->plan, &l->model.spec, &options, e) && weights_open(&l->weights, &l->model, &l->plan, 1, e) &&
           read_all(&l->weights, &l->plan, 7, NULL, e);
}

static void unload(struct loaded *l)
{
    weights_free(&l->weights);
    plan_free(&l->plan);
    model_close(&l->model);
}

static void must_load(struct loaded *l, const char *path)
{
    struct error e;
    if (!load_as(l, path, NULL, &e))
        fail_msg("%s", e.message);
}

static void must_not_load(const char *path, enum error_kind kind, const char *part)
{
    struct loaded l;
    struct error e;
    if (load_as(&l, path, NULL, &e))
        fail_msg("accepted: %s", path);
    assert_error(&e, kind, part);
    unload(&l);
}

static float *values_of(const struct tensor *t)
{
    float *out = malloc((size_t)t->rows * (size_t)t->cols * sizeof *out);
    void *row = malloc(dtype_row_bytes(t->dtype, (uint64_t)t->cols));
    struct error e;
    assert_true(out && row);
    for (int32_t r = 0; r < t->rows; r++)
        assert_true(tensor_read(t, r, 1, row, &e) &&
                    dtype_to_f32(t->dtype, row, out + (size_t)r * (size_t)t->cols, (size_t)t->cols));
    free(row);
    return out;
}

// Largest difference between two tensors of one shape.
static double difference(const struct tensor *a, const struct tensor *b)
{
    assert_true(a->rows == b->rows && a->cols == b->cols);
    float *x = values_of(a), *y = values_of(b);
    double worst = 0;
    for (size_t i = 0; i < (size_t)a->rows * (size_t)a->cols; i++)
        worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
    free(x);
    free(y);
    return worst;
}

// The GGUF file was converted from the folder by an independent program: order of rows, names and shapes must come out
// equal.
static void compare_formats(const char *folder, const char *gguf, double tolerance)
{
    struct loaded a, b;
    must_load(&a, folder);
    must_load(&b, gguf);
    assert_int_equal(a.plan.n_tensors, b.plan.n_tensors);
    for (int32_t i = 0; i < a.plan.n_tensors; i++) {
        double d = difference(&a.weights.tensor[i], &b.weights.tensor[i]);
        if (d > tolerance)
            fail_msg("%s: tensor %d (%s) differs by %g", gguf, i, tensor_role_name((enum tensor_role)a.plan.tensor[i].role),
                     d);
    }
    const struct model_spec *s = &a.model.spec, *t = &b.model.spec;
    float fa[MODEL_MAX_ROTARY / 2], fb[MODEL_MAX_ROTARY / 2];
    rope_inv_freq(&s->rope, false, fa);
    rope_inv_freq(&t->rope, false, fb);
    for (int32_t i = 0; i < s->rope.rotary_dim / 2; i++)
        assert_true(fabsf(fa[i] - fb[i]) <= 1e-6f * fa[i]);
    assert_true(s->rms_norm_eps == t->rms_norm_eps && s->max_position_embeddings == t->max_position_embeddings);
    assert_true(s->qk_norm == t->qk_norm && s->qkv_bias == t->qkv_bias && s->tie_word_embeddings == t->tie_word_embeddings);
    assert_true(t->bos_token_id == 1 && t->n_eos == 1 && t->eos_token_id[0] == 2);
    unload(&a);
    unload(&b);
}

static void test_gguf_equals_folder(void **state)
{
    (void)state;
    compare_formats("tests/golden/llama-gqa", "tests/golden/gguf/llama-gqa-f32.gguf", 0);
    compare_formats("tests/golden/llama3-rope", "tests/golden/gguf/llama3-rope-f16.gguf", 1e-3);
    compare_formats("tests/golden/qwen2", "tests/golden/gguf/qwen2-f16.gguf", 1e-3);
    compare_formats("tests/golden/qwen3", "tests/golden/gguf/qwen3-bf16.gguf", 4e-3);
    compare_formats("tests/golden/llama-gqa", "tests/golden/gguf/llama-gqa-q8_0.gguf", 5e-3);
    compare_formats("tests/golden/llama-mqa", "tests/golden/gguf/llama-mqa-q4_0.gguf", 0.1);
    compare_formats("tests/golden/llama-mha", "tests/golden/gguf/llama-mha-q4_1.gguf", 0.1);
}

static void test_converted(void **state)
{
    (void)state;
    static const enum dtype TYPE[] = {DTYPE_BF16, DTYPE_F16, DTYPE_Q8_0, DTYPE_INT8, DTYPE_F32};
    static const double TOLERANCE[] = {4e-3, 1e-3, 5e-3, 1e-2, 0};
    struct loaded a, b;
    struct error e;
    must_load(&a, "tests/golden/llama-gqa");
    for (int t = 0; t < 5; t++) {
        assert_true(load_as(&b, "tests/golden/gguf/llama-gqa-f32.gguf", &TYPE[t], &e));
        assert_int_equal(b.weights.tensor[0].dtype, TYPE[t]);
        for (int32_t i = 0; i < a.plan.n_tensors; i++)
            assert_true(difference(&a.weights.tensor[i], &b.weights.tensor[i]) <= TOLERANCE[t]);
        unload(&b);
    }
    unload(&a);
    static const enum dtype NONE[] = {DTYPE_FP8, DTYPE_Q4_1};
    for (int t = 0; t < 2; t++) {
        assert_false(load_as(&b, "tests/golden/llama-gqa", &NONE[t], &e));
        assert_error(&e, ERROR_UNSUPPORTED, dtype_name(NONE[t]));
        unload(&b);
    }
}

static struct model_spec small_spec(void)
{
    return (struct model_spec){.name = "small",
                               .family = "qwen2",
                               .num_hidden_layers = 1,
                               .hidden_size = 512,
                               .intermediate_size = 1280,
                               .vocab_size = 5003,
                               .num_attention_heads = 8,
                               .num_key_value_heads = 2,
                               .head_dim = 64,
                               .max_position_embeddings = 128,
                               .rms_norm_eps = 1e-6f,
                               .qkv_bias = true,
                               .dtype = DTYPE_BF16,
                               .rope = {.rotary_dim = 64, .theta = 10000}};
}

static struct model small; // as long as its weights

static void make_random(struct plan *plan, enum dtype type, uint64_t seed, struct weights *w)
{
    struct model_spec spec = small_spec();
    struct plan_options options = plan_options_default(type);
    struct error e = {0};
    model_open_random(&small, &spec);
    assert_true(plan_make(plan, &spec, &options, &e));
    if (!weights_open(w, &small, plan, seed, &e))
        fail_msg("%s", e.message);
}

// Rows of unit gain: variance 1 / cols (MXFP4 has but powers of two), mean 0 (half a step off where codes go from -8 to 7).
static void check_moments(const struct tensor *t)
{
    float *x = values_of(t);
    size_t n = (size_t)t->rows * (size_t)t->cols;
    double sum = 0, squares = 0, limit = sqrt(3.0 / t->cols), largest = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
        largest = fmax(largest, fabs((double)x[i]));
    }
    double gain = squares / (double)n * t->cols, half_step = t->dtype == DTYPE_Q3_K ? 0.125 : 0.08;
    assert_true(fabs(sum / (double)n) < half_step * limit);
    assert_true(t->dtype == DTYPE_MXFP4 ? gain > 0.49 && gain < 2.01 : fabs(gain - 1) < 0.05);
    assert_true(largest <= limit * (t->dtype == DTYPE_MXFP4 ? 1.7 : 1.1) && largest > limit * 0.77);
    free(x);
}

static void test_random_weights(void **state)
{
    (void)state;
    static const enum dtype TYPE[] = {DTYPE_F32,    DTYPE_F16,   DTYPE_BF16, DTYPE_INT8, DTYPE_Q8_0,
                                      DTYPE_Q4_0,   DTYPE_Q4_1,  DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q2_K,
                                      DTYPE_Q3_K,   DTYPE_Q4_K,  DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_IQ4_NL,
                                      DTYPE_IQ4_XS, DTYPE_MXFP4, DTYPE_INT4, DTYPE_FP8};
    for (size_t k = 0; k < sizeof TYPE / sizeof *TYPE; k++) {
        struct plan plan, again;
        struct weights w, other;
        struct error e = {0};
        make_random(&plan, TYPE[k], 7, &w);
        make_random(&again, TYPE[k], 8, &other);
        uint8_t *one[32], *three[32], *another[32];
        assert_in_range(plan.n_tensors, 1, 32);
        assert_true(read_all(&w, &plan, 1, one, &e) && read_all(&w, &plan, 3, three, &e) &&
                    read_all(&other, &plan, 64, another, &e));
        for (int32_t i = 0; i < plan.n_tensors; i++) {
            uint64_t bytes = tensor_bytes(&plan.tensor[i]);
            bool vector = plan.tensor[i].rows == 1;
            assert_memory_equal(one[i], three[i], bytes);
            assert_int_equal(!memcmp(one[i], another[i], bytes), vector);
            for (uint64_t b = 0; !vector && TYPE[k] == DTYPE_FP8 && b < bytes; b++)
                assert_int_not_equal(one[i][b] & 0x7f, 0x7f); // no NaN
            if (!vector && TYPE[k] != DTYPE_FP8)
                check_moments(&w.tensor[i]);
            free(one[i]);
            free(three[i]);
            free(another[i]);
        }
        weights_free(&w);
        weights_free(&other);
        plan_free(&plan);
        plan_free(&again);
    }
}

static void test_random_vectors(void **state)
{
    (void)state;
    struct plan plan;
    struct weights w;
    make_random(&plan, DTYPE_Q8_0, 1, &w);
    for (int32_t i = 0; i < plan.n_tensors; i++) {
        if (plan.tensor[i].rows > 1)
            continue;
        float *x = values_of(&w.tensor[i]);
        bool bias = plan.tensor[i].role == TENSOR_ATTN_Q_BIAS || plan.tensor[i].role == TENSOR_ATTN_K_BIAS ||
                    plan.tensor[i].role == TENSOR_ATTN_V_BIAS;
        for (int32_t c = 0; c < w.tensor[i].cols; c++)
            assert_true(x[c] == (bias ? 0 : 1));
        free(x);
    }
    weights_free(&w);
    plan_free(&plan);
}

static void test_random_refusals(void **state)
{
    (void)state;
    struct model m;
    struct plan plan;
    struct weights w;
    struct error e = {0};
    struct model_spec spec = small_spec();
    struct plan_options options = plan_options_default(DTYPE_NVFP4);
    model_open_random(&m, &spec);
    assert_true(plan_make(&plan, &spec, &options, &e));
    assert_false(weights_open(&w, &m, &plan, 1, &e));
    assert_error(&e, ERROR_UNSUPPORTED, "nothing here computes with nvfp4 weights");
    plan_free(&plan);
}

// Spoils a copy of the folder llama-gqa and says what must come out.
struct spoiled {
    char folder[64];
    uint8_t *weights;
    size_t size;
};

static void spoil_begin(struct spoiled *s)
{
    size_t size;
    uint8_t *config = slurp("tests/golden/llama-gqa/config.json", &size);
    scratch_make(s->folder);
    scratch_write(s->folder, "config.json", config, size);
    free(config);
    s->weights = slurp("tests/golden/llama-gqa/model.safetensors", &s->size);
}

static void spoil_end(struct spoiled *s)
{
    free(s->weights);
    scratch_remove(s->folder, "config.json", "model.safetensors", "model.safetensors.index.json", NULL);
}

static uint8_t *find_bytes(struct spoiled *s, const char *text)
{
    uint8_t *at = memmem(s->weights, s->size, text, strlen(text));
    assert_non_null(at);
    return at;
}

// Where a tensor's data begin in the file.
static uint8_t *data_of(struct spoiled *s, const char *name)
{
    uint64_t header;
    unsigned long long begin;
    const char *offsets = strstr((char *)find_bytes(s, name), "\"data_offsets\":[");
    memcpy(&header, s->weights, sizeof header);
    assert_int_equal(sscanf(offsets, "\"data_offsets\":[%llu", &begin), 1);
    return s->weights + 8 + header + begin;
}

static void test_folder_without(void **state)
{
    (void)state;
    struct spoiled s;
    char path[256];
    spoil_begin(&s);
    struct model m;
    struct error e = {0};
    assert_true(model_open(&m, s.folder, &e)); // a shape is enough for some commands
    assert_true(m.format == MODEL_CONFIG && !model_has_weights(&m));
    model_close(&m);
    must_not_load(s.folder, ERROR_FILE, "there are no weights beside this configuration");
    unlink(scratch_path(s.folder, "config.json", path));
    must_not_load(s.folder, ERROR_FILE, "no config.json in this folder");
    scratch_text(s.folder, "config.json", "");
    must_not_load(s.folder, ERROR_FILE, "config.json' is empty, not JSON");
    must_not_load("/nonexistent/model", ERROR_FILE, "no such file or folder");
    must_not_load("tests/golden/README.md", ERROR_FILE, "expected a folder with config.json, a .gguf file or a config.json");
    must_not_load("tests/golden/gguf_blocks.json", ERROR_FILE, "neither 'architectures' nor 'model_type'");
    spoil_end(&s);
}

static void test_spoiled_weights(void **state)
{
    (void)state;
    static const float NOT_A_NUMBER = NAN, INFINITE = -INFINITY;
    struct spoiled s;
    spoil_begin(&s);
    scratch_write(s.folder, "model.safetensors", s.weights, 0);
    must_not_load(s.folder, ERROR_FILE, "model.safetensors' is empty, not a safetensors file");
    scratch_write(s.folder, "model.safetensors", s.weights, s.size - 4);
    must_not_load(s.folder, ERROR_FILE, "reaches beyond the end of the file");
    uint8_t *at = find_bytes(&s, "model.norm.weight");
    at[0] = 'X';
    scratch_write(s.folder, "model.safetensors", s.weights, s.size);
    must_not_load(s.folder, ERROR_FILE, "tensor 'model.norm.weight' is missing");
    at[0] = 'm';
    at = find_bytes(&s, "[64,160]");
    memcpy(at, "[160,64]", 8);
    scratch_write(s.folder, "model.safetensors", s.weights, s.size);
    must_not_load(s.folder, ERROR_FILE, "down_proj.weight' is [160, 64], expected [64, 160]");
    memcpy(at, "[64,160]", 8);
    at = find_bytes(&s, "\"F32\"");
    memcpy(at, "\"I32\"", 5);
    scratch_write(s.folder, "model.safetensors", s.weights, s.size);
    must_not_load(s.folder, ERROR_UNSUPPORTED, "is stored as I32, expected F32, F16, BF16 or F8_E4M3");
    memcpy(at, "\"F32\"", 5);
    static const char *const NAME[] = {"model.norm.weight", "model.layers.1.mlp.up_proj.weight", "lm_head.weight"};
    for (int i = 0; i < 3; i++) {
        uint8_t old[4], *data = data_of(&s, NAME[i]) + 4 * 63;
        memcpy(old, data, 4);
        memcpy(data, i % 2 ? &INFINITE : &NOT_A_NUMBER, 4);
        scratch_write(s.folder, "model.safetensors", s.weights, s.size);
        must_not_load(s.folder, ERROR_FILE, NAME[i]);
        must_not_load(s.folder, ERROR_FILE, "holds NaN or infinity");
        memcpy(data, old, 4);
    }
    struct loaded l;
    scratch_write(s.folder, "model.safetensors", s.weights, s.size);
    must_load(&l, s.folder);
    unload(&l);
    spoil_end(&s);
}

static void test_spoiled_index(void **state)
{
    (void)state;
    static const struct {
        const char *index, *part;
    } CASE[] = {
        {"{", "not valid JSON"},
        {"{}", "'weight_map' is not an object"},
        {"{\"weight_map\":{}}", "'weight_map' is not an object"},
        {"{\"weight_map\":[1]}", "'weight_map' is not an object"},
        {"{\"weight_map\":{\"a\":7}}", "names '?', expected a file of its folder"},
        {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "names '../x.safetensors', expected a file of its folder"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "expected a file of its folder"},
        {"{\"weight_map\":{\"a\":\"gone.safetensors\"}}",
         "shard 'gone.safetensors', one of 1 that the index names, is missing"},
        {"{\"weight_map\":{\"a\":\"model.safetensors\"}}", "tensor 'a' is in none of its shards"},
    };
    struct spoiled s;
    spoil_begin(&s);
    scratch_write(s.folder, "model.safetensors", s.weights, s.size);
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        scratch_text(s.folder, "model.safetensors.index.json", CASE[i].index);
        must_not_load(s.folder, ERROR_FILE, CASE[i].part);
    }
    struct loaded l;
    scratch_text(s.folder, "model.safetensors.index.json",
                 "{\"weight_map\":{\"lm_head.weight\":\"model.safetensors\",\"model.norm.weight\":\"model.safetensors\"}}");
    must_load(&l, s.folder);
    unload(&l);
    spoil_end(&s);
}

// A header padded to an odd length leaves f32 data where they cannot be used in place.
static void test_misaligned_data(void **state)
{
    (void)state;
    struct spoiled s;
    struct loaded a, b;
    uint64_t header;
    spoil_begin(&s);
    memcpy(&header, s.weights, sizeof header);
    uint8_t *moved = malloc(s.size + 1);
    assert_non_null(moved);
    memcpy(moved, s.weights, 8 + header);
    moved[8 + header] = ' ';
    memcpy(moved + 9 + header, s.weights + 8 + header, s.size - 8 - header);
    header++;
    memcpy(moved, &header, sizeof header);
    scratch_write(s.folder, "model.safetensors", moved, s.size + 1);
    must_load(&a, "tests/golden/llama-gqa");
    must_load(&b, s.folder);
    for (int32_t i = 0; i < a.plan.n_tensors; i++)
        assert_true(difference(&a.weights.tensor[i], &b.weights.tensor[i]) == 0);
    unload(&a);
    unload(&b);
    free(moved);
    spoil_end(&s);
}

static struct bytes file;

struct gguf_case {
    const char *architecture, *scaling;
    uint32_t window, experts, key_length, heads, layers;
    float factor, theta;
    uint32_t embd_type;
};

// One layer of Llama's shape, all zeros: hidden 64, feed-forward 96, vocabulary 8.
static void write_gguf(const struct gguf_case *c)
{
    char key[64];
    const char *a = c->architecture;
#define KEY(name) (snprintf(key, sizeof key, "%s." name, a), key)
    put_head(&file, 3, 2, 13);
    put_string_value(&file, "general.architecture", a);
    put_u32_value(&file, KEY("block_count"), c->layers);
    put_u32_value(&file, KEY("embedding_length"), 64);
    put_u32_value(&file, KEY("feed_forward_length"), 96);
    put_u32_value(&file, KEY("context_length"), 128);
    put_u32_value(&file, KEY("attention.head_count"), c->heads);
    put_u32_value(&file, KEY("attention.key_length"), c->key_length);
    put_u32_value(&file, KEY("attention.value_length"), 16);
    put_u32_value(&file, KEY("attention.sliding_window"), c->window);
    put_u32_value(&file, KEY("expert_count"), c->experts);
    put_string_value(&file, KEY("rope.scaling.type"), c->scaling);
    put_f32_value(&file, KEY("rope.scaling.factor"), c->factor);
    put_f32_value(&file, KEY("rope.freq_base"), c->theta);
    put_tensor(&file, "token_embd.weight", 64, 8, c->embd_type, 0);
    put_tensor(&file, "blk.0.attn_q.weight", 64, 64, 0, 2048);
    put_padding(&file, 32);
    put_zeros(&file, 2048 + 64 * 64 * 4);
}

static bool open_written(const struct gguf_case *c, struct model *m, struct error *e)
{
    char folder[64], path[256];
    write_gguf(c);
    scratch_make(folder);
    scratch_write(folder, "made-here.gguf", file.data, file.size);
    *e = (struct error){0};
    bool ok = model_open(m, scratch_path(folder, "made-here.gguf", path), e);
    scratch_remove(folder, "made-here.gguf", NULL);
    return ok;
}

static void test_gguf_metadata(void **state)
{
    (void)state;
    static const struct gguf_case GOOD = {"llama", "linear", 5, 0, 16, 4, 1, 4, 5e5f, 0};
    struct model m;
    struct error e;
    if (!open_written(&GOOD, &m, &e))
        fail_msg("%s", e.message);
    assert_string_equal(m.spec.name, "made-here");
    assert_true(m.spec.rope.kind == ROPE_LINEAR && m.spec.rope.factor == 4 && m.spec.rope.theta == 5e5);
    assert_true(m.spec.window[0] == 5 && m.spec.tie_word_embeddings && m.spec.vocab_size == 8 && m.spec.head_dim == 16);
    assert_int_equal(m.spec.num_key_value_heads, 4);
    model_close(&m);
}

static void test_gguf_refusals(void **state)
{
    (void)state;
    static const struct {
        struct gguf_case c;
        enum error_kind kind;
        const char *part;
    } CASE[] = {
        {{"mamba", "none", 0, 0, 16, 4, 1, 1, 1e4f, 0}, ERROR_UNSUPPORTED, "architecture 'mamba' is not supported"},
        {{"llama", "ntk", 0, 0, 16, 4, 1, 4, 1e4f, 0}, ERROR_UNSUPPORTED, "rope scaling 'ntk'"},
        {{"llama", "yarn", 0, 0, 16, 4, 1, 0.5f, 1e4f, 0}, ERROR_FILE, "yarn from"},
        {{"llama", "none", 0, 8, 16, 4, 1, 1, 1e4f, 0}, ERROR_UNSUPPORTED, "8 experts per layer"},
        {{"llama", "none", 0, 0, 32, 4, 1, 1, 1e4f, 0}, ERROR_UNSUPPORTED, "heads of 32 values for keys but 16"},
        {{"llama", "none", 0, 0, 16, 0, 1, 1, 1e4f, 0}, ERROR_FILE, "'num_attention_heads' is 0"},
        {{"llama", "none", 0, 0, 16, 4, 0, 1, 1e4f, 0}, ERROR_FILE, "'num_hidden_layers' is 0"},
        {{"llama", "none", 0, 0, 16, 4, 999, 1, 1e4f, 0}, ERROR_FILE, "'num_hidden_layers' is 999"},
        {{"llama", "linear", 0, 0, 16, 4, 1, NAN, 1e4f, 0}, ERROR_FILE, "rope scaling factor is nan"},
        {{"llama", "none", 0, 0, 16, 4, 1, 1, -1, 0}, ERROR_FILE, "freq_base' is -1"},
        {{"llama", "none", 0, 0, 16, 4, 1, 1, 1e4f, 26},
         ERROR_UNSUPPORTED,
         "'token_embd.weight' is stored as I32 (type 26)"},
    };
    struct model m;
    struct error e;
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        if (open_written(&CASE[i].c, &m, &e))
            fail_msg("accepted: %s", CASE[i].part);
        assert_error(&e, CASE[i].kind, CASE[i].part);
    }
}

// Any single spoiled byte: the file is refused in one line, or loads.
static void test_gguf_spoiled_everywhere(void **state)
{
    (void)state;
    char folder[64], path[256];
    size_t size;
    int refused = 0, tried = 0;
    uint8_t *data = slurp("tests/golden/gguf/llama-mqa-q4_0.gguf", &size);
    scratch_make(folder);
    scratch_path(folder, "x.gguf", path);
    for (size_t i = 0; i < size; i += i < 2000 ? 5 : 997, tried++) {
        struct loaded l;
        struct error e;
        data[i] ^= 0xff;
        scratch_write(folder, "x.gguf", data, size);
        if (!load_as(&l, path, NULL, &e)) {
            refused++;
            assert_true(*e.message && !strchr(e.message, '\n'));
            assert_true(e.kind == ERROR_FILE || e.kind == ERROR_UNSUPPORTED || e.kind == ERROR_MEMORY);
        }
        unload(&l);
        data[i] ^= 0xff;
    }
    assert_true(refused > 100 && refused < tried);
    free(data);
    scratch_remove(folder, "x.gguf", NULL);
}

static void test_shard_weights_are_refused(void **state)
{
    (void)state;
    struct model m;
    struct plan plan;
    struct weights w;
    struct error e = {0};
    assert_true(model_open(&m, "tests/golden/llama-gqa", &e));
    struct plan_options options = plan_options_default(DTYPE_F32);
    options.tp = 2;
    assert_true(plan_make(&plan, &m.spec, &options, &e));
    assert_false(weights_open(&w, &m, &plan, 1, &e));
    assert_error(&e, ERROR_UNSUPPORTED, "split over 2 ranks");
    plan_free(&plan);
    model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf_equals_folder),
        cmocka_unit_test(test_converted),
        cmocka_unit_test(test_random_weights),
        cmocka_unit_test(test_random_vectors),
        cmocka_unit_test(test_random_refusals),
        cmocka_unit_test(test_folder_without),
        cmocka_unit_test(test_spoiled_weights),
        cmocka_unit_test(test_spoiled_index),
        cmocka_unit_test(test_misaligned_data),
        cmocka_unit_test(test_gguf_metadata),
        cmocka_unit_test(test_gguf_refusals),
        cmocka_unit_test(test_gguf_spoiled_everywhere),
        cmocka_unit_test(test_shard_weights_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
