// config.json and catalogue entries: whatever is accepted must make a plan or be refused in words.
#include "engine/load/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model_spec spec;
    struct plan plan;
    struct error e = {0};
    if (!model_spec_from_config(&spec, (const char *)data, size, "config.json", &e))
        return 0;
    struct plan_options options = plan_options_default(spec.dtype);
    float freq[MODEL_MAX_ROTARY / 2];
    rope_inv_freq(&spec.rope, true, freq);
    if (plan_make(&plan, &spec, &options, &e))
        plan_free(&plan);
    return 0;
}
