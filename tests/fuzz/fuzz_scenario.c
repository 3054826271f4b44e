// Scenario files: whatever is accepted can be written out in full and makes points with keys of their own.
#include "bench/points.h"

#include <stdlib.h>
#include <string.h>

static void check_points(const struct scenario *scenario)
{
    struct point_list points;
    struct error e;
    if (!point_list_make(&points, scenario, NULL, NULL, &e))
        return;
    for (int32_t i = 1; i < points.n && i < 100; i++)
        if (!*points.point[i].key || !strcmp(points.point[i].key, points.point[i - 1].key))
            abort();
    point_list_free(&points);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct scenario scenario;
    struct error e;
    cJSON *json;
    if (!json_parse((const char *)data, size, "fuzz", &json, &e))
        return 0;
    if (scenario_parse(&scenario, json, "fuzz", &e)) {
        char hash[17];
        scenario_hash(&scenario, hash);
        check_points(&scenario);
    }
    cJSON_Delete(json);
    return 0;
}
