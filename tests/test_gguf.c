// The GGUF container: what the golden files hold, every getter, and every way a file can be wrong.
#include "engine/load/gguf.h"
#include "tests/files.h"
#include "tests/gguf_writer.h"

static struct bytes file;

// Parses data[size]. What is accepted can be read from the first byte to the last.
static bool parse(const uint8_t *data, size_t size, struct error *e)
{
    struct gguf g;
    *e = (struct error){0};
    bool ok = gguf_parse(&g, data, size, "x.gguf", e);
    for (uint64_t i = 0; i < g.n_tensors; i++) {
        const volatile uint8_t *at = g.tensor[i].data;
        if (g.tensor[i].bytes)
            (void)(at[0] + at[g.tensor[i].bytes - 1]);
    }
    assert_true(ok || *e->message);
    gguf_close(&g);
    return ok;
}

static void must_refuse(enum error_kind kind, const char *part)
{
    struct error e;
    assert_false(parse_exact(parse, file.data, file.size, &e));
    assert_error(&e, kind, part);
}

static void must_accept(void)
{
    struct error e;
    if (!parse_exact(parse, file.data, file.size, &e))
        fail_msg("%s", e.message);
}

static void test_golden(void **state)
{
    (void)state;
    struct gguf g;
    struct error e = {0};
    struct text name = {"", 0}, *tokens, *merges;
    int32_t layers = -1, missing = 7, n, n_types, *types;
    bool add_bos = true;
    float eps = 0;
    assert_true(gguf_open(&g, "tests/golden/gguf/qwen2-f16.gguf", &e));
    assert_true(gguf_string(&g, "general.architecture", &name, &e));
    assert_true(name.size == 5 && !memcmp(name.data, "qwen2", 5));
    assert_true(gguf_i32(&g, "qwen2.block_count", &layers, &e) && layers == 3);
    assert_true(gguf_i32(&g, "no.such.key", &missing, &e) && missing == 7);
    assert_true(gguf_f32(&g, "qwen2.attention.layer_norm_rms_epsilon", &eps, &e) && eps == 1e-6f);
    assert_true(gguf_bool(&g, "tokenizer.ggml.add_bos_token", &add_bos, &e) && !add_bos);
    assert_true(gguf_strings(&g, "tokenizer.ggml.tokens", &tokens, &n, &e) && n == 320);
    assert_true(gguf_strings(&g, "no.such.key", &merges, &n, &e) && n == 0 && !merges);
    assert_true(gguf_i32s(&g, "tokenizer.ggml.token_type", &types, &n_types, &e) && n_types == 320);
    const struct stored_tensor *t = stored_find(g.tensor, g.n_tensors, "blk.1.ffn_down.weight");
    assert_true(t && t->n_dims == 2 && t->dim[0] == 64 && t->dim[1] == 160 && t->bytes == 64 * 160 * 2);
    assert_string_equal(t->type, "F16");
    assert_null(stored_find(g.tensor, g.n_tensors, "blk.1.ffn_down"));
    free(tokens);
    free(types);
    gguf_close(&g);
}

static void test_getters_refuse_other_types(void **state)
{
    (void)state;
    struct gguf g;
    struct error e = {0};
    struct text text, *texts;
    int32_t i, n, *is;
    float f, *fs;
    bool b;
    assert_true(gguf_open(&g, "tests/golden/gguf/qwen2-f16.gguf", &e));
    assert_false(gguf_string(&g, "qwen2.block_count", &text, &e));
    assert_error(&e, ERROR_FILE, "'qwen2.block_count' is u32, expected a string");
    assert_false(gguf_i32(&g, "general.architecture", &i, &e));
    assert_error(&e, ERROR_FILE, "is string, expected an integer");
    assert_false(gguf_i32(&g, "tokenizer.ggml.token_type", &i, &e));
    assert_error(&e, ERROR_FILE, "is an array of i32, expected an integer");
    assert_false(gguf_f32(&g, "qwen2.block_count", &f, &e));
    assert_false(gguf_bool(&g, "qwen2.block_count", &b, &e));
    assert_false(gguf_strings(&g, "tokenizer.ggml.token_type", &texts, &n, &e));
    assert_true(!texts && n == 0);
    assert_false(gguf_i32s(&g, "tokenizer.ggml.tokens", &is, &n, &e));
    assert_false(gguf_f32s(&g, "tokenizer.ggml.tokens", &fs, &n, &e));
    assert_false(gguf_i32s(&g, "qwen2.block_count", &is, &n, &e));
    assert_error(&e, ERROR_FILE, "expected an array");
    gguf_close(&g);
}

static void put_array(const char *key, uint32_t type, uint64_t n)
{
    put_text(&file, key);
    put_u32(&file, 9);
    put_u32(&file, type);
    put_u64(&file, n);
}

