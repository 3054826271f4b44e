// safetensors: what is accepted can be read from the first byte of each tensor to its last.
#include "engine/load/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors s;
    struct error e = {0};
    if (!safetensors_parse(&s, data, size, "x.safetensors", &e))
        return 0;
    for (uint64_t i = 0; i < s.n_tensors; i++) {
        const volatile uint8_t *at = s.tensor[i].data;
        if (s.tensor[i].bytes)
            (void)(at[0] + at[s.tensor[i].bytes - 1]);
    }
    safetensors_close(&s);
    return 0;
}
