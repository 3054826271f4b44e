// Tokenizers whose pieces are characters: SentencePiece models and their likes in tokenizer.json and GGUF, against the
// sentencepiece and tokenizers libraries (small ones made for this in tests/golden, more where ../shared is there).
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/rng.h"
#include "engine/base/utf8.h"
#include "engine/load/tokenizer_sentencepiece.h"
#include "tests/gguf_writer.h"
#include "tests/tokenizer_rows.h"

#define MODELS "tests/golden/sentencepiece"
#define SHARED "../shared/golden/sentencepiece"

static struct tokenizer *open_model(const char *folder, const char *name)
{
    char path[256];
    struct tokenizer *t;
    struct error e = {0};
    snprintf(path, sizeof path, "%s/%s.model", folder, name);
    if (!tokenizer_open(&t, path, &e))
        fail_msg("%s", e.message);
    return t;
}

static void small_tokenizers_equal_the_reference(void **state)
{
    cJSON *all = load("tests/golden/tokenizers.json");
    const cJSON *one, *row;
    int n = 0;
    cJSON_ArrayForEach(one, json_member(all, "tokenizers"))
    {
        struct tokenizer *t;
        struct error e = {0};
        char *json = cJSON_PrintUnformatted(json_member(one, "tokenizer"));
        const cJSON *text = json_member(all, "texts")->child;
        if (!tokenizer_from_json(&t, (struct text){json, strlen(json)}, json_member(one, "name")->valuestring, &e))
            fail_msg("%s", e.message);
        cJSON_ArrayForEach(row, json_member(one, "rows"))
        {
            assert_row(t, text->valuestring, row);
            text = text->next, n++;
        }
        tokenizer_close(t);
        free(json);
    }
    assert_int_equal(n, 8 * 34);
    cJSON_Delete(all);
    (void)state;
}

static void small_models_equal_the_reference(void **state)
{
    cJSON *all = load(MODELS "/cases.json");
    const cJSON *one, *row;
    int n = 0;
    cJSON_ArrayForEach(one, json_member(all, "models"))
    {
        struct tokenizer *t = open_model(MODELS, json_member(one, "name")->valuestring);
        const cJSON *text = json_member(all, "texts")->child;
        cJSON_ArrayForEach(row, json_member(one, "rows"))
        {
            assert_row(t, text->valuestring, row);
            text = text->next, n++;
        }
        tokenizer_close(t);
    }
    assert_int_equal(n, 4 * 40);
    cJSON_Delete(all);
    (void)state;
}

static void shared_model(void **state)
{
    char path[256];
    const cJSON *row;
    int n = 0;
    snprintf(path, sizeof path, SHARED "/%s.json", (const char *)*state);
    if (!file_exists(path)) {
        print_message("%s is not there\n", path);
        skip();
    }
    cJSON *rows = load(path);
    struct tokenizer *t = open_model(SHARED, *state);
    cJSON_ArrayForEach(row, rows)
    {
        assert_row(t, json_member(row, "text")->valuestring, row);
        n++;
    }
    assert_true(n > 50);
    tokenizer_close(t);
    cJSON_Delete(rows);
}

// ---- what the models' files say of themselves

static void control_pieces_are_text_but_for_a_chat(void **state)
{
    struct tokenizer *t = open_model(MODELS, "bpe");
    struct token_list ids = {0};
    const char template[] = "{{ bos_token + '[INST] ' + '<<SYS>>' + eos_token }}";
    assert_int_equal(tokenizer_bos(t), 1);
    assert_int_equal(tokenizer_token_id(t, "</s>"), 2);
    assert_true(tokenizer_encode(t, "<s>low", 6, false, &ids, NULL));
    for (int32_t i = 0; i < ids.n; i++)
        assert_int_not_equal(ids.id[i], 1);
    ids.n = 0;
    assert_true(chat_choose(t, (struct text){template, sizeof template - 1}, NULL));
    assert_true(chat_encode(t, &(struct chat_message){"user", "low"}, 1, &ids, NULL));
    assert_int_equal(ids.id[0], 1);
    assert_int_equal(tokenizer_token_id(t, "<s>"), 1);
    token_list_free(&ids);
    tokenizer_close(t);
    (void)state;
}

