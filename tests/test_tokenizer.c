// Tokenizers against Hugging Face's tokenizers library: thirteen small ones that cover every part (tests/golden), the real
// ones of five models where ../shared is there. Merging against a naive reference. Damaged and unsupported files.
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/rng.h"
#include "engine/base/utf8.h"
#include "engine/load/tokenizer_parts.h"
#include "tests/tokenizer_rows.h"

#include <sys/wait.h>
#include <unistd.h>

#define VARIANTS "tests/golden/tokenizer_variants.json"
#define SHARED "../shared/golden"
#define GGUF "tests/golden/gguf/llama-gqa-f32.gguf"
#define REAL_GGUF "models/SmolLM2-135M-Instruct.Q4_1.gguf"

static struct tokenizer *open_json(const cJSON *json)
{
    struct tokenizer *t;
    struct error e = {0};
    char *text = cJSON_PrintUnformatted(json);
    if (!tokenizer_from_json(&t, (struct text){text, strlen(text)}, "test", &e))
        fail_msg("%s", e.message);
    free(text);
    return t;
}

// A variant's tokenizer.json: the vocabulary and merges stand once in the file.
static cJSON *variant_json(const cJSON *all, const cJSON *variant)
{
    cJSON *json = cJSON_Duplicate(json_member(variant, "tokenizer"), true);
    cJSON *model = cJSON_GetObjectItem(json, "model");
    cJSON_AddItemToObject(model, "vocab", cJSON_Duplicate(json_member(all, "vocab"), true));
    cJSON_AddItemToObject(model, "merges", cJSON_Duplicate(json_member(all, "merges"), true));
    return json;
}

static const cJSON *find_variant(const cJSON *all, const char *name)
{
    const cJSON *v;
    cJSON_ArrayForEach(v, json_member(all, "variants"))
    {
        if (!strcmp(json_member(v, "name")->valuestring, name))
            return v;
    }
    fail_msg("no variant '%s'", name);
    return NULL;
}

static void small_tokenizers_equal_the_reference(void **state)
{
    cJSON *all = load(VARIANTS);
    const cJSON *variant, *row;
    int n = 0;
    cJSON_ArrayForEach(variant, json_member(all, "variants"))
    {
        cJSON *json = variant_json(all, variant);
        struct tokenizer *t = open_json(json);
        const cJSON *text = json_member(all, "texts")->child;
        cJSON_ArrayForEach(row, json_member(variant, "rows"))
        {
            assert_row(t, text->valuestring, row);
            text = text->next, n++;
        }
        tokenizer_close(t);
        cJSON_Delete(json);
    }
    assert_int_equal(n, 13 * 41);
    cJSON_Delete(all);
    (void)state;
}

// ---- merging

static int32_t merge_naively(const struct merges *m, int32_t *id, int32_t n)
{
    for (;;) {
        const struct merge *best = NULL;
        int32_t at = 0;
        for (int32_t i = 0; i + 1 < n; i++) {
            const struct merge *found = merges_find(m, id[i], id[i + 1]);
            if (found && (!best || found->rank < best->rank))
                best = found, at = i;
        }
        if (!best)
            return n;
        id[at] = best->id;
        memmove(id + at + 1, id + at + 2, (size_t)(n - at - 2) * sizeof *id);
        n--;
    }
}

static void merging_equals_the_naive_reference(void **state)
{
    struct merges m;
    uint64_t rng = 5;
    enum { N_MERGES = 400, MAX = 300 };
    assert_true(merges_init(&m, N_MERGES, NULL));
    for (int32_t i = 0; i < N_MERGES; i++)
        merges_put(&m,
                   (struct merge){(int32_t)(rng_next(&rng) % (4 + (uint64_t)i)), (int32_t)(rng_next(&rng) % 6), i, 4 + i},
                   NULL);
    for (int32_t n = 0; n < MAX; n++) {
        int32_t a[MAX], b[MAX];
        for (int32_t i = 0; i < n; i++)
            a[i] = b[i] = (int32_t)(rng_next(&rng) % 4);
        int32_t left = bpe_merge(&m, a, n);
        assert_int_equal(left, merge_naively(&m, b, n));
        assert_memory_equal(a, b, (size_t)left * sizeof *a);
    }
    merges_free(&m);
    (void)state;
}

