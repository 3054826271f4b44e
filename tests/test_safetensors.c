// The safetensors container: what the golden files hold, and every way a file can be wrong.
#include "engine/load/safetensors.h"
#include "tests/files.h"

// Parses data[size]. What is accepted can be read from the first byte to the last.
static bool parse(const uint8_t *data, size_t size, struct error *e)
{
    struct safetensors s;
    *e = (struct error){0};
    bool ok = safetensors_parse(&s, data, size, "x.safetensors", e);
    for (uint64_t i = 0; i < s.n_tensors; i++) {
        const volatile uint8_t *at = s.tensor[i].data;
        if (s.tensor[i].bytes)
            (void)(at[0] + at[s.tensor[i].bytes - 1]);
    }
    assert_true(ok || *e->message);
    safetensors_close(&s);
    return ok;
}

// A file with this header and n_data bytes of zeros.
static bool parse_header(const char *header, size_t n_data, struct error *e)
{
    uint8_t file[2048] = {0};
    uint64_t length = strlen(header);
    memcpy(file, &length, sizeof length);
    memcpy(file + sizeof length, header, length);
    return parse_exact(parse, file, sizeof length + length + n_data, e);
}

#define T(name, dtype, shape, begin, end)                                                                                   \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static void test_accepted(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t n_data;
    } CASE[] = {
        {"{}", 0},
        {"{\"__metadata__\":{\"format\":\"pt\"}}  ", 0},
        {"{" T("a", "F32", "[2,3]", "0", "24") "}", 24},
        {"{" T("a", "BF16", "[2,3]", "8", "20") "," T("b", "I64", "[]", "0", "8") "}", 20},
        {"{" T("a", "F16", "[0,3]", "4", "4") "," T("b", "F8_E4M3", "[2,2]", "0", "4") "}", 4},
    };
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        struct error e;
        if (!parse_header(CASE[i].header, CASE[i].n_data, &e))
            fail_msg("%s: %s", CASE[i].header, e.message);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t n_data;
        const char *part;
    } CASE[] = {
        {"[]", 0, "header is not an object"},
        {"{", 0, "not valid JSON"},
        {"", 0, "begins with nothing but zeros"},
        {"{\"a\":7}", 0, "tensor 'a' has no valid description"},
        {"{\"a\":{}}", 0, "tensor 'a' has no valid 'dtype'"},
        {"{\"a\":{\"dtype\":\"F32\"}}", 0, "tensor 'a' has no valid 'shape'"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "tensor 'a' has no valid 'data_offsets'"},
        {"{" T("a", "F32", "[-1]", "0", "4") "}", 4, "'shape'"},
        {"{" T("a", "F32", "[1.5]", "0", "4") "}", 4, "'shape'"},
        {"{" T("a", "F32", "[1e300]", "0", "4") "}", 4, "is too large"},
        {"{" T("a", "F32", "[\"1\"]", "0", "4") "}", 4, "'shape'"},
        {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "'shape'"},
        {"{" T("a", "F32", "[4294967296,4294967296]", "0", "4") "}", 4, "shape of tensor 'a' is too large"},
        {"{" T("a", "F32", "[4503599627370496,1024]", "0", "4") "}", 4, "shape of tensor 'a' is too large"},
        {"{" T("a", "F32", "[1]", "4", "0") "}", 4, "'data_offsets'"},
        {"{" T("a", "F32", "[1]", "-4", "0") "}", 4, "'data_offsets'"},
        {"{" T("a", "F32", "[1]", "0", "8") "}", 8, "has 8 bytes of data, but its shape needs 4"},
        {"{" T("a", "F32", "[2]", "0", "8") "}", 7, "reaches beyond the end of the file"},
        {"{" T("a", "F32", "[1]", "9007199254740988", "9007199254740992") "}", 4, "reaches beyond the end"},
        {"{" T("a", "F32", "[1]", "0", "4") "}", 8, "fill 4 of 8 bytes"},
        {"{" T("a", "F32", "[1]", "0", "4") "," T("b", "F32", "[1]", "2", "6") "}", 6, "overlap"},
        {"{" T("a", "F32", "[1]", "0", "4") "," T("a", "F32", "[1]", "4", "8") "}", 8, "tensor 'a' is there twice"},
    };
    struct error e;
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        if (parse_header(CASE[i].header, CASE[i].n_data, &e))
            fail_msg("accepted: %s", CASE[i].header);
        assert_error(&e, ERROR_FILE, CASE[i].part);
    }
    assert_false(parse_header("{" T("a", "F4", "[1]", "0", "1") "}", 1, &e));
    assert_error(&e, ERROR_UNSUPPORTED, "dtype 'F4', which this reader does not know");
}

static void test_header_lengths(void **state)
{
    (void)state;
    static const uint64_t LENGTH[] = {3, 100, (100 << 20) + 1, UINT32_MAX, 1ull << 63, UINT64_MAX, UINT64_MAX - 7};
    struct error e;
    uint8_t file[10] = {0};
    for (size_t i = 0; i < sizeof LENGTH / sizeof *LENGTH; i++) {
        memcpy(file, &LENGTH[i], 8);
        assert_false(parse_exact(parse, file, sizeof file, &e));
        assert_error(&e, ERROR_FILE, "a header of ");
    }
    for (size_t n = 0; n < 8; n++) {
        assert_false(parse_exact(parse, file, n, &e));
        assert_error(&e, ERROR_FILE, n ? "are no safetensors file" : "is empty");
    }
}

static void test_golden(void **state)
{
    (void)state;
    struct safetensors s;
    struct error e = {0};
    assert_true(safetensors_open(&s, "tests/golden/llama-bf16/model.safetensors", &e));
    const struct stored_tensor *t = stored_find(s.tensor, s.n_tensors, "model.layers.2.mlp.down_proj.weight");
    assert_true(t && t->n_dims == 2 && t->dim[0] == 64 && t->dim[1] == 160 && t->dtype == DTYPE_BF16);
    assert_null(stored_find(s.tensor, s.n_tensors, "model.layers.3.mlp.down_proj.weight"));
    safetensors_close(&s);
}

static void test_truncated_everywhere(void **state)
{
    (void)state;
    size_t size;
    struct error e;
    uint8_t *data = slurp("tests/golden/llama-bf16/model.safetensors", &size);
    for (size_t n = 0; n < size; n += n < 4000 ? 13 : 4999) {
        assert_false(parse_exact(parse, data, n, &e));
        assert_int_equal(e.kind, ERROR_FILE);
    }
    assert_false(parse_exact(parse, data, size - 1, &e));
    assert_error(&e, ERROR_FILE, "reaches beyond the end of the file");
    free(data);
}

static void test_spoiled_everywhere(void **state)
{
    (void)state;
    size_t size;
    struct error e;
    uint8_t *data = slurp("tests/golden/llama-bf16/model.safetensors", &size);
    int refused = 0;
    for (size_t i = 0; i < 3500; i++) {
        uint8_t old = data[i];
        data[i] ^= (uint8_t)(1u << i % 8);
        refused += !parse(data, size, &e);
        data[i] = old;
    }
    assert_true(refused > 1000);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_header_lengths),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_truncated_everywhere),
        cmocka_unit_test(test_spoiled_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
