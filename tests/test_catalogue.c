// The catalogue: every entry is found under every spelling of its names, and every supported one makes the plan whose
// sizes were counted elsewhere (the entry's own numbers, and the table they come from where it is there).
#include "bench/command.h"
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "roofline/catalogue.h"
#include "tests/files.h"

#include <ctype.h>

enum { N_ENTRIES = 97, N_TABLE = 87, N_SUPPORTED = 97 }; // the table's, and models of engine logs and benchmarks

// Parameters of a plan: every tensor once.
static uint64_t count_params(const struct plan *plan)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < plan->n_tensors; i++)
        sum += (uint64_t)plan->tensor[i].rows * (uint64_t)plan->tensor[i].cols;
    return sum;
}

// The same by a closed formula over the configuration, written without the plan.
static uint64_t formula_params(const struct model_spec *s)
{
    uint64_t L = (uint64_t)s->num_hidden_layers, D = (uint64_t)s->hidden_size, F = (uint64_t)s->intermediate_size;
    uint64_t V = (uint64_t)s->vocab_size, d = (uint64_t)s->head_dim, q = (uint64_t)s->num_attention_heads * d,
             kv = (uint64_t)s->num_key_value_heads * d;
    uint64_t layer = D * q + 2 * D * kv + q * D + 3 * D * F + 2 * D;
    layer += s->qkv_bias ? q + 2 * kv : 0;
    layer += s->qk_norm == QK_NORM_HEAD ? 2 * d : s->qk_norm == QK_NORM_ROW ? q + kv : 0;
    layer += s->norm_place == NORM_BOTH ? 2 * D : 0;
    return L * layer + D + V * D * (s->tie_word_embeddings ? 1 : 2);
}

// A dense decoder with heads of one size; the others have tests/test_priced.c.
static bool is_plain(const struct model_spec *s)
{
    return !s->experts.num_experts && !s->mla.kv_lora_rank && !s->state.num_v_heads && !s->layer_norm;
}

static void check_supported(const char *path, const cJSON *config, uint64_t params, uint64_t kv_bytes)
{
    struct model m;
    struct plan plan;
    struct error e = {0};
    if (!model_open(&m, path, &e))
        fail_msg("%s", e.message);
    struct plan_options options = plan_options_default(m.spec.dtype);
    assert_true(plan_make(&plan, &m.spec, &options, &e));
    if (is_plain(&m.spec) && params) {
        assert_int_equal(count_params(&plan), params);
        assert_int_equal(formula_params(&m.spec), params);
        assert_int_equal(plan_weight_bytes(&plan), (m.spec.dtype == DTYPE_F32 ? 4 : 2) * params);
        assert_int_equal(plan_kv_bytes_per_token(&plan), (m.spec.dtype == DTYPE_F32 ? 2 : 1) * kv_bytes);
    }
    assert_int_equal(m.format, MODEL_CONFIG);
    assert_int_equal(m.spec.n_eos > 0, json_member(config, "eos_token_id") != NULL);
    assert_int_equal(m.spec.bos_token_id >= 0, json_member(config, "bos_token_id") != NULL);
    plan_free(&plan);
    model_close(&m);
}

