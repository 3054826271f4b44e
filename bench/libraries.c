#include "bench/libraries.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static void find_symbol(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found); // C has no cast from one to the other
}

bool onednn_open(struct onednn *d)
{
    static const char *const NAME[] = {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"};
    *d = (struct onednn){0};
    for (int i = 0; i < 3 && !d->library; i++)
        d->library = dlopen(NAME[i], RTLD_NOW | RTLD_LOCAL);
    if (!d->library)
        return false;
    find_symbol(d->library, "dnnl_sgemm", &d->sgemm);
    find_symbol(d->library, "dnnl_gemm_u8s8s32", &d->u8s8);
    return d->sgemm && d->u8s8;
}

void onednn_threads(const struct onednn *d, int32_t n)
{
    void (*set)(int);
    find_symbol(d->library, "omp_set_num_threads", &set); // where it was built with OpenMP
    if (set)
        set(n);
}

bool onednn_f32(const struct onednn *d, int64_t rows, int64_t out, int64_t in, const float *x, const float *w, float *y)
{
    return !d->sgemm('N', 'N', rows, out, in, 1, x, in, w, out, 0, y, out);
}

bool onednn_u8s8(const struct onednn *d, int64_t rows, int64_t out, int64_t in, const uint8_t *x, const int8_t *w,
                 int32_t *y)
{
    const int32_t zero = 0;
    return !d->u8s8('N', 'N', 'F', rows, out, in, 1, x, in, 0, w, out, 0, 0, y, out, &zero);
}
