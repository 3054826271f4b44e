// Lines of NAME.jsonl and NAME.blocks.jsonl, which --resume reads: whatever is accepted can be written again, and says the
// same.
#include "bench/results.h"
#include "bench/sample_block.h"

#include <stdlib.h>
#include <string.h>

static bool read_row(const cJSON *json, struct result *row, struct error *e)
{
    int32_t n;
    const struct column *column = result_columns(&n);
    result_init(row);
    return row_from_json(column, n, json, "fuzz", row, e);
}

static char *write_row(const struct result *row)
{
    int32_t n;
    const struct column *column = result_columns(&n);
    cJSON *json = row_json(column, n, row);
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    return text;
}

static char *rewrite_block(const cJSON *json)
{
    struct sample_block block;
    struct error e;
    if (!sample_block_parse(&block, json, "fuzz", &e))
        return NULL;
    cJSON *written = sample_block_json(&block);
    char *text = cJSON_PrintUnformatted(written);
    cJSON_Delete(written);
    free(block.sample_ns);
    return text;
}

static void check_block(const cJSON *json)
{
    struct error e;
    cJSON *parsed = NULL;
    char *first = rewrite_block(json);
    if (!first)
        return;
    if (!json_parse(first, strlen(first), "written", &parsed, &e))
        abort();
    char *second = rewrite_block(parsed);
    if (!second || strcmp(first, second))
        abort();
    free(first);
    free(second);
    cJSON_Delete(parsed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct result row, again;
    struct error e;
    cJSON *json;
    if (!json_parse((const char *)data, size, "fuzz", &json, &e))
        return 0;
    if (read_row(json, &row, &e)) {
        char *first = write_row(&row);
        cJSON *parsed = NULL;
        if (!first || !json_parse(first, strlen(first), "written", &parsed, &e) || !read_row(parsed, &again, &e))
            abort();
        char *second = write_row(&again);
        if (!second || strcmp(first, second))
            abort();
        free(first);
        free(second);
        cJSON_Delete(parsed);
        result_free(&again);
    }
    result_free(&row);
    check_block(json);
    cJSON_Delete(json);
    return 0;
}
