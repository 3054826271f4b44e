// Families, biases, windows, head shapes and ropes of which no reference logits are at hand: a folder is written as
// transformers would write it, and the engine must give the logits of tests/naive.h.
#include "bench/verify.h"
#include "engine/base/rng.h"
#include "tests/files.h"
#include "tests/naive.h"

enum { N_PROMPT = 21, N_GREEDY = 6, N_TOKENS = N_PROMPT + N_GREEDY - 1 };

// What is written to the folder: values as f32, or matrices as FP8 with scales.
enum storing { AS_F32, FP8_PER_TENSOR, FP8_PER_ROW, FP8_BLOCKS };

struct variation {
    const char *name, *config; // config.json without the shape, which follows from `facts`
    struct naive_model facts;
    void (*ropes)(struct naive_model *m);
    const char *prefix; // of names inside a multi-modal folder
    enum storing storing;
};

// ---- ropes

static void plain(struct naive_model *m, int which, double theta, double stretched)
{
    for (int32_t i = 0; i < m->rotary / 2; i++)
        m->freq[which][i] = pow(theta, -2.0 * i / m->rotary) / stretched;
}

static void rope_1e4(struct naive_model *m)
{
    plain(m, 0, 1e4, 1);
    plain(m, 1, 1e4, 1);
}

static void rope_linear(struct naive_model *m)
{
    plain(m, 0, 5e3, 3);
    plain(m, 1, 5e3, 3);
}

static void rope_gemma3(struct naive_model *m)
{
    plain(m, 0, 1e6, 8);
    plain(m, 1, 200, 1);
}

// 16 values, theta 10000, 20 positions stretched twice: dimensions 16 ln(20 / (2 pi turns)) / (2 ln 10000) are -2.00 for 32
// turns and 1.0055 for one, so the ramp runs from 0 to 2.
static void yarn(struct naive_model *m, int which, double theta)
{
    for (int32_t i = 0; i < m->rotary / 2; i++) {
        double f = pow(theta, -2.0 * i / m->rotary), ramp = i < 2 ? i / 2.0 : 1;
        m->freq[which][i] = f * (1 - ramp) + f / 2 * ramp;
    }
    m->magnitude = 0.1 * log(2) + 1;
}

static void rope_yarn(struct naive_model *m)
{
    yarn(m, 0, 1e4);
    yarn(m, 1, 1e4);
}

static void rope_yarn_loud(struct naive_model *m)
{
    rope_yarn(m);
    m->magnitude = 1.3;
}

// Phi's short factors: all tokens lie within the original 64 positions of 256.
static void rope_short(struct naive_model *m)
{
    static const double SHORT[] = {1, 1.25, 1.5, 2, 2.5, 3};
    for (int32_t i = 0; i < 6; i++)
        m->freq[0][i] = pow(1e4, -2.0 * i / 12) / SHORT[i];
    memcpy(m->freq[1], m->freq[0], sizeof m->freq[0]); // layers with a window have no other
    m->magnitude = sqrt(1 + log(4) / log(64));
}

static void rope_olmo3(struct naive_model *m)
{
    plain(m, 0, 5e5, 1);
    plain(m, 1, 5e5, 1);
}

// ---- the folder

static uint64_t random_state;

static double random_value(double limit)
{
    return ((double)rng_uniform(rng_next(&random_state)) * 2 - 1) * limit;
}

static void add_tensor(struct naive_model *m, const char *name, int32_t rows, int32_t cols)
{
    assert_true(m->n_tensors < NAIVE_MAX_TENSORS);
    struct naive_tensor *t = &m->tensor[m->n_tensors++];
    *t = (struct naive_tensor){.rows = rows, .cols = cols, .value = calloc((size_t)rows * (size_t)cols, sizeof(double))};
    assert_non_null(t->value);
    snprintf(t->name, sizeof t->name, "%s", name);
    bool norm = strstr(name, "norm") != NULL;
    for (int32_t i = 0; i < rows * cols; i++)
        t->value[i] = (double)(float)(norm        ? (m->norms_less_one ? 0 : 1) + random_value(0.2)
                                      : rows == 1 ? random_value(0.3)
                                                  : random_value(2 / sqrt(cols)));
}