// Without the heap this would take minutes.
static void a_long_word_takes_no_quadratic_time(void **state)
{
    cJSON *all = load(VARIANTS), *json = variant_json(all, find_variant(all, "whole text"));
    struct tokenizer *t = open_json(json);
    struct token_list ids = {0};
    enum { SIZE = 1 << 20 };
    char *text = malloc(SIZE);
    memset(text, 'a', SIZE);
    assert_true(tokenizer_encode(t, text, SIZE, false, &ids, NULL));
    assert_int_equal(ids.n, SIZE / 4);
    token_list_free(&ids);
    free(text);
    tokenizer_close(t);
    cJSON_Delete(json);
    cJSON_Delete(all);
    (void)state;
}

// ---- bytes that are no text

static void invalid_utf8_is_encoded_byte_by_byte(void **state)
{
    cJSON *all = load(VARIANTS), *json = variant_json(all, find_variant(all, "gpt-2"));
    struct tokenizer *t = open_json(json);
    const char text[] = "low\xff\xc3low\xe4\xb8 \xed\xa0\x80\x00\xf5"; // a lone lead, a cut character, a surrogate, a zero
    struct token_list ids = {0};
    char *back;
    size_t size;
    int32_t low = tokenizer_token_id(t, "low"), space = tokenizer_token_id(t, "\u0120"); // written as in the vocabulary
    int32_t expected[] = {low, 0xff, 0xc3, low, 0xe4, 0xb8, space, 0xed, 0xa0, 0x80, 0, 0xf5};
    assert_true(tokenizer_encode(t, text, sizeof text - 1, false, &ids, NULL));
    assert_int_equal(ids.n, sizeof expected / sizeof *expected);
    assert_memory_equal(ids.id, expected, sizeof expected);
    assert_true(tokenizer_decode(t, ids.id, ids.n, false, &back, &size, NULL));
    assert_int_equal(size, sizeof text - 1);
    assert_memory_equal(back, text, size);
    free(back);
    token_list_free(&ids);
    tokenizer_close(t);
    cJSON_Delete(json);
    cJSON_Delete(all);
    (void)state;
}

// Table 3-8 of the Unicode standard: which pieces of ill-formed text are one replacement each.
static void utf8_pieces(void **state)
{
    static const struct {
        const char *text;
        size_t size;
        enum utf8_state state;
    } ROW[] = {
        {"a", 1, UTF8_WHOLE},
        {"\xc2\xa0", 2, UTF8_WHOLE},
        {"\xef\xbf\xbf", 3, UTF8_WHOLE},
        {"\xf4\x8f\xbf\xbf", 4, UTF8_WHOLE},
        {"\x80", 1, UTF8_BROKEN},
        {"\xc0\xaf", 1, UTF8_BROKEN},
        {"\xe0\x80\xaf", 1, UTF8_BROKEN},
        {"\xed\xa0\x80", 1, UTF8_BROKEN},
        {"\xf4\x91\x92\x93", 1, UTF8_BROKEN},
        {"\xf0\x91\x92\x41", 3, UTF8_BROKEN},
        {"\xf0\x91\x92", 3, UTF8_CUT},
        {"\xe1", 1, UTF8_CUT},
        {"\xff", 1, UTF8_BROKEN},
        {"\xf5\x80", 1, UTF8_BROKEN},
    };
    for (size_t i = 0; i < sizeof ROW / sizeof *ROW; i++) {
        enum utf8_state found;
        assert_int_equal(utf8_next(ROW[i].text, strlen(ROW[i].text), &found), ROW[i].size);
        assert_int_equal(found, ROW[i].state);
    }
    assert_int_equal(utf8_valid_size("0123456789\xe4\xb8\x96\xff", 14), 13);
    (void)state;
}

// ---- refusals

static void expect_refusal(const char *json, size_t size, enum error_kind kind, const char *part)
{
    struct tokenizer *t;
    struct error e = {0};
    assert_false(tokenizer_from_json(&t, (struct text){json, size}, "x.json", &e));
    assert_null(t);
    if (e.kind != kind || !strstr(e.message, part) || !strstr(e.message, "x.json") || strchr(e.message, '\n'))
        fail_msg("'%s', expected '%s'", e.message, part);
}

