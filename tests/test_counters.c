// Counters count what was done between start and stop, on all threads, or say why they do not.
#include "bench/counters.h"

#include "tests/files.h"

#include <math.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

enum { PAGES = 64, PAGE = 4096 };

static void touch_pages(void)
{
    char *p = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    (void)madvise(p, PAGES * PAGE, MADV_NOHUGEPAGE);
    for (int i = 0; i < PAGES; i++)
        p[i * PAGE] = 1;
    munmap(p, PAGES * PAGE);
}

static pthread_barrier_t begin, end;

static void *touch_on_signal(void *ctx)
{
    (void)ctx;
    pthread_barrier_wait(&begin);
    touch_pages();
    pthread_barrier_wait(&end);
    return NULL;
}

static void test_all_threads(void **state)
{
    (void)state;
    struct counters c;
    struct error e = {0};
    double value[COUNTER_COUNT] = {0};
    pthread_t thread;
    pthread_barrier_init(&begin, NULL, 2);
    pthread_barrier_init(&end, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, touch_on_signal, NULL), 0);
    assert_true(counters_open(&c, &e));
    assert_int_equal(c.n_threads, 2);
    counters_start(&c);
    touch_pages();
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&end);
    counters_stop(&c, value);
    pthread_join(thread, NULL);
    for (int i = 0; i < COUNTER_COUNT; i++) {
        assert_true(c.has[i] == !isnan(value[i]));
        assert_true(c.has[i] == !strstr(c.absent, counter_name((enum counter)i)));
    }
    if (c.has[COUNTER_PAGE_FAULTS])
        assert_true(value[COUNTER_PAGE_FAULTS] >= 2 * PAGES);
    double before = value[COUNTER_PAGE_FAULTS];
    touch_pages(); // not counted
    counters_start(&c);
    counters_stop(&c, value); // adds
    if (c.has[COUNTER_PAGE_FAULTS])
        assert_true(value[COUNTER_PAGE_FAULTS] < before + PAGES);
    if (*c.absent)
        print_message("%s\n", c.absent);
    counters_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