static void add_layer_tensor(struct naive_model *m, int32_t layer, const char *name, int32_t rows, int32_t cols)
{
    char whole[96];
    snprintf(whole, sizeof whole, "model.layers.%d.%s", layer, name);
    add_tensor(m, whole, rows, cols);
}

static void add_attention(struct naive_model *m, int32_t layer)
{
    static const char *const NAME[] = {"q_proj", "k_proj", "v_proj"};
    int32_t q = m->H * m->d, kv = m->K * m->d;
    if (m->fused)
        add_layer_tensor(m, layer, "self_attn.qkv_proj.weight", q + 2 * kv, m->D);
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "self_attn.%s.weight", NAME[i]);
        if (!m->fused)
            add_layer_tensor(m, layer, name, i ? kv : q, m->D);
        snprintf(name, sizeof name, "self_attn.%s.bias", NAME[i]);
        if (m->qkv_bias)
            add_layer_tensor(m, layer, name, 1, i ? kv : q);
    }
    add_layer_tensor(m, layer, "self_attn.o_proj.weight", m->D, q);
    if (m->o_bias)
        add_layer_tensor(m, layer, "self_attn.o_proj.bias", 1, m->D);
    if (m->qk_norm) {
        add_layer_tensor(m, layer, "self_attn.q_norm.weight", 1, m->qk_norm == 1 ? m->d : q);
        add_layer_tensor(m, layer, "self_attn.k_norm.weight", 1, m->qk_norm == 1 ? m->d : kv);
    }
}

static void add_feed_forward(struct naive_model *m, int32_t layer)
{
    static const char *const NAME[] = {"gate_proj", "up_proj", "down_proj"};
    if (m->fused)
        add_layer_tensor(m, layer, "mlp.gate_up_proj.weight", 2 * m->F, m->D);
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "mlp.%s.weight", NAME[i]);
        if (!m->fused || i == 2)
            add_layer_tensor(m, layer, name, i == 2 ? m->D : m->F, i == 2 ? m->F : m->D);
        snprintf(name, sizeof name, "mlp.%s.bias", NAME[i]);
        if (m->mlp_bias)
            add_layer_tensor(m, layer, name, 1, i == 2 ? m->D : m->F);
    }
}

static void add_tensors(struct naive_model *m)
{
    add_tensor(m, "model.embed_tokens.weight", m->V, m->D);
    for (int32_t layer = 0; layer < m->layers; layer++) {
        if (m->norms != NAIVE_POST)
            add_layer_tensor(m, layer, "input_layernorm.weight", 1, m->D);
        add_attention(m, layer);
        add_layer_tensor(m, layer, "post_attention_layernorm.weight", 1, m->D);
        if (m->norms == NAIVE_SANDWICH)
            add_layer_tensor(m, layer, "pre_feedforward_layernorm.weight", 1, m->D);
        if (m->norms != NAIVE_PRE)
            add_layer_tensor(m, layer, "post_feedforward_layernorm.weight", 1, m->D);
        add_feed_forward(m, layer);
    }
    add_tensor(m, "model.norm.weight", 1, m->D);
    if (!m->tied)
        add_tensor(m, "lm_head.weight", m->V, m->D);
}

// Values of normal FP8 (e4m3) numbers below 240: 2^(e-7) * (1 + mantissa / 8).
static double fp8_value(uint8_t code)
{
    double v = ldexp(1 + (code & 7) / 8.0, (code >> 3 & 15) - 7);
    return code & 0x80 ? -v : v;
}

enum { BLOCK = 16 };

static int32_t scale_of(enum storing how, const struct naive_tensor *t, int32_t r, int32_t c)
{
    return how == FP8_PER_TENSOR ? 0 : how == FP8_PER_ROW ? r : r / BLOCK * ((t->cols + BLOCK - 1) / BLOCK) + c / BLOCK;
}

// Writes random codes and scales for a matrix, and makes its values what they stand for. Returns how many scales.
static int32_t make_fp8(struct naive_tensor *t, enum storing how, uint8_t *code, float *scale)
{
    int32_t n = 1 + scale_of(how, t, t->rows - 1, t->cols - 1);
    for (int32_t i = 0; i < n; i++)
        scale[i] = (float)(0.2 + random_value(0.1));
    for (int32_t i = 0; i < t->rows * t->cols; i++) {
        code[i] = (uint8_t)(rng_next(&random_state) & 0xbf) | 0x08; // exponents 1..7: at most 1.875
        t->value[i] = fp8_value(code[i]) * (double)scale[scale_of(how, t, i / t->cols, i % t->cols)];
    }
    return n;
}

