// The team of threads: everyone works once per run, barriers hold, more members than CPUs still finish, idle members sleep.
#include "engine/base/units.h"
#include "engine/cpu/team.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { MOST = 64 };

static struct team *open_team(int32_t n, const char *list)
{
    struct team *t;
    struct error e = {0};
    if (!team_open(&t, n, list, &e))
        fail_msg("%s", e.message);
    return t;
}

static int32_t allowed_cpus(int32_t *first)
{
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    *first = 0;
    while (!CPU_ISSET((size_t)*first, &set))
        ++*first;
    return CPU_COUNT(&set);
}

struct counts {
    atomic_int calls[MOST];
    int32_t n_members[MOST];
};

static void count(void *ctx, int32_t member, int32_t n_members)
{
    struct counts *c = ctx;
    atomic_fetch_add(&c->calls[member], 1);
    c->n_members[member] = n_members;
}

static void test_every_member_works_once_per_run(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= 9; n++) {
        struct counts c = {0};
        struct team *t = open_team(n, NULL);
        assert_int_equal(team_size(t), n);
        for (int i = 1; i <= 50; i++) {
            team_run(t, count, &c);
            for (int32_t m = 0; m < n; m++)
                assert_true(atomic_load(&c.calls[m]) == i && c.n_members[m] == n);
        }
        team_close(t);
    }
}

// Each round every member writes its cell, waits, and must see what all others wrote.
struct rounds {
    struct team *team;
    int32_t n_rounds;
    bool barrier;
    int32_t cell[MOST][16]; // cells in lines of their own
    atomic_int stale;
};

static void go_round(void *ctx, int32_t member, int32_t n_members)
{
    struct rounds *r = ctx;
    for (int32_t i = 1; i <= r->n_rounds; i++) {
        if (member == i % n_members)
            for (volatile int32_t k = 0; k < 2000; k++) // one is late
                continue;
        __atomic_store_n(&r->cell[member][0], i, __ATOMIC_RELAXED);
        if (r->barrier)
            team_barrier(r->team, member);
        for (int32_t m = 0; m < n_members; m++)
            if (__atomic_load_n(&r->cell[m][0], __ATOMIC_RELAXED) != i)
                atomic_fetch_add(&r->stale, 1);
        if (r->barrier)
            team_barrier(r->team, member);
    }
}

static int run_rounds(int32_t n, int32_t n_rounds, bool barrier)
{
    struct rounds r = {.team = open_team(n, NULL), .n_rounds = n_rounds, .barrier = barrier};
    team_run(r.team, go_round, &r);
    team_run(r.team, go_round, &r);
    team_close(r.team);
    return atomic_load(&r.stale);
}

static void test_barriers_hold(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= 5; n++)
        assert_int_equal(run_rounds(n, 300, true), 0);
    assert_true(run_rounds(4, 300, false) > 0); // the test can fail
}

static void test_more_members_than_cpus_finish(void **state)
{
    (void)state;
    int32_t first, n = allowed_cpus(&first) * 8;
    assert_int_equal(run_rounds(n < MOST ? n : MOST, 50, true), 0);
}

static void test_default_is_one_member_per_allowed_cpu(void **state)
{
    (void)state;
    int32_t first, n = allowed_cpus(&first);
    struct team *t = open_team(0, NULL), *second = open_team(0, NULL);
    assert_in_range(team_size(t), 1, n);               // fewer under a quota
    assert_int_equal(team_size(second), team_size(t)); // an open team does not narrow the next
    if (team_size(t) == n)
        assert_int_equal(team_cpu(t, 0), first);
    team_close(second);
    team_close(t);
}

struct places {
    int32_t cpu[MOST];
};

static void note_place(void *ctx, int32_t member, int32_t n_members)
{
    (void)n_members;
    ((struct places *)ctx)->cpu[member] = sched_getcpu();
}

static void test_members_stay_where_the_list_says(void **state)
{
    (void)state;
    struct places p;
    char list[32];
    int32_t first, n = allowed_cpus(&first), after;
    snprintf(list, sizeof list, "%d", first);
    struct team *t = open_team(0, list);
    assert_int_equal(team_size(t), 1);
    assert_int_equal(team_cpu(t, 0), first);
    team_run(t, note_place, &p);
    assert_int_equal(p.cpu[0], first);
    assert_int_equal(allowed_cpus(&after), n); // the caller is free again
    team_close(t);
    t = open_team(3, list); // crowded: they share the CPU that is listed
    assert_int_equal(team_cpu(t, 2), first);
    team_run(t, note_place, &p);
    team_close(t);
}

static void test_bad_lists_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"a", "0-", "1-0", ",0", "0,", "0,,1", "0 1", "-1", "0-99999999999", "99999"};
    struct team *t;
    struct error e;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(team_open(&t, 0, bad[i], &e));
        assert_null(t);
        assert_int_equal(e.kind, ERROR_USAGE);
        assert_non_null(strstr(e.message, bad[i]));
    }
    assert_false(team_open(&t, -1, NULL, &e));
    assert_false(team_open(&t, 100000, NULL, &e));
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    if (!CPU_ISSET(1023, &set)) {
        assert_false(team_open(&t, 0, "1023", &e));
        assert_int_equal(e.kind, ERROR_DEVICE);
    }
    team_close(NULL);
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// Waiting members give the CPU back within milliseconds, and wake again.
static void test_idle_members_sleep(void **state)
{
    (void)state;
    struct counts c = {0};
    struct team *t = open_team(2, NULL);
    team_run(t, count, &c);
    int64_t before = cpu_ns();
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    assert_true(cpu_ns() - before < 100000000);
    team_run(t, count, &c);
    assert_int_equal(atomic_load(&c.calls[1]), 2);
    team_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_member_works_once_per_run),
        cmocka_unit_test(test_barriers_hold),
        cmocka_unit_test(test_more_members_than_cpus_finish),
        cmocka_unit_test(test_default_is_one_member_per_allowed_cpu),
        cmocka_unit_test(test_members_stay_where_the_list_says),
        cmocka_unit_test(test_bad_lists_are_refused),
        cmocka_unit_test(test_idle_members_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
