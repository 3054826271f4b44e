// A made-up /proc and /sys below a folder of its own.
#ifndef TESTS_TREE_H
#define TESTS_TREE_H

#include "bench/output_file.h"
#include "tests/files.h"

#include <ftw.h>

static inline void tree_file(const char *root, const char *path, const char *text)
{
    char whole[512], folder[512];
    struct error e = {0};
    snprintf(whole, sizeof whole, "%s%s", root, path);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(whole, '/') - whole), whole);
    if (!make_folder(folder, &e))
        fail_msg("%s", e.message);
    FILE *f = fopen(whole, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static inline int tree_remove_one(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st, (void)type, (void)walk;
    return remove(path);
}

static inline void tree_remove(const char *root)
{
    assert_int_equal(nftw(root, tree_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

// As setup and teardown of a test: *state is a new folder below /tmp, gone with all that is in it afterwards.
static inline int tree_setup(void **state)
{
    char *folder = strdup("/tmp/kvbench-test-XXXXXX");
    *state = folder && mkdtemp(folder) ? folder : NULL;
    return !*state;
}

static inline int tree_teardown(void **state)
{
    tree_remove(*state);
    free(*state);
    return 0;
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, tree_setup, tree_teardown)

#endif