static void bytes_that_are_no_text_become_replacements(void **state)
{
    struct tokenizer *t = open_model(MODELS, "bpe");
    struct token_list ids = {0};
    char *text;
    size_t size;
    assert_true(tokenizer_encode(t, "low\xff\xc3low", 8, false, &ids, NULL));
    assert_true(tokenizer_decode(t, ids.id, ids.n, false, &text, &size, NULL));
    assert_string_equal(text, "low\xef\xbf\xbd\xef\xbf\xbdlow");
    free(text);
    token_list_free(&ids);
    tokenizer_close(t);
    (void)state;
}

// The stream waits for the bytes of a character, and drops the first space only at the start of a text.
static void streams_of_pieces(void **state)
{
    struct tokenizer *t = open_model(MODELS, "bpe");
    struct token_stream s = {.tokenizer = t}, inside = {.tokenizer = t, .begun = true};
    char out[64];
    int32_t byte[3] = {t->vocab.byte_id[0xe4], t->vocab.byte_id[0xb8], t->vocab.byte_id[0x96]};
    int32_t low = vocab_find(&t->vocab, (struct text){SPACE_MARK "low", 6});
    assert_true(low >= 0);
    assert_int_equal(token_stream_next(&s, low, out, 63), 3);
    assert_string_equal(out, "low");
    assert_int_equal(token_stream_next(&s, low, out, 63), 4);
    assert_string_equal(out, " low");
    assert_int_equal(token_stream_next(&inside, low, out, 63), 4);
    assert_int_equal(token_stream_next(&s, byte[0], out, 63), 0);
    assert_int_equal(token_stream_next(&s, byte[1], out, 63), 0);
    assert_int_equal(token_stream_next(&s, byte[2], out, 63), 3);
    assert_string_equal(out, "\xe4\xb8\x96");
    tokenizer_close(t);
    (void)state;
}

// ---- GGUF

static void put_array(struct bytes *b, const char *key, uint32_t type, uint64_t n)
{
    put_text(b, key);
    put_u32(b, 9);
    put_u32(b, type);
    put_u64(b, n);
}

#define M SPACE_MARK
static const struct {
    const char *text;
    float score;
    int32_t type;
} PIECE[] = {{"<unk>", 0, 2},  {"<s>", 0, 3},    {"</s>", 0, 3},  {M, -10, 1},   {"l", -11, 1},
             {"o", -12, 1},    {"w", -13, 1},    {M "l", -1, 1},  {"ow", -2, 1}, {"low", -3, 1},
             {M "low", -4, 1}, {"lo", -0.5f, 1}, {"<0x41>", 0, 6}};
enum { N_PIECES = sizeof PIECE / sizeof *PIECE };

static void put_vocabulary(struct bytes *b, const char *model)
{
    put_head(b, 3, 0, 6);
    put_string_value(b, "tokenizer.ggml.model", model);
    put_array(b, "tokenizer.ggml.tokens", 8, N_PIECES);
    for (int i = 0; i < N_PIECES; i++)
        put_text(b, PIECE[i].text);
    put_array(b, "tokenizer.ggml.scores", 6, N_PIECES);
    for (int i = 0; i < N_PIECES; i++)
        put(b, &PIECE[i].score, 4);
    put_array(b, "tokenizer.ggml.token_type", 5, N_PIECES);
    for (int i = 0; i < N_PIECES; i++)
        put(b, &PIECE[i].type, 4);
    put_u32_value(b, "tokenizer.ggml.bos_token_id", 1);
    put_u32_value(b, "tokenizer.ggml.eos_token_id", 2);
}

static void assert_encoded(const struct tokenizer *t, const char *text, const int32_t *expected, int32_t n)
{
    struct token_list ids = {0};
    assert_true(tokenizer_encode(t, text, strlen(text), true, &ids, NULL));
    assert_int_equal(ids.n, n);
    assert_memory_equal(ids.id, expected, (size_t)n * sizeof *expected);
    token_list_free(&ids);
}
#define IDS(...) (int32_t[]){__VA_ARGS__}, (int32_t)(sizeof(int32_t[]){__VA_ARGS__} / sizeof(int32_t))

