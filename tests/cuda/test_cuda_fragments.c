// Which lane and register hold which element of a matrix, by the formulas of the PTX ISA ("Matrix Fragments for
// mma.m16n8k16", ldmatrix), written down anew here: what kernels and emulator both rest on. Run on a device, by gpu_check.
#include "engine/base/dtype.h"
#include "tests/cuda/fragments.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda/device_data.h"

enum { LANES = 32, M = 16, N = 8, K = 16 };

static void fetch(void *host, void *from, size_t bytes)
{
    ok(cudaDeviceSynchronize());
    ok(cudaMemcpy(host, from, bytes, cudaMemcpyDeviceToHost));
    ok(cudaFree(from));
}

// Element i of a lane's fragment, a0 .. a7, b0 .. b3 and c0 .. c3.
static int a_row(int lane, int i)
{
    return (lane >> 2) + (i < 2 || (4 <= i && i < 6) ? 0 : 8);
}
static int a_column(int lane, int i)
{
    return lane % 4 * 2 + (i & 1) + (i < 4 ? 0 : 8);
}
static int b_row(int lane, int i)
{
    return lane % 4 * 2 + (i & 1) + (i < 2 ? 0 : 8);
}
static int b_column(int lane, int i)
{
    (void)i;
    return lane >> 2;
}
static int c_row(int lane, int i)
{
    return (lane >> 2) + (i < 2 ? 0 : 8);
}
static int c_column(int lane, int i)
{
    return lane % 4 * 2 + (i & 1);
}

// Small integers, of which no two rows and no two columns have the same: products and sums are exact.
static float a_at(int m, int k)
{
    return (float)((m * 7 + k * 3) % 17 - 8);
}
static float b_at(int k, int n)
{
    return (float)((k * 5 + n * 11) % 19 - 9);
}
static float c_at(int m, int n)
{
    return (float)(m * 8 + n);
}

static void test_mma(void **state)
{
    (void)state;
    uint16_t a[LANES][8], b[LANES][4];
    float c[LANES][4], d[LANES][4];
    for (int lane = 0; lane < LANES; lane++) {
        for (int i = 0; i < 8; i++)
            a[lane][i] = f32_to_bf16(a_at(a_row(lane, i), a_column(lane, i)));
        for (int i = 0; i < 4; i++) {
            b[lane][i] = f32_to_bf16(b_at(b_row(lane, i), b_column(lane, i)));
            c[lane][i] = c_at(c_row(lane, i), c_column(lane, i));
        }
    }
    void *on_device[] = {device_copy(a, sizeof a), device_copy(b, sizeof b), device_copy(c, sizeof c),
                         device_copy(NULL, sizeof d)};
    ok(fragments_mma(on_device[0], on_device[1], on_device[2], on_device[3], NULL));
    fetch(d, on_device[3], sizeof d);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < 4; i++) {
            int m = c_row(lane, i), n = c_column(lane, i);
            float expected = c_at(m, n);
            for (int k = 0; k < K; k++)
                expected += a_at(m, k) * b_at(k, n);
            if (d[lane][i] != expected)
                fail_msg("lane %d, d%d: %g, expected %g", lane, i, (double)d[lane][i], (double)expected);
        }
    for (int i = 0; i < 3; i++)
        ok(cudaFree(on_device[i]));
}

// Register r of a lane: elements 2 (lane % 4) and the next of row lane / 4 of matrix r, or of its column when transposed;
// the first in the low half.
static void test_ldmatrix(void **state)
{
    (void)state;
    uint16_t m[4][8][8], got[LANES][4][2];
    for (int i = 0; i < 4 * 8 * 8; i++)
        m[i / 64][i / 8 % 8][i % 8] = (uint16_t)(1000 + i);
    for (int transposed = 0; transposed < 2; transposed++) {
        void *from = device_copy(m, sizeof m), *to = device_copy(NULL, sizeof got);
        ok(fragments_load(from, transposed, to, NULL));
        fetch(got, to, sizeof got);
        ok(cudaFree(from));
        for (int lane = 0; lane < LANES; lane++)
            for (int r = 0; r < 4; r++)
                for (int h = 0; h < 2; h++) {
                    int at = lane % 4 * 2 + h;
                    assert_int_equal(got[lane][r][h], transposed ? m[r][at][lane / 4] : m[r][lane / 4][at]);
                }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mma), cmocka_unit_test(test_ldmatrix)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