struct writer {
    FILE *header, *data;
    uint64_t at;
};

static void put_entry(struct writer *w, const char *name, const char *type, const char *shape, const void *data,
                      size_t bytes)
{
    fprintf(w->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}", w->at ? "," : "", name,
            type, shape, (unsigned long long)w->at, (unsigned long long)(w->at + bytes));
    assert_int_equal(fwrite(data, 1, bytes, w->data), bytes);
    w->at += bytes;
}

static void put_matrix_fp8(struct writer *w, struct naive_tensor *t, enum storing how, const char *name)
{
    char shape[64], scale_name[160];
    uint8_t *code = malloc((size_t)t->rows * (size_t)t->cols);
    float *scale = malloc((size_t)t->rows * (size_t)t->cols * sizeof *scale);
    assert_true(code && scale);
    int32_t n = make_fp8(t, how, code, scale);
    snprintf(shape, sizeof shape, "%d,%d", t->rows, t->cols);
    // scales first: the data of f32 stay aligned
    snprintf(scale_name, sizeof scale_name, "%s%s", name, how == FP8_BLOCKS ? "_scale_inv" : "_scale");
    char scale_shape[64] = "";
    if (how == FP8_PER_ROW)
        snprintf(scale_shape, sizeof scale_shape, "%d,1", n);
    if (how == FP8_BLOCKS)
        snprintf(scale_shape, sizeof scale_shape, "%d,%d", n / ((t->cols + BLOCK - 1) / BLOCK),
                 (t->cols + BLOCK - 1) / BLOCK);
    put_entry(w, scale_name, "F32", scale_shape, scale, (size_t)n * sizeof *scale);
    put_entry(w, name, "F8_E4M3", shape, code, (size_t)t->rows * (size_t)t->cols);
    free(code);
    free(scale);
}

static void put_tensor_f32(struct writer *w, const struct naive_tensor *t, const char *name)
{
    char shape[64];
    size_t n = (size_t)t->rows * (size_t)t->cols;
    float *value = malloc(n * sizeof *value);
    assert_non_null(value);
    for (size_t i = 0; i < n; i++)
        value[i] = (float)t->value[i];
    if (t->rows == 1)
        snprintf(shape, sizeof shape, "%d", t->cols);
    else
        snprintf(shape, sizeof shape, "%d,%d", t->rows, t->cols);
    put_entry(w, name, "F32", shape, value, n * sizeof *value);
    free(value);
}

static void write_weights(const char *folder, struct naive_model *m, const struct variation *v)
{
    char *header = NULL, *data = NULL, path[256];
    size_t header_size, data_size;
    struct writer w = {open_memstream(&header, &header_size), open_memstream(&data, &data_size), 0};
    assert_true(w.header && w.data);
    fputc('{', w.header);
    for (int32_t i = 0; i < m->n_tensors; i++) {
        char name[128];
        struct naive_tensor *t = &m->tensor[i];
        bool is_projection = strstr(t->name, "_proj.weight") != NULL;
        bool inner = v->prefix && !strncmp(v->prefix, "model.", 6) && !strncmp(t->name, "model.", 6);
        snprintf(name, sizeof name, "%s%s", v->prefix ? v->prefix : "", inner ? t->name + 6 : t->name);
        if (is_projection && v->storing != AS_F32)
            put_matrix_fp8(&w, t, v->storing, name);
        else
            put_tensor_f32(&w, t, name);
    }
    fputc('}', w.header);
    fclose(w.header);
    fclose(w.data);
    FILE *f = fopen(scratch_path(folder, "model.safetensors", path), "wb");
    assert_non_null(f);
    uint64_t padded = (header_size + 7) / 8 * 8;
    fwrite(&padded, sizeof padded, 1, f);
    fprintf(f, "%-*s", (int)padded, header);
    fwrite(data, 1, data_size, f);
    fclose(f);
    free(header);
    free(data);
}

