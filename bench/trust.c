#include "bench/trust.h"

#include "engine/base/names.h"
#include "engine/base/units.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const CODE[TRUST_CODE_COUNT] = {
#define X(id, code, says) code,
    TRUST_CODES(X)
#undef X
};

const char *trust_code_name(enum trust_code code)
{
    return CODE[code];
}

static bool find_code(const char *name, size_t size, unsigned *codes)
{
    for (int c = 0; c < TRUST_CODE_COUNT; c++)
        if (strlen(CODE[c]) == size && !strncmp(CODE[c], name, size)) {
            *codes |= 1u << c;
            return true;
        }
    return false;
}

bool trust_codes_parse(const char *text, unsigned *codes, struct error *e)
{
    char all[128];
    *codes = 0;
    for (const char *p = text + strspn(text, ", "); *p; p += strspn(p, ", ")) {
        size_t size = strcspn(p, ", ");
        if (!find_code(p, size, codes)) {
            trust_codes_print(~0u, all);
            return error_set(e, ERROR_USAGE, "unknown code '%.*s', expected some of: %s", (int)(size < 60 ? size : 60), p,
                             all);
        }
        p += size;
    }
    return true;
}

void trust_codes_print(unsigned codes, char out[128])
{
    size_t n = 0;
    *out = 0;
    for (int c = 0; c < TRUST_CODE_COUNT && n < 128; c++)
        if (codes & 1u << c)
            n += (size_t)snprintf(out + n, 128 - n, "%s%s", n ? " " : "", CODE[c]);
}

const char *trust_verdict(unsigned codes)
{
    for (int c = 0; c < TRUST_CODE_COUNT; c++)
        if (codes & 1u << c)
            return CODE[c];
    return "ok";
}

struct evidence trust_nothing_known(void)
{
    return (struct evidence){.median_ns = NAN,
                             .interval = NAN,
                             .spread = NAN,
                             .bound_ns = NAN,
                             .waited = NAN,
                             .other = NAN,
                             .steal = NAN,
                             .usual_steal = NAN,
                             .clock_drift = NAN,
                             .arithmetic = NAN,
                             .arithmetic_drift = NAN,
                             .read = NAN,
                             .step_bytes = NAN,
                             .kept_bytes = NAN};
}

static void flag(struct judgement *j, enum trust_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void flag(struct judgement *j, enum trust_code code, const char *format, ...)
{
    size_t n = strlen(j->reason);
    va_list args;
    j->codes |= 1u << code;
    if (n && n < sizeof j->reason)
        n += (size_t)snprintf(j->reason + n, sizeof j->reason - n, "; ");
    va_start(args, format);
    vsnprintf(j->reason + n, n < sizeof j->reason ? sizeof j->reason - n : 0, format, args);
    va_end(args);
}

static void judge_samples(const struct evidence *x, struct judgement *j)
{
    if (x->median_ns < x->bound_ns)
        flag(j, TRUST_OVER_BOUND,
             "%.0f ns is less than the bound of %.0f ns: the hardware's hard peaks or our count are wrong", x->median_ns,
             x->bound_ns);
    if (x->n_samples < TRUST_SAMPLES)
        flag(j, TRUST_UNDERSAMPLED, "%d samples", x->n_samples);
}

// Waiting is the direct measure. Where it is not told, or threads wait for one another, what else ran on our CPUs is.
static bool others_ran(const struct evidence *x, struct judgement *j)
{
    bool waiting_tells = x->waited >= 0 && !x->crowded;
    if (waiting_tells && x->waited > TRUST_WAITED)
        flag(j, TRUST_CONTENDED, "a thread waited %.0f %% of the time for a CPU that others had", 100 * x->waited);
    else if (!waiting_tells && x->other > TRUST_OTHER)
        flag(j, TRUST_CONTENDED, "other processes had %.0f %% of its CPUs", 100 * x->other);
    return j->codes & 1u << TRUST_CONTENDED;
}

static void judge_contention(const struct evidence *x, struct judgement *j)
{
    others_ran(x, j);
    if (x->steal > TRUST_STEAL + 2 * x->usual_steal)
        flag(j, TRUST_CONTENDED, "the hypervisor took %.1f %% of its CPUs, usually %.1f %%", 100 * x->steal,
             100 * x->usual_steal);
    if (x->affinity_changed)
        flag(j, TRUST_CONTENDED, "its threads' CPU affinity was changed");
}

// What a shared CPU loses is no lower clock.
static void judge_clock(const struct evidence *x, struct judgement *j)
{
    if (x->clock_drift < TRUST_CLOCK_DRIFT)
        flag(j, TRUST_THROTTLED, "the clock fell to %.0f %% of what it was", 100 * x->clock_drift);
    if (x->gpu_limits)
        flag(j, TRUST_THROTTLED, "the GPU's clock was held down (%s)", x->gpu_limits);
    if (j->codes & 1u << TRUST_CONTENDED)
        return;
    if (x->arithmetic < TRUST_SLOW_CLOCK)
        flag(j, TRUST_THROTTLED, "arithmetic beside it ran at %.0f %% of its ceiling", 100 * x->arithmetic);
    else if (x->arithmetic_drift < TRUST_CLOCK_DRIFT)
        flag(j, TRUST_THROTTLED, "arithmetic fell to %.0f %% of what it was in the first block", 100 * x->arithmetic_drift);
}

// A CPU that is lost for a share of the time, or slower, reads less by that share at most. What caches hold is read too
// quickly for a probe to say much.
static void judge_memory(const struct evidence *x, struct judgement *j)
{
    double left = x->waited > 0 ? 1 - x->waited : 1, clock = x->arithmetic < 1 ? x->arithmetic : 1;
    bool resident = x->kept_bytes >= TRUST_KEPT * x->step_bytes;
    char step[24];
    if (!resident && x->read < TRUST_SLOW_MEMORY * (left < clock ? left : clock))
        flag(j, TRUST_CACHE_POLLUTED, "memory was read at %.0f %% of its ceiling, arithmetic ran at %.0f %%", 100 * x->read,
             100 * x->arithmetic);
    if (resident && x->memory_limited)
        flag(j, TRUST_CACHE_RESIDENT, "of the %s of a step %.0f %% stay in caches: this is not the speed of main memory",
             format_bytes((uint64_t)x->step_bytes, step), 100 * x->kept_bytes / x->step_bytes);
}

void trust_judge(const struct evidence *x, struct judgement *out)
{
    *out = (struct judgement){0};
    judge_samples(x, out);
    judge_contention(x, out);
    judge_clock(x, out);
    judge_memory(x, out);
    if (x->interval > TRUST_INTERVAL || x->spread > TRUST_SPREAD)
        flag(out, TRUST_NOISY, "the median's interval spans %.0f %% of it, the samples %.0f %%", 100 * x->interval,
             100 * x->spread);
}
