// Records of kernels to times of spans: buffers made here are walked by CUPTI's own reader, which needs no device.
#include "engine/cuda/activity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static _Alignas(8) uint8_t buffer[8192];
static size_t used;
static struct activity activity;

static void add(const void *record, size_t bytes)
{
    memcpy(buffer + used, record, bytes);
    used += bytes;
}

static void add_kernel(uint64_t begin, uint64_t end, uint32_t correlation, uint64_t node)
{
    const CUpti_ActivityKernel10 k = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                      .start = begin,
                                      .end = end,
                                      .correlationId = correlation,
                                      .graphNodeId = node,
                                      .name = "kernel"};
    add(&k, sizeof k);
}

static void add_correlation(uint32_t correlation, uint64_t span)
{
    const CUpti_ActivityExternalCorrelation x = {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                                 .externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
                                                 .externalId = span,
                                                 .correlationId = correlation};
    add(&x, sizeof x);
}

static int begin(void **state)
{
    (void)state;
    struct error e = {0};
    used = 0;
    memset(buffer, 0, sizeof buffer);
    activity = (struct activity){.span = -1, .zero_ns = 1000, .cupti = cupti_load(&e)};
    if (!activity.cupti)
        print_message("skipped: %s\n", e.message);
    return 0;
}

static int end(void **state)
{
    (void)state;
    activity_close(&activity);
    return 0;
}

static void parse(void)
{
    struct error e = {0};
    if (!activity.cupti)
        skip();
    if (!activity_parse(&activity, buffer, used, &e))
        fail_msg("%s", e.message);
}

static void test_launches(void **state)
{
    (void)state;
    struct activity_time t[3];
    struct error e = {0};
    add_kernel(1700, 1900, 9, 0); // records come in any order
    add_correlation(9, 2);
    add_correlation(7, 0);
    add_kernel(1100, 1200, 7, 0);
    add_correlation(8, 0); // a second kernel of the first span
    add_kernel(1250, 1300, 8, 0);
    parse();
    assert_int_equal(activity.n_kernels, 3);
    assert_true(activity_join(&activity, 3, t, &e));
    assert_true(t[0].begin_ns == 100 && t[0].end_ns == 300);
    assert_true(t[1].begin_ns == UINT64_MAX);
    assert_true(t[2].begin_ns == 700 && t[2].end_ns == 900);
}

// All kernels of a graph share the correlation of its launch; what runs are copies of the nodes that were captured.
static void test_graph(void **state)
{
    (void)state;
    struct activity_time t[2];
    struct error e = {0};
    assert_true(activity_note_node(&activity, 51, 0) && activity_note_node(&activity, 52, 1));
    assert_true(activity_note_node(&activity, 53, 1));
    assert_true(activity_clone_node(&activity, 103, 53) && activity_clone_node(&activity, 101, 51));
    assert_true(activity_clone_node(&activity, 102, 52));
    assert_true(activity_clone_node(&activity, 900, 800)); // another graph's
    assert_int_equal(activity.n_nodes, 6);
    add_kernel(2000, 2100, 5, 101);
    add_kernel(2200, 2300, 5, 102);
    add_kernel(2310, 2400, 5, 103);
    parse();
    assert_true(activity_join(&activity, 2, t, &e));
    assert_true(t[0].begin_ns == 1000 && t[0].end_ns == 1100 && t[1].begin_ns == 1200 && t[1].end_ns == 1400);
}

static void test_strangers(void **state)
{
    (void)state;
    struct activity_time t[2];
    struct error e = {0};
    parse();
    assert_false(activity_join(&activity, 2, t, &e)); // nothing ran
    assert_non_null(strstr(e.message, "no kernel"));
    add_kernel(2000, 2100, 5, 77); // a node that nobody captured
    parse();
    assert_false(activity_join(&activity, 2, t, &e));
    assert_non_null(strstr(e.message, "no span"));
}

// Records that came before they were complete are refused; a kernel that seems to have begun before the trace, by the
// tolerance of the device's clock, began with it.
static void test_odd_times(void **state)
{
    (void)state;
    struct activity_time t[1];
    struct error e = {0};
    add_correlation(7, 0);
    add_kernel(990, 1200, 7, 0);
    parse();
    assert_true(activity_join(&activity, 1, t, &e));
    assert_true(t[0].begin_ns == 0 && t[0].end_ns == 200);
    used = 0;
    add_kernel(0, 0, 7, 0);
    parse();
    assert_false(activity_join(&activity, 1, t, &e));
    assert_non_null(strstr(e.message, "when"));
}

// More records than the first lists hold.
static void test_many(void **state)
{
    (void)state;
    struct activity_time t[1];
    struct error e = {0};
    for (int i = 0; i < 3000; i += 20, used = 0) {
        for (int k = 0; k < 20; k++) {
            add_correlation((uint32_t)(i + k), 0);
            add_kernel((uint64_t)(2000 + i + k), (uint64_t)(2001 + i + k), (uint32_t)(i + k), 0);
        }
        parse();
    }
    assert_int_equal(activity.n_kernels, 3000);
    assert_true(activity_join(&activity, 1, t, &e));
    assert_true(t[0].begin_ns == 1000 && t[0].end_ns == 4000);
}

// Without a driver there are no records: one line, and nothing stays open.
static void test_no_device(void **state)
{
    (void)state;
    struct activity a;
    struct error e = {0};
    if (!activity.cupti)
        skip();
    for (int i = 0; i < 2; i++) {
        if (activity_open(&a, &e)) {
            activity_close(&a);
            print_message("skipped: this machine traces\n");
            skip();
        }
        assert_true(*e.message);
        assert_null(strstr(e.message, "another trace"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_launches, begin, end),
        cmocka_unit_test_setup_teardown(test_graph, begin, end),
        cmocka_unit_test_setup_teardown(test_strangers, begin, end),
        cmocka_unit_test_setup_teardown(test_many, begin, end),
        cmocka_unit_test_setup_teardown(test_odd_times, begin, end),
        cmocka_unit_test_setup_teardown(test_no_device, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