static void write_config(const char *folder, const struct naive_model *m, const struct variation *v)
{
    char text[2048];
    snprintf(text, sizeof text,
             "{%s\"num_hidden_layers\":%d,\"hidden_size\":%d,\"num_attention_heads\":%d,\"num_key_value_heads\":%d,"
             "\"head_dim\":%d,\"intermediate_size\":%d,\"vocab_size\":%d,\"dtype\":\"float32\"%s",
             v->config, m->layers, m->D, m->H, m->K, m->d, m->F, m->V, v->prefix ? "}}" : "}");
    scratch_text(folder, "config.json", text);
}

static void write_reference(const char *folder, const struct naive_model *m)
{
    static struct naive_cache cache; // large
    double logits[NAIVE_MAX_WIDTH];
    float *all = malloc((size_t)N_TOKENS * (size_t)m->V * sizeof *all), highest = 0;
    int32_t token[N_TOKENS + 1];
    assert_non_null(all);
    for (int32_t t = 0; t < N_TOKENS; t++) {
        if (t < N_PROMPT)
            token[t] = (int32_t)(rng_next(&random_state) % (uint64_t)m->V);
        naive_step(m, &cache, token[t], t, logits);
        token[t + 1] = 0;
        for (int32_t i = 0; i < m->V; i++) {
            all[t * m->V + i] = (float)logits[i];
            highest = fmaxf(highest, fabsf((float)logits[i]));
            if (logits[i] > logits[token[t + 1]])
                token[t + 1] = i;
        }
    }
    char text[1024];
    int n = snprintf(text, sizeof text, "{\"max_abs_logit\":%g,\"min_top2_gap\":0.001,\"logits_shape\":[%d,%d],\"prompt\":[",
                     (double)highest, N_TOKENS, m->V);
    for (int32_t i = 0; i < N_TOKENS + 1; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%d", i == N_PROMPT ? "],\"greedy\":[" : i ? "," : "", token[i]);
    snprintf(text + n, sizeof text - (size_t)n, "]}");
    scratch_text(folder, "reference.json", text);
    scratch_write(folder, "logits.f32", all, (size_t)N_TOKENS * (size_t)m->V * sizeof *all);
    free(all);
}

// ---- the comparison

// The largest difference of a model's logits from the folder's reference, relative to the largest logit. The model is
// exported as a GGUF file if a path for it is given.
static double compare(const char *model, const char *folder, const char *name, const char *gguf)
{
    struct opened o;
    struct error e = {0};
    struct export_report exported;
    struct open_request request = {.model = model, .backend = "cpu", .device = {.threads = 1}};
    struct verify_options options = {.kv = DTYPE_F32};
    struct verify_report report = {0};
    if (!open_model(&o, &request, &e) || !verify_golden(&o, &options, folder, &report, &e))
        fail_msg("%s: %s", name, e.message);
    assert_int_equal(report.n, 3); // one pass, with cache, greedy ids
    if (gguf && !model_export_gguf(&o.model, o.plan, o.weights.tensor, DTYPE_F32, gguf, &exported, &e))
        fail_msg("%s: %s", name, e.message);
    open_close(&o);
    return fmax(report.check[0].max_diff, report.check[1].max_diff);
}

static double difference(const struct variation *v)
{
    char folder[64], gguf[256];
    struct naive_model m = v->facts;
    m.rotary = m.rotary ? m.rotary : m.d;
    m.scale = m.scale != 0 ? m.scale : 1 / sqrt(m.d);
    v->ropes(&m);
    random_state = 7;
    add_tensors(&m);
    scratch_make(folder);
    write_weights(folder, &m, v);
    write_config(folder, &m, v);
    write_reference(folder, &m);
    double diff = compare(folder, folder, v->name, scratch_path(folder, "x.gguf", gguf));
    double exported = compare(gguf, folder, v->name, NULL);
    if (fabs(exported - diff) > 1e-6)
        fail_msg("%s: differs by %g, exported as GGUF by %g", v->name, diff, exported);
    scratch_remove(folder, "model.safetensors", "config.json", "reference.json", "logits.f32", "x.gguf", NULL);
    for (int32_t i = 0; i < m.n_tensors; i++)
        free(m.tensor[i].value);
    return diff;
}

static void check(const struct variation *v)
{
    double diff = difference(v);
    if (!(diff <= 1e-5))
        fail_msg("%s: differs by %g", v->name, diff);
}