// Each row replaces one text of a tokenizer.json that loads.
static void unsupported_and_wrong_parts_are_refused_by_name(void **state)
{
    static const struct {
        const char *from, *to, *message;
        enum error_kind kind;
    } ROW[] = {
        {"\"BPE\"", "\"Unigram\"", "'Unigram with the ByteLevel pre-tokenizer' is not supported", ERROR_UNSUPPORTED},
        {"\"BPE\"", "\"WordPiece\"", "'WordPiece' is not supported", ERROR_UNSUPPORTED},
        {"\"byte_fallback\":false", "\"byte_fallback\":1", "'byte_fallback'", ERROR_FILE},
        {"\"dropout\":null", "\"dropout\":0.1", "dropout", ERROR_UNSUPPORTED},
        {"\"end_of_word_suffix\":null", "\"end_of_word_suffix\":\"</w>\"", "suffix", ERROR_UNSUPPORTED},
        {"\"type\":\"Split\"", "\"type\":\"FixedLength\"", "'FixedLength' is not supported", ERROR_UNSUPPORTED},
        {"\"NFC\"", "\"Nmt\"", "'Nmt' is not supported", ERROR_UNSUPPORTED},
        {"\"post_processor\":{\"type\":\"ByteLevel\"", "\"post_processor\":{\"type\":\"Roberto\"", "'Roberto'",
         ERROR_UNSUPPORTED},
        {"\"decoder\":{\"type\":\"ByteLevel\"", "\"decoder\":{\"type\":\"WordPiece\"", "decoder 'WordPiece'",
         ERROR_UNSUPPORTED},
        {"\"Isolated\"", "\"Shuffled\"", "'Shuffled'", ERROR_FILE},
        {"\\\\p{N}", "\\\\p{Nix}", "split pattern is not valid", ERROR_FILE},
        {"\\\\s+\"", "[a&&b]\"", "set inside a class", ERROR_UNSUPPORTED},
        {"[[\"l\",\"o\"]", "[[\"l\",\"lo\"]", "merge 0", ERROR_FILE},
        {"[[\"l\",\"o\"]", "[[\"l\"]", "merge 0", ERROR_FILE},
        {"[[\"l\",\"o\"]", "[\"lo\"", "merge 0", ERROR_FILE},
        {"\"a\":97", "\"a\":98", "two tokens have the id 98", ERROR_FILE},
        {"\"a\":97", "\"a\":-1", "the id of token 'a'", ERROR_FILE},
        {"\"a\":97", "\"a\":1e99", "the id of token 'a'", ERROR_FILE},
        {"\"a\":97", "\"a\":\"97\"", "the id of token 'a'", ERROR_FILE},
        {"\"vocab\"", "\"vocabulary\"", "'vocab'", ERROR_FILE},
        {"\"model\"", "\"molde\"", "'model'", ERROR_FILE},
        {"\"lstrip\":false", "\"lstrip\":0", "'lstrip'", ERROR_FILE},
        {"\"content\":\"token\"", "\"contents\":\"token\"", "'content'", ERROR_FILE},
        {"\"content\":\"token\"", "\"content\":\"t\\ud800n\"", "not valid JSON", ERROR_FILE}, // a lone surrogate
        {"\"content\":\"token\"", "\"content\":\"t\xffn\"", "not valid UTF-8", ERROR_FILE},
    };
    cJSON *all = load(VARIANTS), *json = variant_json(all, find_variant(all, "qwen"));
    char *text = cJSON_PrintUnformatted(json);
    for (size_t i = 0; i < sizeof ROW / sizeof *ROW; i++) {
        const char *at = strstr(text, ROW[i].from);
        if (!at)
            fail_msg("row %zu: nothing to replace", i);
        char *changed;
        size_t size;
        FILE *f = open_memstream(&changed, &size);
        fprintf(f, "%.*s%s%s", (int)(at - text), text, ROW[i].to, at + strlen(ROW[i].from));
        fclose(f);
        expect_refusal(changed, size, ROW[i].kind, ROW[i].message);
        free(changed);
    }
    expect_refusal("", 0, ERROR_FILE, "is empty, not JSON");
    expect_refusal("[]", 2, ERROR_FILE, "'model'");
    free(text);
    cJSON_Delete(json);
    cJSON_Delete(all);
    (void)state;
}

