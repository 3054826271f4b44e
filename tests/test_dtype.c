// Conversions of data types against values of an independent implementation, and against hand-worked bits.
#include "engine/base/dtype.h"
#include "engine/base/json.h"
#include "tests/files.h"

#include <math.h>

static uint8_t hex_digit(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void check_block(enum dtype type, const cJSON *block)
{
    uint8_t bytes[256];
    float got[256];
    const char *hex = cJSON_GetStringValue(json_member(block, "hex"));
    const cJSON *values = json_member(block, "values"), *value;
    size_t n = (size_t)dtype_block(type), i = 0;
    assert_int_equal(strlen(hex), 2 * dtype_row_bytes(type, n));
    for (size_t k = 0; hex[2 * k]; k++)
        bytes[k] = (uint8_t)(hex_digit(hex[2 * k]) << 4 | hex_digit(hex[2 * k + 1]));
    assert_true(dtype_to_f32(type, bytes, got, n));
    assert_int_equal(cJSON_GetArraySize(values), n);
    cJSON_ArrayForEach(value, values)
    {
        assert_true(got[i] == (float)value->valuedouble);
        i++;
    }
}

static void test_quantized_blocks(void **state)
{
    (void)state;
    struct error e;
    cJSON *json;
    const cJSON *entry, *block;
    int n_types = 0;
    assert_true(json_load("tests/golden/gguf_blocks.json", &json, &e));
    cJSON_ArrayForEach(entry, json_member(json, "types"))
    {
        enum dtype type;
        const cJSON *blocks = json_member(entry, "blocks");
        assert_true(dtype_parse(entry->string, &type));
        assert_int_equal(cJSON_GetArraySize(blocks), 6);
        cJSON_ArrayForEach(block, blocks) check_block(type, block);
        n_types++;
    }
    assert_int_equal(n_types, 13); // every block format there is
    cJSON_Delete(json);
}

static void test_f16_all_values(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = f16_to_f32((uint16_t)h);
        if ((h & 0x7fff) > 0x7c00)
            assert_true(isnan(f) && isnan(f16_to_f32(f32_to_f16(f))));
        else
            assert_int_equal(f32_to_f16(f), h);
    }
    assert_true(f16_to_f32(0x3c00) == 1 && f16_to_f32(0xc000) == -2 && f16_to_f32(0x0001) == 0x1p-24f);
    assert_true(f16_to_f32(0x7bff) == 65504 && isinf(f16_to_f32(0x7c00)) && signbit(f16_to_f32(0x8000)));
}

static void test_f16_rounding(void **state)
{
    (void)state;
    static const struct {
        float in;
        uint16_t out;
    } CASE[] = {
        {1 + 0x1p-11f, 0x3c00},            // half way: to even, down
        {1 + 3 * 0x1p-11f, 0x3c02},        // half way: to even, up
        {1 + 0x1p-11f + 0x1p-20f, 0x3c01}, // above half way
        {65519, 0x7bff},
        {65520, 0x7c00},
        {1e30f, 0x7c00},
        {-1e30f, 0xfc00},
        {0x1p-25f, 0},                 // half of the smallest: to even
        {0x1p-25f * 1.01f, 0x0001},    // above half
        {0x1p-14f, 0x0400},            // smallest normal
        {0x1p-14f - 0x1p-26f, 0x0400}, // rounds up into it
        {-0.0f, 0x8000},
    };
    for (size_t i = 0; i < sizeof CASE / sizeof *CASE; i++)
        assert_int_equal(f32_to_f16(CASE[i].in), CASE[i].out);
}

static void test_bf16(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = bf16_to_f32((uint16_t)h);
        if ((h & 0x7fff) > 0x7f80)
            assert_true(isnan(f) && isnan(bf16_to_f32(f32_to_bf16(f))));
        else
            assert_int_equal(f32_to_bf16(f), h);
    }
    assert_int_equal(f32_to_bf16(1 + 0x1p-8f), 0x3f80);     // half way: to even, down
    assert_int_equal(f32_to_bf16(1 + 3 * 0x1p-8f), 0x3f82); // half way: to even, up
    assert_int_equal(f32_to_bf16(1 + 0x1p-8f + 0x1p-20f), 0x3f81);
    assert_int_equal(f32_to_bf16(3.4e38f), 0x7f80); // beyond the largest: infinity
}

