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

static cudaError_t captured(enum planted bug, const float *from, float *to)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaError_t e = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (!e)
        e = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (!e)
        e = planted_launch(bug, from, to, stream);
    if (!e)
        e = cudaStreamEndCapture(stream, &graph);
    if (!e)
        e = cudaGraphInstantiate(&exec, graph, 0);
    if (!e)
        e = cudaGraphLaunch(exec, stream);
    return e ? e : cudaStreamSynchronize(stream);
}

static cudaError_t launched(enum planted bug, const float *from, float *to)
{
    if (bug == PLANTED_COLD_CAPTURE)
        return captured(bug, from, to);
    cudaError_t e = planted_launch(bug, from, to, NULL);
    return e || bug != PLANTED_NOTHING ? e : captured(bug, from, to); // a kernel that has run may be captured
}

static int answer(enum planted bug)
{
    float in[PLANTED_N], out[PLANTED_N], *from, *to;
    for (int i = 0; i < PLANTED_N; i++)
        in[i] = (float)(i + 1);
    if (cudaMalloc((void **)&from, sizeof in) || cudaMalloc((void **)&to, sizeof out) ||
        cudaMemcpy(from, in, sizeof in, cudaMemcpyHostToDevice) || launched(bug, from, to) ||
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
                                                "split barrier", "unawaited copy", "misaligned",    "cold capture",
                                                "pipeline",      "short wait",     "early refill"};

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
        bool sound = bug == PLANTED_NOTHING || bug == PLANTED_PIPELINE;
        if (sound ? right != 3 : right == 3)
            fail_msg("'%s' was not %s", NAME[bug], sound ? "right" : "caught");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bugs_are_caught)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