// Worked out by hand: "lo" has the best score, so "low" comes from "lo" and "w".
static void pieces_from_gguf(void **state)
{
    static struct bytes b;
    struct tokenizer *t;
    struct error e = {0};
    put_vocabulary(&b, "llama");
    if (!tokenizer_from_gguf(&t, b.data, b.size, "x", &e))
        fail_msg("%s", e.message);
    assert_encoded(t, "low", IDS(1, 10));
    assert_encoded(t, "low low", IDS(1, 10, 10));
    assert_encoded(t, "ow", IDS(1, 3, 8));
    assert_encoded(t, "A", IDS(1, 3, 12));
    assert_encoded(t, "BC", IDS(1, 3, 0));      // no bytes for them, and one unknown token for both
    assert_encoded(t, "<s>low", IDS(1, 1, 10)); // a control token in the text; the prefix stands behind it
    tokenizer_close(t);
    put_vocabulary(&b, "t5");
    assert_true(tokenizer_from_gguf(&t, b.data, b.size, "x", &e));
    assert_encoded(t, "low", IDS(7, 8)); // -1 - 2, against -4
    tokenizer_close(t);
    put_vocabulary(&b, "bert");
    assert_false(tokenizer_from_gguf(&t, b.data, b.size, "x", &e));
    assert_non_null(strstr(e.message, "WordPiece"));
    (void)state;
}

// ---- damage

static void try_damaged(const char *bytes, size_t size)
{
    struct tokenizer *t;
    struct error e = {0};
    const char text[] = "low lowest <|u|> 123 \xe4\xb8\x96 \xef\xac\x81 \xff";
    bool opened = tokenizer_from_sentencepiece(&t, bytes, size, "x", &e);
    survive(opened ? t : NULL, &e, text, sizeof text - 1);
}

static void damaged_models_do_no_harm(void **state)
{
    struct file file;
    uint64_t rng = 6;
    assert_true(file_open(&file, MODELS "/unigram.model", NULL));
    char *bytes = malloc(file.size);
    memcpy(bytes, file.data, file.size);
    for (size_t n = 0; n < file.size; n += 1 + rng_next(&rng) % 13)
        try_damaged(bytes, n);
    for (int i = 0; i < 4000; i++) {
        size_t at = rng_next(&rng) % file.size;
        char old = bytes[at];
        bytes[at] ^= (char)(1 << rng_next(&rng) % 8);
        try_damaged(bytes, file.size);
        bytes[at] = old;
    }
    free(bytes);
    file_close(&file);
    (void)state;
}

static void refusals(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *message;
    } ROW[] = {
        {"", 0, "has no pieces"},
        {"\x0a", 1, "breaks off"},
        {"\x0a\x7f\x0a", 3, "breaks off"},
        {"\x0a\x0a\x0a\x01"
         "a\x15\x00\x00\x80\xbf\x18\x09",
         12, "no known type"},
        {"\x0a\x05\x0a\x01"
         "a\x18\x01\x12\x02\x18\x03",
         11, "model type 3"},
    };
    for (size_t i = 0; i < sizeof ROW / sizeof *ROW; i++) {
        struct tokenizer *t;
        struct error e = {0};
        assert_false(tokenizer_from_sentencepiece(&t, ROW[i].bytes, ROW[i].size, "x.model", &e));
        assert_null(t);
        if (!strstr(e.message, ROW[i].message) || !strstr(e.message, "x.model"))
            fail_msg("'%s', expected '%s'", e.message, ROW[i].message);
    }
    (void)state;
}

#define SHARED_MODEL(name)                                                                                                  \
    {                                                                                                                       \
        "shared_model_" name, shared_model, NULL, NULL, name                                                                \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_tokenizers_equal_the_reference),
        cmocka_unit_test(small_models_equal_the_reference),
        SHARED_MODEL("bpe"),
        SHARED_MODEL("unigram"),
        cmocka_unit_test(control_pieces_are_text_but_for_a_chat),
        cmocka_unit_test(bytes_that_are_no_text_become_replacements),
        cmocka_unit_test(streams_of_pieces),
        cmocka_unit_test(pieces_from_gguf),
        cmocka_unit_test(damaged_models_do_no_harm),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