static void test_int8_rows(void **state)
{
    (void)state;
    float in[128], out[128];
    uint8_t row[130];
    assert_int_equal(dtype_row_bytes(DTYPE_INT8, 128), 130);
    for (int i = 0; i < 128; i++)
        in[i] = (float)(i - 64) * 0.25f;
    assert_true(dtype_from_f32(DTYPE_INT8, in, row, 128) && dtype_to_f32(DTYPE_INT8, row, out, 128));
    for (int i = 0; i < 128; i++)
        assert_true(fabsf(out[i] - in[i]) <= 16.0f / 127 * 0.505f);
    memset(in, 0, sizeof in);
    assert_true(dtype_from_f32(DTYPE_INT8, in, row, 128) && dtype_to_f32(DTYPE_INT8, row, out, 128));
    assert_true(out[0] == 0 && out[127] == 0);
}

// What was dequantized is quantized back to the same values.
static void test_quantizing_is_stable(void **state)
{
    (void)state;
    static const enum dtype TYPE[] = {DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_INT8};
    for (int t = 0; t < 3; t++) {
        float in[64], once[64], twice[64];
        uint8_t row[128];
        for (int i = 0; i < 64; i++)
            in[i] = sinf((float)(i * i + 1));
        assert_true(dtype_from_f32(TYPE[t], in, row, 64) && dtype_to_f32(TYPE[t], row, once, 64));
        assert_true(dtype_from_f32(TYPE[t], once, row, 64) && dtype_to_f32(TYPE[t], row, twice, 64));
        for (int i = 0; i < 64; i++)
            assert_true(fabsf(once[i] - twice[i]) < 1e-3f && fabsf(once[i] - in[i]) < (t == 1 ? 0.13f : 0.006f));
    }
}

static void test_names_and_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum dtype type;
    } NAME[] = {{"bf16", DTYPE_BF16},   {"BFloat16", DTYPE_BF16}, {"float16", DTYPE_F16}, {"half", DTYPE_F16},
                {"float32", DTYPE_F32}, {"Q4_1", DTYPE_Q4_1},     {"fp8", DTYPE_FP8},     {"e4m3", DTYPE_FP8}};
    enum dtype type;
    for (size_t i = 0; i < sizeof NAME / sizeof *NAME; i++) {
        assert_true(dtype_parse(NAME[i].name, &type));
        assert_int_equal(type, NAME[i].type);
    }
    assert_false(dtype_parse("bf17", &type) || dtype_parse("", &type));
    assert_int_equal(dtype_row_bytes(DTYPE_Q8_0, 64), 68);
    assert_int_equal(dtype_row_bytes(DTYPE_Q4_0, 64), 36);
    assert_int_equal(dtype_row_bytes(DTYPE_Q4_1, 64), 40);
    assert_int_equal(dtype_row_bytes(DTYPE_Q6_K, 256), 210);
    assert_int_equal(dtype_row_bytes(DTYPE_BF16, 1u << 31), 1ull << 32);
    float x[32] = {0};
    assert_false(dtype_to_f32(DTYPE_FP8, x, x, 1) || dtype_from_f32(DTYPE_Q6_K, x, x, 32));
}

// Every code there and back, neighbours' midpoints to the even one, and what is beyond the largest.
static void test_e4m3(void **state)
{
    (void)state;
    assert_true(e4m3_to_f32(0x7e) == 448 && e4m3_to_f32(0x01) == 0x1p-9f && e4m3_to_f32(0x08) == 0x1p-6f &&
                e4m3_to_f32(0x38) == 1);
    for (int code = 0; code < 0x7f; code++)
        for (int sign = 0; sign <= 0x80; sign += 0x80) {
            float v = e4m3_to_f32((uint8_t)(code | sign));
            assert_int_equal(f32_to_e4m3(v), code | sign);
            if (code == 0x7e)
                continue;
            float middle = (v + e4m3_to_f32((uint8_t)((code + 1) | sign))) / 2;
            assert_int_equal(f32_to_e4m3(middle), (code + (code & 1)) | sign);
        }
    assert_true(isnan(e4m3_to_f32(0x7f)) && isnan(e4m3_to_f32(0xff)));
    assert_int_equal(f32_to_e4m3(1e9f), 0x7e);
    assert_int_equal(f32_to_e4m3(-INFINITY), 0xfe);
    assert_int_equal(f32_to_e4m3(NAN) & 0x7f, 0x7f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantized_blocks), cmocka_unit_test(test_f16_all_values),
        cmocka_unit_test(test_f16_rounding),     cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_int8_rows),        cmocka_unit_test(test_quantizing_is_stable),
        cmocka_unit_test(test_names_and_sizes),  cmocka_unit_test(test_e4m3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
