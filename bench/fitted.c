#include "bench/fitted.h"

#include "engine/base/file.h"
#include "engine/base/version.h"
#include "engine/cpu/cpu.h"

#include <string.h>

void fitted_path(const char *folder, int32_t threads, char out[640])
{
    char suffix[24] = "";
    if (threads)
        snprintf(suffix, sizeof suffix, "-t%d", threads);
    snprintf(out, 640, "%.600s/fit%s.json", folder, suffix);
}

static void judge(struct fitted *p, const char *path, const struct hardware *hw, const char *isa)
{
    const struct fit *f = &p->fit;
    p->known = !strcmp(f->hardware, hw->title) && !strcmp(f->isa, isa);
    if (strcmp(f->hardware, hw->title))
        snprintf(p->reason, sizeof p->reason, "'%.60s' is not used: it is of %.60s, this is %.60s (kvbench bench)", path,
                 f->hardware, hw->title);
    else if (!p->known)
        snprintf(p->reason, sizeof p->reason, "'%.60s' is not used: it is of the %s kernels, these are %s (kvbench bench)",
                 path, f->isa, isa);
    else if (strcmp(f->tool, kvbench_version))
        snprintf(p->reason, sizeof p->reason,
                 "pred is from a fit by kvbench %.40s (%.10s), this is %.40s; kvbench bench fits anew", f->tool, f->date,
                 kvbench_version);
}

void fitted_find(struct fitted *p, const char *folder, int32_t threads, const struct hardware *hw, const char *isa)
{
    char path[640];
    struct error e = {0};
    *p = (struct fitted){0};
    fitted_path(folder, threads, path);
    if (!file_exists(path))
        return;
    if (fit_load(&p->fit, path, &e))
        judge(p, path, hw, isa);
    else
        snprintf(p->reason, sizeof p->reason, "%.255s", e.message);
}

void fitted_free(struct fitted *p)
{
    fit_free(&p->fit);
    *p = (struct fitted){0};
}

bool point_predict(const struct fitted *p, const struct plan *plan, const struct point *point, const struct hardware *hw,
                   double *ns, char missing[FIT_NAME], struct error *e)
{
    static const struct fit_cover CPU = {.cover = cpu_cover, .kernel_name = cpu_kernel_name};
    bool ok = true, known = p->known;
    *ns = 0, *missing = 0;
    for (int32_t i = 0; ok && known && i < point_steps(point); i++) {
        struct batch batch;
        double step_ns;
        int32_t context = point_step_context(point, i);
        if (!batch_make_uniform(&batch, point->batch, point_step_rows(point, i), context, context, e))
            return error_prefix(e, "'%s'", point->key);
        ok = fit_step_ns(&p->fit, &CPU, plan, &batch, hw, &step_ns, missing, e);
        batch_free(&batch);
        known = ok && step_ns > 0;
        *ns = known ? *ns + step_ns : 0;
    }
    return ok;
}