#define SHAPE(layers_, H_, K_, d_) .layers = layers_, .D = 40, .H = H_, .K = K_, .d = d_, .F = 56, .V = 90

static void test_llama(void **state)
{
    static const struct variation V[] = {
        {.name = "biases, one KV head, linear rope",
         .config =
             "\"architectures\":[\"LlamaForCausalLM\"],\"attention_bias\":true,\"mlp_bias\":true,\"rms_norm_eps\":1e-5,"
             "\"rope_theta\":5e3,\"rope_scaling\":{\"type\":\"linear\",\"factor\":3},",
         .facts = {SHAPE(2, 5, 1, 12), .qkv_bias = true, .o_bias = true, .mlp_bias = true, .eps = 1e-5},
         .ropes = rope_linear},
        {.name = "nine heads over three, tied, yarn",
         .config = "\"architectures\":[\"LlamaForCausalLM\"],\"tie_word_embeddings\":true,\"rope_parameters\":{\"factor\":2,"
                   "\"rope_type\":\"yarn\",\"rope_theta\":10000,\"original_max_position_embeddings\":20},",
         .facts = {SHAPE(2, 9, 3, 16), .tied = true, .eps = 1e-6},
         .ropes = rope_yarn},
        {.name = "yarn with a magnitude of its own",
         .config = "\"architectures\":[\"LlamaForCausalLM\"],\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,"
                   "\"original_max_position_embeddings\":20,\"attention_factor\":1.3},",
         .facts = {SHAPE(2, 4, 2, 16), .eps = 1e-6},
         .ropes = rope_yarn_loud},
        {.name = "SmolLM3, every fourth layer without rope",
         .config = "\"architectures\":[\"SmolLM3ForCausalLM\"],\"rope_theta\":10000,\"mlp_bias\":true,"
                   "\"no_rope_layers\":[1,1,1,0,1],\"use_sliding_window\":false,\"sliding_window\":null,",
         .facts = {SHAPE(5, 4, 2, 10), .mlp_bias = true, .tied = true, .no_rope_every = 4, .eps = 1e-6},
         .ropes = rope_1e4},
        {.name = "Mistral's window",
         .config = "\"architectures\":[\"MistralForCausalLM\"],\"sliding_window\":5,",
         .facts = {SHAPE(2, 4, 2, 8), .window = {5, 5}, .eps = 1e-6},
         .ropes = rope_1e4},
        {.name = "inside a multi-modal folder",
         .config = "\"architectures\":[\"Mistral3ForConditionalGeneration\"],\"vision_config\":{},"
                   "\"text_config\":{\"model_type\":\"mistral\",\"sliding_window\":null,",
         .facts = {SHAPE(2, 4, 2, 10), .eps = 1e-6},
         .ropes = rope_1e4,
         .prefix = "language_model."}};
    (void)state;
    for (size_t i = 0; i < sizeof V / sizeof *V; i++)
        check(&V[i]);
}

static void test_qwen(void **state)
{
    static const struct variation V[] = {
        {.name = "Qwen2, a window from layer 1 on",
         .config = "\"architectures\":[\"Qwen2ForCausalLM\"],\"use_sliding_window\":true,\"sliding_window\":4,"
                   "\"max_window_layers\":1,",
         .facts = {SHAPE(3, 6, 2, 8), .qkv_bias = true, .window = {0, 4, 4}, .eps = 1e-6},
         .ropes = rope_1e4},
        {.name = "Qwen3 with biases and named layers",
         .config = "\"architectures\":[\"Qwen3ForCausalLM\"],\"attention_bias\":true,\"use_sliding_window\":true,"
                   "\"sliding_window\":6,\"tie_word_embeddings\":true,"
                   "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\"],",
         .facts = {SHAPE(3, 6, 3, 20), .qkv_bias = true, .o_bias = true, .qk_norm = 1, .tied = true, .window = {6, 0, 6},
                   .eps = 1e-6},
         .ropes = rope_1e4}};
    (void)state;
    for (size_t i = 0; i < sizeof V / sizeof *V; i++)
        check(&V[i]);
}