// Loads damaged bytes and, where that works, encodes with what came of it: it must not crash, that is all.
static void try_damaged(const char *bytes, size_t size, bool gguf)
{
    struct tokenizer *t;
    struct error e = {0};
    const char text[] = "low lowest <|start|> 123 \xe4\xb8\x96\xff";
    bool opened =
        gguf ? tokenizer_from_gguf(&t, bytes, size, "x", &e) : tokenizer_from_json(&t, (struct text){bytes, size}, "x", &e);
    survive(opened ? t : NULL, &e, text, sizeof text - 1);
}

static void damaged_files_do_no_harm(void **state)
{
    cJSON *all = load(VARIANTS), *json = variant_json(all, find_variant(all, "llama 3"));
    char *text = cJSON_PrintUnformatted(json);
    size_t size = strlen(text);
    uint64_t rng = 3;
    for (size_t n = 0; n < size; n += 1 + rng_next(&rng) % 37)
        expect_refusal(text, n, ERROR_FILE, n ? "not valid JSON" : "is empty");
    for (int i = 0; i < 1500; i++) {
        size_t at = rng_next(&rng) % size;
        char old = text[at];
        text[at] ^= (char)(1 << rng_next(&rng) % 8);
        try_damaged(text, size, false);
        text[at] = old;
    }
    free(text);
    cJSON_Delete(json);
    cJSON_Delete(all);
    (void)state;
}

// ---- GGUF

static void gguf_round_trip(void **state)
{
    struct tokenizer *t;
    struct error e = {0};
    struct token_list ids = {0};
    const char text[] = "the ten\n\xf0\x9f\x98\x80<s>";
    char *back;
    size_t size;
    if (!tokenizer_open(&t, GGUF, &e))
        fail_msg("%s", e.message);
    assert_int_equal(tokenizer_vocab_size(t), 320);
    assert_int_equal(tokenizer_bos(t), 1);
    assert_true(tokenizer_encode(t, text, sizeof text - 1, true, &ids, &e));
    assert_int_equal(ids.id[0], tokenizer_token_id(t, "th"));
    assert_int_equal(ids.id[ids.n - 1], 1); // the control token inside the text; none is added
    assert_true(tokenizer_decode(t, ids.id, ids.n, true, &back, &size, &e));
    assert_string_equal(back, "the ten\n\xf0\x9f\x98\x80");
    free(back);
    token_list_free(&ids);
    tokenizer_close(t);
    (void)state;
}

static void expect_gguf_refusal(char *bytes, size_t size, const char *from, char to, const char *message)
{
    struct tokenizer *t;
    struct error e = {0};
    char *at = memmem(bytes, size, from, strlen(from));
    char *last = at + strlen(from) - 1, old = *last;
    *last = to;
    assert_false(tokenizer_from_gguf(&t, bytes, size, "x", &e));
    *last = old;
    if (!strstr(e.message, message))
        fail_msg("'%s', expected '%s'", e.message, message);
}

static void damaged_gguf_does_no_harm(void **state)
{
    struct file file;
    uint64_t rng = 4;
    enum { HEAD = 16384 }; // the metadata lie there
    assert_true(file_open(&file, GGUF, NULL));
    char *bytes = malloc(file.size);
    memcpy(bytes, file.data, file.size);
    expect_gguf_refusal(bytes, file.size, "gpt2", '3', "'gpt3'");
    expect_gguf_refusal(bytes, file.size, "gpt-2", '3', "'gpt-3'");
    expect_gguf_refusal(bytes, file.size, "tokenizer.ggml.model", 'x', "has no tokenizer");
    expect_gguf_refusal(bytes, file.size, "tokenizer.ggml.pre", 'x', "pre-tokenizer");
    expect_gguf_refusal(bytes, file.size, "tokenizer.ggml.tokens", 'x', "0 tokens");
    for (int i = 0; i < 1500; i++) {
        size_t at = rng_next(&rng) % HEAD;
        char old = bytes[at];
        bytes[at] ^= (char)(1 << rng_next(&rng) % 8);
        try_damaged(bytes, file.size, true);
        bytes[at] = old;
    }
    for (size_t n = 0; n < HEAD; n += 1 + rng_next(&rng) % 97)
        try_damaged(bytes, n, true);
    free(bytes);
    file_close(&file);
    (void)state;
}

