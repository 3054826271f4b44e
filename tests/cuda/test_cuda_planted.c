// The emulator's negative controls: each planted bug must end the program or change the answer, the right kernel must not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/cuda/planted.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RIGHT, WRONG, REFUSED };

static int answer(enum planted bug)
{
    float in[PLANTED_N], out[PLANTED_N], *from, *to;
    for (int i = 0; i < PLANTED_N; i++)
        in[i] = (float)(i + 1);
    if (cudaMalloc((void **)&from, sizeof in) || cudaMalloc((void **)&to, sizeof out) ||
        cudaMemcpy(from, in, sizeof in, cudaMemcpyHostToDevice) || planted_launch(bug, from, to, NULL) ||
        cudaMemcpy(out, to, sizeof out, cudaMemcpyDeviceToHost))
        return REFUSED;
    int right = RIGHT;
    for (int i = 0; i < PLANTED_N; i++)
        if (out[i] != in[PLANTED_N - 1 - i])
            right = WRONG;
    cudaFree(from), cudaFree(to);
    return right;
}

// In a process of its own, since most bugs end it.
static bool is_right(enum planted bug)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        for (int i = 1; i < NSIG; i++)
            signal(i, SIG_DFL); // not cmocka's
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(REFUSED);
        _exit(answer(bug));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == RIGHT;
}

static const char *const NAME[PLANTED_COUNT] = {"nothing",       "no barrier",     "out of bounds", "wrong mask",
                                                "split barrier", "unawaited copy", "misaligned"};

// Each bug in one order of threads at least: half a block that does not wait is late in one, early in the other.
static void test_bugs_are_caught(void **state)
{
    (void)state;
    static const char *const ORDER[] = {"fwd", "rev", "rand:1"};
    for (int bug = 0; bug < PLANTED_COUNT; bug++) {
        int right = 0;
        for (int o = 0; o < 3; o++) {
            setenv("KVEMU_ORDER", ORDER[o], 1);
            right += is_right((enum planted)bug);
        }
        if (bug == PLANTED_NOTHING ? right != 3 : right == 3)
            fail_msg("'%s' was not %s", NAME[bug], bug ? "caught" : "right");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bugs_are_caught)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