static void test_all_value_types(void **state)
{
    (void)state;
    static const uint32_t TYPE[] = {0, 1, 2, 3, 4, 5, 10, 11};
    static const uint32_t SIZE[] = {1, 1, 2, 2, 4, 4, 8, 8};
    static const char *const KEY[] = {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"};
    struct gguf g;
    struct error e = {0};
    uint64_t minus = UINT64_MAX, plus = 5;
    double wide = 2.5;
    put_head(&file, 3, 0, 11);
    for (int i = 0; i < 8; i++) {
        put_text(&file, KEY[i]);
        put_u32(&file, TYPE[i]);
        put(&file, i % 2 ? &minus : &plus, SIZE[i]); // signed: -1; unsigned: 5
    }
    put_text(&file, "f64");
    put_u32(&file, 12);
    put(&file, &wide, 8);
    put_array("f32s", 6, 2);
    put_zeros(&file, 8);
    put_text(&file, "huge");
    put_u32(&file, 10);
    put_u64(&file, UINT64_MAX);
    assert_true(gguf_parse(&g, file.data, file.size, "x.gguf", &e));
    for (int i = 0; i < 8; i++) {
        int32_t v = 0;
        assert_true(gguf_i32(&g, KEY[i], &v, &e));
        assert_int_equal(v, i % 2 ? -1 : 5);
    }
    float f = 0, *fs;
    int32_t n, v = 0;
    assert_true(gguf_f32(&g, "f64", &f, &e) && f == 2.5f);
    assert_true(gguf_f32s(&g, "f32s", &fs, &n, &e) && n == 2 && fs[1] == 0);
    assert_false(gguf_i32(&g, "huge", &v, &e));
    assert_error(&e, ERROR_FILE, "expected an integer of 32 bits");
    free(fs);
    gguf_close(&g);
}

static void test_heads(void **state)
{
    (void)state;
    file.size = 0;
    must_refuse(ERROR_FILE, "'x.gguf' is empty, not a GGUF file (a failed download?)");
    put(&file, "GGUX", 4);
    put_zeros(&file, 20);
    must_refuse(ERROR_FILE, "not a GGUF file");
    put_head(&file, 1, 0, 0);
    must_refuse(ERROR_UNSUPPORTED, "GGUF version 1, expected 2 or 3");
    put_head(&file, 4, 0, 0);
    must_refuse(ERROR_UNSUPPORTED, "GGUF version 4");
    put_head(&file, 0, 0, 0);
    must_refuse(ERROR_UNSUPPORTED, "GGUF version 0");
    put_head(&file, 3u << 24, 0, 0);
    must_refuse(ERROR_UNSUPPORTED, "big-endian");
    put_head(&file, 2, 0, 0);
    must_accept();
    put_head(&file, 3, UINT64_MAX, 0);
    must_refuse(ERROR_FILE, "ends within its tensor list");
    put_head(&file, 3, 0, UINT64_MAX);
    must_refuse(ERROR_FILE, "ends within its metadata");
    put_head(&file, 3, 1ull << 63, 1ull << 63);
    must_refuse(ERROR_FILE, "ends within its metadata");
}

static void test_bad_metadata(void **state)
{
    (void)state;
    put_head(&file, 3, 0, 1);
    put_text(&file, "key");
    put_u32(&file, 13);
    put_zeros(&file, 64);
    must_refuse(ERROR_FILE, "metadata 'key' has type 13");
    put_head(&file, 3, 0, 1);
    put_array("key", 9, 1); // an array of arrays
    put_zeros(&file, 64);
    must_refuse(ERROR_FILE, "metadata 'key' has type 9 of 9");
    put_head(&file, 3, 0, 1);
    put_array("key", 4, UINT64_MAX / 2); // n * 4 overflows
    put_zeros(&file, 64);
    must_refuse(ERROR_FILE, "ends within its metadata");
    put_head(&file, 3, 0, 1);
    put_array("key", 8, 1ull << 40); // strings without end
    put_zeros(&file, 64);
    must_refuse(ERROR_FILE, "ends within its metadata");
    put_head(&file, 3, 0, 1);
    put_u64(&file, UINT64_MAX - 8); // a key longer than memory
    put_zeros(&file, 64);
    must_refuse(ERROR_FILE, "ends within its metadata");
    put_head(&file, 3, 0, 2);
    put_u32_value(&file, "twice", 1);
    put_u32_value(&file, "twice", 2);
    must_refuse(ERROR_FILE, "metadata 'twice' is there twice");
    for (uint32_t alignment = 0; alignment < 8; alignment++) {
        put_head(&file, 3, 0, 1);
        put_u32_value(&file, "general.alignment", alignment);
        must_refuse(ERROR_FILE, "'general.alignment' is");
    }
}

// A file with two tensors: the first of `type` [dim0, dim1] at offset, the second 32 bytes of F32 at offset 0.
static void two_tensors(uint64_t dim0, uint64_t dim1, uint32_t type, uint64_t offset)
{
    put_head(&file, 3, 2, 0);
    put_tensor(&file, "a", dim0, dim1, type, offset);
    put_tensor(&file, "b", 8, 0, 0, 0);
    put_padding(&file, 32);
    put_zeros(&file, 128);
}

static void test_bad_tensors(void **state)
{
    (void)state;
    two_tensors(4, 6, 0, 32); // 96 bytes: exactly to the end
    must_accept();
    two_tensors(4, 7, 0, 32);
    must_refuse(ERROR_FILE, "tensor 'a' reaches beyond the end of the file");
    two_tensors(4, 6, 0, 40);
    must_refuse(ERROR_FILE, "tensor 'a' is not aligned to 32 bytes");
    two_tensors(4, 6, 0, 0);
    must_refuse(ERROR_FILE, "the data of tensors '");
    two_tensors(4, 6, 0, UINT64_MAX - 31);
    must_refuse(ERROR_FILE, "reaches beyond the end of the file");
    two_tensors(1ull << 33, 1ull << 33, 0, 32);
    must_refuse(ERROR_FILE, "tensor 'a' is said to have 7.3787e+19 values");
    two_tensors(1ull << 31, 1ull << 31, 0, 32);
    must_refuse(ERROR_FILE, "tensor 'a' ");
    two_tensors(33, 1, 8, 32);
    must_refuse(ERROR_FILE, "tensor 'a' has a shape that Q8_0 cannot store");
    two_tensors(4, 1, 99, 32);
    must_refuse(ERROR_UNSUPPORTED, "tensor 'a' has type number 99,");
    two_tensors(4, 1, UINT32_MAX, 32);
    must_refuse(ERROR_UNSUPPORTED, "type number 4294967295");
    two_tensors(256, 0, 15, 32); // Q8_K: walked, though nothing computes with it
    must_refuse(ERROR_FILE, "reaches beyond the end");
    put_head(&file, 3, 2, 0);
    put_tensor(&file, "same", 8, 0, 0, 0);
    put_tensor(&file, "same", 8, 0, 0, 32);
    put_padding(&file, 32);
    put_zeros(&file, 64);
    must_refuse(ERROR_FILE, "tensor 'same' is there twice");
    for (uint32_t n_dims = 0; n_dims < 6; n_dims += 5) {
        put_head(&file, 3, 1, 0);
        put_text(&file, "a");
        put_u32(&file, n_dims);
        put_zeros(&file, 128);
        must_refuse(ERROR_FILE, "dimensions, expected 1 to 4");
    }
    put_head(&file, 3, 1, 0);
    put_tensor(&file, "bad\n\033name\xff", 33, 0, 8, 0);
    put_zeros(&file, 128);
    must_refuse(ERROR_FILE, "tensor 'bad??name?' has a shape");
}

// Cut anywhere in its directory, or by one byte at its end, a file is refused.
static void test_truncated_everywhere(void **state)
{
    (void)state;
    size_t size;
    struct error e;
    uint8_t *data = slurp("tests/golden/gguf/llama-mqa-q4_0.gguf", &size);
    assert_true(parse_exact(parse, data, size, &e));
    for (size_t n = 0; n < size; n += n < 12000 ? 1 : 997) {
        assert_false(parse_exact(parse, data, n, &e));
        assert_int_equal(e.kind, ERROR_FILE);
    }
    assert_false(parse_exact(parse, data, size - 32, &e));
    assert_error(&e, ERROR_FILE, "reaches beyond the end of the file");
    free(data);
}

// Any byte of the directory spoiled: refused or accepted, but nothing outside the file is touched.
static void test_spoiled_everywhere(void **state)
{
    (void)state;
    size_t size;
    struct error e;
    uint8_t *data = slurp("tests/golden/gguf/llama-mqa-q4_0.gguf", &size);
    int refused = 0;
    for (size_t i = 0; i < 12000; i++) {
        uint8_t old = data[i];
        static const uint8_t FLIP[] = {0x01, 0x80, 0xff};
        for (int k = 0; k < 3; k++) {
            data[i] = old ^ FLIP[k];
            refused += !parse(data, size, &e);
        }
        data[i] = old;
    }
    assert_true(refused > 1000);
    free(data);
}

static void test_no_file(void **state)
{
    (void)state;
    struct gguf g;
    struct error e = {0};
    char folder[64], path[256];
    scratch_make(folder);
    assert_false(gguf_open(&g, scratch_path(folder, "none.gguf", path), &e));
    assert_error(&e, ERROR_FILE, "none.gguf': No such file");
    assert_false(gguf_open(&g, folder, &e));
    assert_error(&e, ERROR_FILE, "is a directory");
    scratch_text(folder, "empty.gguf", "");
    assert_false(gguf_open(&g, scratch_path(folder, "empty.gguf", path), &e));
    assert_error(&e, ERROR_FILE, "not a GGUF file");
    scratch_remove(folder, "empty.gguf", NULL);
    gguf_close(&g); // zeroed
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_getters_refuse_other_types),
        cmocka_unit_test(test_all_value_types),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_bad_metadata),
        cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_truncated_everywhere),
        cmocka_unit_test(test_spoiled_everywhere),
        cmocka_unit_test(test_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
