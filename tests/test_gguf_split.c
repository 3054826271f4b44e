// Models cut into several GGUF files: any part opens all, and what does not belong together is refused.
#include "engine/load/files.h"
#include "tests/files.h"
#include "tests/gguf_writer.h"

static struct bytes file; // too large for the stack of a test

// Part `number` of `count` (as it says itself) with one tensor of four values, all of them `value`.
static void write_part(const char *folder, const char *name, uint32_t number, uint32_t count, uint32_t total,
                       const char *tensor, float value)
{
    put_head(&file, 3, 1, 3);
    put_u32_value(&file, "split.no", number);
    put_u32_value(&file, "split.count", count);
    put_u32_value(&file, "split.tensors.count", total);
    put_tensor(&file, tensor, 4, 0, 0, 0);
    put_padding(&file, 32);
    for (int i = 0; i < 4; i++)
        put(&file, &value, sizeof value);
    scratch_write(folder, name, file.data, file.size);
}

static const char *const NAME[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"};

static void write_three(char folder[64])
{
    scratch_make(folder);
    write_part(folder, NAME[0], 0, 3, 3, "b", 1);
    write_part(folder, NAME[1], 1, 3, 3, "c", 2);
    write_part(folder, NAME[2], 2, 3, 3, "a", 3);
}

static void refuse(const char *folder, const char *name, enum error_kind kind, const char *part)
{
    struct model_files f = {0};
    struct error e = {0};
    char path[256];
    assert_false(gguf_open_parts(&f, scratch_path(folder, name, path), &e));
    assert_error(&e, kind, part);
    model_files_free(&f);
}

static void test_any_part_opens_all(void **state)
{
    (void)state;
    char folder[64], path[256];
    write_three(folder);
    for (int i = 0; i < 3; i++) {
        struct model_files f = {0};
        struct error e = {0};
        if (!gguf_open_parts(&f, scratch_path(folder, NAME[i], path), &e))
            fail_msg("%s", e.message);
        assert_int_equal(f.gguf.n_tensors, 3);
        assert_int_equal(f.n_parts, 2);
        for (int k = 0; k < 3; k++) {
            const struct stored_tensor *t = stored_find(f.gguf.tensor, 3, (const char *[]){"b", "c", "a"}[k]);
            assert_non_null(t);
            assert_true(((const float *)t->data)[3] == (float)(k + 1));
        }
        model_files_free(&f);
    }
    scratch_remove(folder, NAME[0], NAME[1], NAME[2], NULL);
}

static void test_parts_that_do_not_belong_together(void **state)
{
    (void)state;
    char folder[64], path[256];
    write_three(folder);
    write_part(folder, NAME[1], 2, 3, 3, "c", 2);
    refuse(folder, NAME[0], ERROR_FILE, "m-00002-of-00003.gguf' says that it is part 3 of 3");
    write_part(folder, NAME[1], 1, 4, 3, "c", 2);
    refuse(folder, NAME[2], ERROR_FILE, "says that it is part 2 of 4");
    write_part(folder, NAME[1], 1, 3, 3, "b", 2);
    refuse(folder, NAME[0], ERROR_FILE, "tensor 'b' is there twice");
    write_part(folder, NAME[1], 1, 3, 3, "c", 2);
    write_part(folder, NAME[0], 0, 3, 4, "b", 2);
    refuse(folder, NAME[0], ERROR_FILE, "the parts have 3 tensors, expected 4");
    unlink(scratch_path(folder, NAME[1], path));
    refuse(folder, NAME[2], ERROR_FILE, "m-00002-of-00003.gguf': part 2 of 3 is missing");
    unlink(scratch_path(folder, NAME[0], path));
    refuse(folder, NAME[2], ERROR_FILE, "m-00001-of-00003.gguf': part 1 of 3 is missing");
    write_part(folder, "renamed.gguf", 1, 3, 3, "b", 1);
    refuse(folder, "renamed.gguf", ERROR_FILE,
           "is part 2 of 3 of a model, expected a name that ends in -00002-of-00003.gguf");
    scratch_remove(folder, NAME[2], "renamed.gguf", NULL);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const PLAIN[] = {"m.gguf",
                                        "00001-of-00003.gguf",
                                        "m-00001-of-00003.ggufx",
                                        "m-00004-of-00003.gguf",
                                        "m-00000-of-00003.gguf",
                                        "m-0001-of-00003.gguf",
                                        "m-    1-of-00003.gguf",
                                        "m--0001-of-00003.gguf",
                                        ""};
    char out[64];
    int32_t n;
    assert_true(gguf_part_path("x/m-00002-of-00010.gguf", 7, out, sizeof out, &n));
    assert_string_equal(out, "x/m-00007-of-00010.gguf");
    assert_int_equal(n, 10);
    assert_false(gguf_part_path("x/m-00002-of-00010.gguf", 7, out, 20, &n)); // no room
    for (size_t i = 0; i < sizeof PLAIN / sizeof *PLAIN; i++)
        if (gguf_part_path(PLAIN[i], 1, out, sizeof out, &n))
            fail_msg("taken for a part: '%s'", PLAIN[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_part_opens_all),
        cmocka_unit_test(test_parts_that_do_not_belong_together),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