// ---- the real ones

// What `xz -dc path` writes, or NULL.
static char *decompress(const char *path, size_t *size)
{
    int ends[2];
    char *text = NULL;
    if (pipe(ends))
        return NULL;
    pid_t child = fork();
    if (!child) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        execlp("xz", "xz", "-dc", path, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *in = fdopen(ends[0], "rb"), *out = open_memstream(&text, size);
    static char buffer[65536];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, in)) > 0;)
        fwrite(buffer, 1, n, out);
    fclose(in);
    fclose(out);
    int status;
    if (waitpid(child, &status, 0) != child || status) {
        free(text);
        return NULL;
    }
    return text;
}

static void assert_golden(const struct tokenizer *t, const char *name)
{
    char path[256];
    const cJSON *row;
    int n = 0;
    snprintf(path, sizeof path, SHARED "/tokenizer_%s.json", name);
    cJSON *rows = load(path);
    cJSON_ArrayForEach(row, rows)
    {
        assert_row(t, json_member(row, "text")->valuestring, row);
        n++;
    }
    assert_true(n > 100);
    cJSON_Delete(rows);
}

static void real_tokenizer(void **state)
{
    const char *name = *state;
    char path[256];
    size_t size;
    struct tokenizer *t;
    struct error e = {0};
    snprintf(path, sizeof path, SHARED "/tokenizers/%s.tokenizer.json.xz", name);
    if (!file_exists(path)) {
        print_message("%s is not there\n", path);
        skip();
    }
    char *json = decompress(path, &size);
    if (!json) {
        print_message("xz is not there\n");
        skip();
    }
    if (!tokenizer_from_json(&t, (struct text){json, size}, path, &e))
        fail_msg("%s", e.message);
    free(json);
    assert_golden(t, name);
    tokenizer_close(t);
}

static void real_gguf_equals_its_tokenizer_json(void **state)
{
    struct tokenizer *t;
    struct error e = {0};
    if (!file_exists(REAL_GGUF) || !file_exists(SHARED "/tokenizer_smollm2.json")) {
        print_message(REAL_GGUF " (make model) or its reference is not there\n");
        skip();
    }
    if (!tokenizer_open(&t, REAL_GGUF, &e))
        fail_msg("%s", e.message);
    assert_golden(t, "smollm2");
    tokenizer_close(t);
    (void)state;
}

static void paths_that_are_no_tokenizer(void **state)
{
    static const char *const ROW[][2] = {
        {"tests/golden/none", "is no file or folder"},
        {"tests/golden/qwen3", "has no tokenizer.json and no tokenizer.model"},
        {"tests/golden/qwen3/config.json", "'model'"},
        {"tests/golden/qwen3/logits.f32", "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof ROW / sizeof *ROW; i++) {
        struct tokenizer *t;
        struct error e = {0};
        assert_false(tokenizer_open(&t, ROW[i][0], &e));
        if (!strstr(e.message, ROW[i][1]) || !strstr(e.message, ROW[i][0]) || e.kind != ERROR_FILE)
            fail_msg("'%s', expected '%s'", e.message, ROW[i][1]);
    }
    (void)state;
}

#define REAL(name)                                                                                                          \
    {                                                                                                                       \
        "real_tokenizer_" name, real_tokenizer, NULL, NULL, name                                                            \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_tokenizers_equal_the_reference),
        cmocka_unit_test(merging_equals_the_naive_reference),
        cmocka_unit_test(a_long_word_takes_no_quadratic_time),
        cmocka_unit_test(invalid_utf8_is_encoded_byte_by_byte),
        cmocka_unit_test(utf8_pieces),
        cmocka_unit_test(unsupported_and_wrong_parts_are_refused_by_name),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(gguf_round_trip),
        cmocka_unit_test(damaged_gguf_does_no_harm),
        REAL("smollm2"),
        REAL("qwen3"),
        REAL("llama3"),
        REAL("deepseek_v3"),
        REAL("gptoss"),
        REAL("llama2"),
        REAL("gemma3"),
        cmocka_unit_test(real_gguf_equals_its_tokenizer_json),
        cmocka_unit_test(paths_that_are_no_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