static void test_gemma(void **state)
{
    static const struct variation V[] = {
        {.name = "Gemma",
         .config = "\"architectures\":[\"GemmaForCausalLM\"],\"hidden_act\":\"gelu\",",
         .facts = {SHAPE(2, 4, 1, 16), .norms_less_one = true, .gelu = true, .tied = true, .embed = 6.324555320336759,
                   .eps = 1e-6},
         .ropes = rope_1e4},
        {.name = "Gemma 2 with small caps",
         .config = "\"architectures\":[\"Gemma2ForCausalLM\"],\"sliding_window\":7,\"query_pre_attn_scalar\":20,"
                   "\"attn_logit_softcapping\":1.5,\"final_logit_softcapping\":4,\"attention_bias\":true,",
         .facts = {SHAPE(3, 4, 2, 12), .norms = NAIVE_SANDWICH, .norms_less_one = true, .gelu = true, .tied = true,
                   .qkv_bias = true, .o_bias = true, .window = {7, 0, 7}, .scale = 0.22360679774997896, .score_cap = 1.5,
                   .logit_cap = 4, .embed = 6.324555320336759, .eps = 1e-6},
         .ropes = rope_1e4},
        {.name = "Gemma 2 without caps",
         .config = "\"architectures\":[\"Gemma2ForCausalLM\"],\"sliding_window\":4,\"query_pre_attn_scalar\":12,"
                   "\"attn_logit_softcapping\":null,\"final_logit_softcapping\":null,",
         .facts = {SHAPE(2, 4, 2, 12), .norms = NAIVE_SANDWICH, .norms_less_one = true, .gelu = true, .tied = true,
                   .window = {4, 0}, .embed = 6.324555320336759, .eps = 1e-6},
         .ropes = rope_1e4},
        {.name = "Gemma 3, every third layer full, inside a folder of transformers 5",
         .config =
             "\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"text_config\":{\"model_type\":\"gemma3_text\","
             "\"sliding_window\":6,\"sliding_window_pattern\":3,\"query_pre_attn_scalar\":16,\"rope_local_base_freq\":200,"
             "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8},\"final_logit_softcapping\":9,",
         .facts = {SHAPE(4, 4, 2, 16), .norms = NAIVE_SANDWICH, .norms_less_one = true, .gelu = true, .tied = true,
                   .qk_norm = 1, .window = {6, 6, 0, 6}, .logit_cap = 9, .embed = 6.324555320336759, .eps = 1e-6},
         .ropes = rope_gemma3,
         .prefix = "model.language_model."}};
    (void)state;
    for (size_t i = 0; i < sizeof V / sizeof *V; i++)
        check(&V[i]);
}

static void test_phi(void **state)
{
    static const struct variation V[] = {
        {.name = "three quarters turn, short factors, a window",
         .config = "\"architectures\":[\"Phi3ForCausalLM\"],\"partial_rotary_factor\":0.75,\"max_position_embeddings\":256,"
                   "\"original_max_position_embeddings\":64,\"sliding_window\":8,\"rope_scaling\":{\"type\":\"longrope\","
                   "\"short_factor\":[1,1.25,1.5,2,2.5,3],\"long_factor\":[2,4,6,8,10,12]},",
         .facts = {SHAPE(2, 6, 2, 16), .fused = true, .rotary = 12, .window = {8, 8}, .eps = 1e-5},
         .ropes = rope_short},
        {.name = "half turns, tied",
         .config = "\"architectures\":[\"Phi3ForCausalLM\"],\"tie_word_embeddings\":true,"
                   "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000,\"partial_rotary_factor\":0.5},",
         .facts = {SHAPE(2, 4, 4, 12), .fused = true, .rotary = 6, .tied = true, .eps = 1e-5},
         .ropes = rope_1e4}};
    (void)state;
    for (size_t i = 0; i < sizeof V / sizeof *V; i++)
        check(&V[i]);
}

