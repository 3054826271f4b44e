// Hardware files: whatever is accepted has sane numbers and survives being written and read again.
#include "roofline/hardware.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hardware hw, again;
    struct error e;
    cJSON *json;
    if (!json_parse((const char *)data, size, "fuzz", &json, &e))
        return 0;
    bool ok = hardware_parse(&hw, json, "fuzz", &e);
    cJSON_Delete(json);
    if (!ok)
        return 0;
    cJSON *written = hardware_json(&hw);
    if (!hardware_parse(&again, written, "written", &e) || strcmp(hw.name, again.name))
        abort();
    for (int k = 0; k < ROOF_KINDS; k++)
        for (int t = 0; t < DTYPE_COUNT; t++)
            if (!(hardware_ridge(&hw, (enum roof_kind)k, (enum dtype)t) >= 0))
                abort();
    cJSON_Delete(written);
    return 0;
}
