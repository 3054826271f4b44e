// Measuring the device inside the plug-in; the numbers cross its border as struct cuda_ceilings (cuda.h).
#ifndef ENGINE_CUDA_CEILINGS_H
#define ENGINE_CUDA_CEILINGS_H

#include "engine/cuda/cuda.h"
#include "engine/cuda/host.h"

struct cuda_ceilings_sizes {
    uint64_t bytes; // read and copied
    int32_t side;   // of square matrices that are multiplied, and of others about as large
};
bool cuda_ceilings_with(int32_t device, const struct cuda_ceilings_sizes *sizes, struct cuda_ceilings *out, struct error *e);
bool cuda_ceilings_measure(int32_t device, struct cuda_ceilings *out, struct error *e); // in full size: some seconds

#endif
