// kvbench with the CUDA backend on the emulator in it, in place of engine/cuda/open.c, which would look for a plug-in and a
// driver: commands as they run on a GPU, from options to result files.
#include "engine/cuda/ceilings.h"

const struct cuda_plugin *kvbench_cuda_plugin_1(void);

bool cuda_backend_likely(void)
{
    return true;
}

bool cuda_backend_open(struct backend *out, const struct backend_options *options, struct error *e)
{
    return kvbench_cuda_plugin_1()->open(out, options, e);
}

bool cuda_device_ceilings(int32_t device, struct cuda_ceilings *out, struct error *e)
{
    const struct cuda_ceilings_sizes small = {.bytes = 1 << 20, .side = 32};
    return cuda_ceilings_with(device, &small, out, e);
}