static void test_olmo_and_granite(void **state)
{
    static const struct variation V[] = {
        {.name = "OLMo 2 with grouped heads",
         .config = "\"architectures\":[\"Olmo2ForCausalLM\"],\"attention_bias\":true,",
         .facts = {SHAPE(2, 6, 2, 8), .norms = NAIVE_POST, .qk_norm = 2, .qkv_bias = true, .o_bias = true, .eps = 1e-5},
         .ropes = rope_1e4},
        {.name = "OLMo 3",
         .config = "\"architectures\":[\"Olmo3ForCausalLM\"],\"sliding_window\":5,",
         .facts = {SHAPE(5, 4, 4, 8), .norms = NAIVE_POST, .qk_norm = 2, .window = {5, 5, 5, 0, 5}, .eps = 1e-5},
         .ropes = rope_olmo3},
        {.name = "Granite with biases",
         .config = "\"architectures\":[\"GraniteForCausalLM\"],\"attention_bias\":true,\"mlp_bias\":true,"
                   "\"embedding_multiplier\":12,\"residual_multiplier\":0.22,\"attention_multiplier\":0.0625,"
                   "\"logits_scaling\":8,\"tie_word_embeddings\":true,",
         .facts = {SHAPE(2, 4, 2, 8), .qkv_bias = true, .o_bias = true, .mlp_bias = true, .tied = true, .embed = 12,
                   .residual = 0.22, .scale = 0.0625, .logits = 8, .eps = 1e-6},
         .ropes = rope_1e4}};
    (void)state;
    for (size_t i = 0; i < sizeof V / sizeof *V; i++)
        check(&V[i]);
}

static void test_fp8(void **state)
{
    static const struct variation V[] = {
        {.name = "FP8, one scale per matrix",
         .config = "\"architectures\":[\"LlamaForCausalLM\"],\"quantization_config\":{\"quant_method\":\"modelopt\","
                   "\"quant_algo\":\"FP8\"},",
         .facts = {SHAPE(2, 4, 2, 8), .eps = 1e-6},
         .ropes = rope_1e4,
         .storing = FP8_PER_TENSOR},
        {.name = "FP8, one scale per row, fused",
         .config =
             "\"architectures\":[\"Phi3ForCausalLM\"],\"quantization_config\":{\"quant_method\":\"compressed-tensors\","
             "\"config_groups\":{\"group_0\":{\"weights\":{\"type\":\"float\",\"num_bits\":8}}}},",
         .facts = {SHAPE(2, 4, 2, 8), .fused = true, .eps = 1e-5},
         .ropes = rope_1e4,
         .storing = FP8_PER_ROW},
        {.name = "FP8, scales per block, fused",
         .config = "\"architectures\":[\"Phi3ForCausalLM\"],\"quantization_config\":{\"quant_method\":\"fp8\","
                   "\"weight_block_size\":[16,16]},",
         .facts = {SHAPE(2, 4, 2, 8), .fused = true, .eps = 1e-5},
         .ropes = rope_1e4,
         .storing = FP8_BLOCKS}};
    (void)state;
    for (size_t i = 0; i < sizeof V / sizeof *V; i++)
        check(&V[i]);
}

// What the comparison is worth: facts slightly other than the folder's show.
static void test_wrong_facts_are_noticed(void **state)
{
    static const struct variation RIGHT = {
        .name = "Gemma 2",
        .config = "\"architectures\":[\"Gemma2ForCausalLM\"],\"sliding_window\":7,\"query_pre_attn_scalar\":20,"
                  "\"attn_logit_softcapping\":1.5,\"final_logit_softcapping\":4,",
        .facts = {SHAPE(3, 4, 2, 12), .norms = NAIVE_SANDWICH, .norms_less_one = true, .gelu = true, .tied = true,
                  .window = {7, 0, 7}, .scale = 0.22360679774997896, .score_cap = 1.5, .logit_cap = 4,
                  .embed = 6.324555320336759, .eps = 1e-6},
        .ropes = rope_1e4};
    struct variation wrong[] = {RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT};
    wrong[0].facts.score_cap = 1.6;
    wrong[1].facts.logit_cap = 4.1;
    wrong[2].facts.window[2] = 8;
    wrong[3].facts.gelu = false;
    wrong[4].facts.embed = 6.3;
    wrong[5].ropes = rope_linear;
    (void)state;
    check(&RIGHT);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (difference(&wrong[i]) < 1e-4)
            fail_msg("wrong fact %zu is not noticed", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_qwen),
        cmocka_unit_test(test_gemma),
        cmocka_unit_test(test_phi),
        cmocka_unit_test(test_olmo_and_granite),
        cmocka_unit_test(test_fp8),
        cmocka_unit_test(test_wrong_facts_are_noticed),
    };
    return cmocka_run_group_tests_name("families", tests, NULL, NULL);
}
