// The screen at the end of a sweep says what its rows say: verdicts by number, reasons without what stands in the table
// already, and whether anything was checked against physics.
#include "bench/summary.h"
#include "tests/files.h"
#include "tests/synthetic.h"

static void add(struct store *s, int64_t batch, const char *verdict, const char *reason, double bound_ns)
{
    struct error e = {0};
    struct result r = synthetic_point(batch, 64, 10e6, NULL);
    r.roof_ns = 5e6, r.roof_fraction = 0.5, r.bound_ns = bound_ns;
    snprintf(r.verdict, sizeof r.verdict, "%s", verdict);
    snprintf(r.reason, sizeof r.reason, "%s", reason);
    assert_true(store_add(s, &r, NULL, 0, &e));
}

static char *summary_of(const struct store *s)
{
    static char *text; // static: gcc 12 takes what open_memstream made for a dangling local
    size_t size;
    FILE *f = open_memstream(&text, &size);
    summary_print(f, s, false);
    fclose(f);
    return text;
}

static struct store some_store(double bound_ns)
{
    struct store s;
    struct error e = {0};
    assert_true(store_open(&s, NULL, NULL, false, cJSON_CreateObject(), &e));
    add(&s, 1, "ok", "", bound_ns);
    add(&s, 2, "noisy", "the median's interval spans 20 % of it, the samples 30 %", bound_ns);
    add(&s, 4, "contended", "first; the median's interval spans 21 % of it, the samples 31 %; last", bound_ns);
    add(&s, 8, "contended", "alone; the median's interval spans 22 % of it, the samples 32 %", bound_ns);
    return s;
}

static void expect(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in:\n%s", part, text);
}

static void verdicts_and_reasons(void **state)
{
    (void)state;
    struct store s = some_store(NAN);
    char *text = summary_of(&s);
    expect(text, "1 of 4 points ok (2 contended, 1 noisy): decode at 50 % of its roof\n");
    expect(text, "\n    first; last\n");
    expect(text, "\n    alone\n");
    assert_null(strstr(text, "interval spans"));
    expect(text, "no hard peaks are known for box, so none of its 4 points was checked against a bound\n");
    free(text);
    store_close(&s);
}

static void bounds_that_are_known(void **state)
{
    (void)state;
    struct store s = some_store(4e6);
    char *text = summary_of(&s);
    assert_null(strstr(text, "hard peaks"));
    free(text);
    add(&s, 16, "ok", "", NAN);
    text = summary_of(&s);
    expect(text, "so not every one of its 5 points was checked");
    free(text);
    store_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_and_reasons),
        cmocka_unit_test(bounds_that_are_known),
    };
    return cmocka_run_group_tests_name("summary", tests, NULL, NULL);
}