static double number_of(const cJSON *json, const char *key)
{
    const cJSON *n = json_member(json, key);
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

static void test_all_entries(void **state)
{
    (void)state;
    struct catalogue_row *rows;
    struct error e = {0};
    int n, supported = 0;
    assert_true(catalogue_list("models", &rows, &n, &e));
    assert_int_equal(n, N_ENTRIES);
    for (int i = 0; i < n; i++) {
        char path[256];
        cJSON *json;
        snprintf(path, sizeof path, "configs/models/%s.json", rows[i].name);
        assert_true(json_load(path, &json, &e));
        assert_string_equal(cJSON_GetStringValue(json_member(json, "name")), rows[i].name);
        assert_true(i == 0 || strcmp(rows[i - 1].name, rows[i].name) < 0);
        if (rows[i].supported)
            check_supported(path, json_member(json, "config"), (uint64_t)number_of(json, "params"),
                            (uint64_t)number_of(json, "kv_bytes_per_token_16bit"));
        else
            assert_non_null(strstr(rows[i].detail, "is not supported"));
        supported += rows[i].supported;
        cJSON_Delete(json);
    }
    assert_int_equal(supported, N_SUPPORTED);
    free(rows);
}

static void must_find(const char *name, const char *entry)
{
    char path[512];
    struct error e = {0};
    if (!catalogue_find("models", name, path, sizeof path, &e))
        fail_msg("%s", e.message);
    const char *slash = strrchr(path, '/');
    if (strncmp(slash + 1, entry, strlen(entry)) || strcmp(slash + 1 + strlen(entry), ".json"))
        fail_msg("'%s' is %s, expected %s", name, path, entry);
}

// No two entries answer to one name.
static void test_every_alias_is_its_own(void **state)
{
    (void)state;
    struct catalogue_row *rows;
    struct error e = {0};
    int n;
    assert_true(catalogue_list("models", &rows, &n, &e));
    for (int i = 0; i < n; i++) {
        char path[256], upper[64];
        cJSON *json;
        const cJSON *alias;
        must_find(rows[i].name, rows[i].name);
        snprintf(upper, sizeof upper, "%s", rows[i].name);
        for (char *c = upper; *c; c++)
            *c = (char)toupper((unsigned char)*c);
        must_find(upper, rows[i].name);
        snprintf(path, sizeof path, "configs/models/%s.json", rows[i].name);
        assert_true(json_load(path, &json, &e));
        cJSON_ArrayForEach(alias, json_member(json, "aliases")) must_find(cJSON_GetStringValue(alias), rows[i].name);
        cJSON_Delete(json);
    }
    free(rows);
}

static void test_spellings(void **state)
{
    (void)state;
    static const char *const LLAMA3[] = {
        "llama-3-8b", "Llama-3-8B", "Meta-Llama-3-8B", "meta-llama/Meta-Llama-3-8B", "meta-llama/Meta-Llama-3-8B-Instruct",
        "llama_3_8b", "llama3-8b"};
    for (size_t i = 0; i < sizeof LLAMA3 / sizeof *LLAMA3; i++)
        must_find(LLAMA3[i], "llama-3-8b");
    must_find("meta-llama/Llama-2-13b-hf", "llama-2-13b");
    must_find("llama-2-13b", "llama-2-13b");
    must_find("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b");
    must_find("Qwen2.5-7B", "qwen2.5-7b");
    must_find("CodeLlama-34b-Instruct-hf", "codellama-34b");
    char path[512];
    struct error e = {0};
    static const char *const UNKNOWN[] = {"", "/", "meta", "llama-3", "..", "meta-llama/", "hf", "%s%n", "../../etc/passwd"};
    for (size_t i = 0; i < sizeof UNKNOWN / sizeof *UNKNOWN; i++) {
        assert_false(catalogue_find("models", UNKNOWN[i], path, sizeof path, &e));
        assert_error(&e, ERROR_USAGE, "unknown model");
    }
    assert_false(catalogue_find("models", "qwen3-06b", path, sizeof path, &e));
    assert_error(&e, ERROR_USAGE, "did you mean 'qwen3-0.6b'?");
    assert_false(catalogue_find("nothing", "x", path, sizeof path, &e));
    assert_error(&e, ERROR_FILE, "no such folder");
}

static void test_open_model(void **state)
{
    (void)state;
    struct model m;
    struct error e = {0};
    assert_true(catalogue_open_model(&m, "Llama-3.1-8B", &e));
    assert_true(m.format == MODEL_RANDOM && m.spec.rope.kind == ROPE_LLAMA3 && model_has_weights(&m));
    assert_true(m.spec.rope.factor == 8 && m.spec.rope.original_max_position_embeddings == 8192);
    model_close(&m);
    assert_true(catalogue_open_model(&m, "mistral-7b-v0.1", &e));
    assert_int_equal(m.spec.window[0], 4096);
    model_close(&m);
    assert_true(catalogue_open_model(&m, "tests/golden/qwen3", &e));
    assert_int_equal(m.format, MODEL_HF);
    model_close(&m);
    assert_true(catalogue_open_model(&m, "configs/models/qwen3-0.6b.json", &e));
    assert_true(m.format == MODEL_CONFIG && !model_has_weights(&m));
    assert_string_equal(m.spec.name, "qwen3-0.6b");
    model_close(&m);
    assert_true(catalogue_open_model(&m, "deepseek-v3", &e));
    assert_int_equal(m.spec.mla.kv_lora_rank, 512);
    model_close(&m);
    assert_false(catalogue_open_model(&m, "nowhere/model.gguf", &e));
    assert_error(&e, ERROR_FILE, "nowhere/model.gguf");
    assert_false(catalogue_open_model(&m, "llama-3-9b", &e));
    assert_error(&e, ERROR_USAGE, "did you mean 'llama-3-");
}

// The folder can be given, and a spoiled entry is named.
static void test_own_folder(void **state)
{
    (void)state;
    char folder[64], path[256];
    struct error e = {0};
    scratch_make(folder);
    setenv("KVBENCH_CONFIGS", folder, 1);
    assert_false(catalogue_find("models", "x", path, sizeof path, &e));
    assert_error(&e, ERROR_FILE, "no such folder of the catalogue");
    setenv("KVBENCH_CONFIGS", "/nonexistent", 1);
    assert_false(catalogue_find("models", "x", path, sizeof path, &e));
    assert_error(&e, ERROR_USAGE, "KVBENCH_CONFIGS");
    snprintf(path, sizeof path, "%s/..", folder); // the folder itself as the section of its parent
    setenv("KVBENCH_CONFIGS", path, 1);
    const char *section = strrchr(folder, '/') + 1;
    scratch_text(folder, "mine.json", "{\"name\": \"mine\", \"aliases\": [\"My-Own\", 7, null]}");
    scratch_text(folder, "notes.txt", "no entry");
    assert_true(catalogue_find(section, "someone/MY_own", path, sizeof path, &e));
    scratch_text(folder, "broken.json", "{\"name\": ");
    assert_false(catalogue_find(section, "mine", path, sizeof path, &e));
    assert_error(&e, ERROR_FILE, "broken.json' line 1: not valid JSON");
    unsetenv("KVBENCH_CONFIGS");
    scratch_remove(folder, "mine.json", "notes.txt", "broken.json", NULL);
}

// The numbers of the entries are those of the table they were made from.
static void test_against_the_table(void **state)
{
    (void)state;
    const char *table = "../shared/data/models.csv";
    if (!file_exists(table))
        skip(); // a clone without the table: the entries' own numbers are checked above
    FILE *f = fopen(table, "r");
    char line[4096];
    int rows = 0;
    assert_non_null(fgets(line, sizeof line, f));
    while (fgets(line, sizeof line, f)) {
        char path[512], id[128], params[32];
        cJSON *json;
        struct error e = {0};
        snprintf(id, sizeof id, "%.*s", (int)strcspn(line, ","), line);
        if (!catalogue_find("models", id, path, sizeof path, &e) || !json_load(path, &json, &e))
            fail_msg("%s", e.message);
        snprintf(params, sizeof params, ",%.0f,", number_of(json, "params"));
        assert_true(!json_member(json, "params") || strstr(line, params));
        snprintf(params, sizeof params, ",%.0f,", number_of(json, "kv_bytes_per_token_16bit"));
        assert_non_null(strstr(line, params));
        cJSON_Delete(json);
        rows++;
    }
    fclose(f);
    assert_int_equal(rows, N_TABLE);
}

static void test_list_command(void **state)
{
    (void)state;
    struct error e = {0};
    const char *section = "modles";
    struct options o = {.arg = &section, .n_args = 1};
    assert_false(cmd_list(&o, &e));
    assert_error(&e, ERROR_USAGE, "did you mean 'models'?");
    o.n_args = 0;
    assert_false(cmd_list(&o, &e));
    assert_error(&e, ERROR_USAGE,
                 "expected models, hardware, backends, families, formats, chats, imports or schema-scenario");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_entries),  cmocka_unit_test(test_every_alias_is_its_own),
        cmocka_unit_test(test_spellings),    cmocka_unit_test(test_open_model),
        cmocka_unit_test(test_own_folder),   cmocka_unit_test(test_against_the_table),
        cmocka_unit_test(test_list_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
