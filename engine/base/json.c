#include "engine/base/json.h"

#include "engine/base/file.h"
#include "engine/base/names.h"
#include "engine/base/sniff.h"
#include "engine/base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int line_of(const char *text, const char *at)
{
    int line = 1;
    for (; text < at; text++)
        line += *text == '\n';
    return line;
}

bool json_parse(const char *text, size_t size, const char *where, cJSON **out, struct error *e)
{
    const char *end = text;
    *out = NULL;
    if (size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
        text += 3, size -= 3;
    cJSON *json = cJSON_ParseWithLengthOpts(text, size, &end, 0);
    if (!json)
        return sniff_stranger(text, size, where, "JSON", e) &&
               error_set(e, ERROR_FILE, "'%s' line %d: not valid JSON", where, end ? line_of(text, end) : 1);
    while (end < text + size && *end && strchr(" \t\r\n", *end))
        end++;
    if (end < text + size) {
        cJSON_Delete(json);
        return error_set(e, ERROR_FILE, "'%s' line %d: text after the JSON value", where, line_of(text, end));
    }
    *out = json;
    return true;
}

bool json_load(const char *path, cJSON **out, struct error *e)
{
    struct file file;
    *out = NULL;
    if (!file_open(&file, path, e))
        return false;
    bool ok = file.size <= (256u << 20) ? json_parse(file.data, file.size, path, out, e)
                                        : error_set(e, ERROR_FILE, "'%s': larger than 256 MiB, no JSON we read", path);
    file_close(&file);
    return ok;
}

bool json_known_keys(const cJSON *object, const char *where, const char *const *keys, int n, struct error *e)
{
    if (!cJSON_IsObject(object))
        return error_set(e, ERROR_FILE, "'%s': expected an object", where);
    for (const cJSON *m = object->child; m; m = m->next) {
        int i = 0;
        while (i < n && strcmp(keys[i], m->string))
            i++;
        if (i < n && cJSON_GetObjectItemCaseSensitive(object, m->string) == m)
            continue;
        if (i < n)
            return error_set(e, ERROR_USAGE, "'%s': key '%.60s' appears twice", where, m->string);
        const char *near = names_nearest(m->string, keys, n);
        return error_set(e, ERROR_USAGE, "'%s': unknown key '%.60s'%s%s%s", where, m->string, near ? ", did you mean '" : "",
                         near ? near : "", near ? "'?" : "");
    }
    return true;
}

const cJSON *json_member(const cJSON *object, const char *key)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNull(m) ? NULL : m;
}

bool json_i32(const cJSON *object, const char *where, const char *key, int32_t min, int32_t max, int32_t *out,
              struct error *e)
{
    double value = *out;
    if (!json_f64(object, where, key, min, max, &value, e))
        return false;
    if (value != floor(value))
        return error_set(e, ERROR_FILE, "'%s': '%s' is %g, expected a whole number", where, key, value);
    *out = (int32_t)value;
    return true;
}

bool json_f64(const cJSON *object, const char *where, const char *key, double min, double max, double *out, struct error *e)
{
    const cJSON *m = json_member(object, key);
    if (!m)
        return true;
    if (!cJSON_IsNumber(m))
        return error_set(e, ERROR_FILE, "'%s': '%s' is not a number", where, key);
    if (!(m->valuedouble >= min && m->valuedouble <= max))
        return error_set(e, ERROR_FILE, "'%s': '%s' is %g, expected %g to %g", where, key, m->valuedouble, min, max);
    *out = m->valuedouble;
    return true;
}

bool json_bool(const cJSON *object, const char *where, const char *key, bool *out, struct error *e)
{
    const cJSON *m = json_member(object, key);
    if (m && !cJSON_IsBool(m))
        return error_set(e, ERROR_FILE, "'%s': '%s' is not true or false", where, key);
    if (m)
        *out = cJSON_IsTrue(m);
    return true;
}

bool json_string(const cJSON *object, const char *where, const char *key, const char **out, struct error *e)
{
    const cJSON *m = json_member(object, key);
    if (m && !cJSON_IsString(m))
        return error_set(e, ERROR_FILE, "'%s': '%s' is not a string", where, key);
    if (m)
        *out = m->valuestring;
    return true;
}

void json_write_text(FILE *f, const char *text, size_t size)
{
    enum utf8_state state;
    fputc('"', f);
    for (size_t at = 0, n; at < size; at += n) {
        unsigned char c = (unsigned char)text[at];
        n = utf8_next(text + at, size - at, &state);
        if (state != UTF8_WHOLE)
            fputs(UTF8_REPLACEMENT, f);
        else if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c < ' ')
            fprintf(f, "\\u%04x", c);
        else
            fwrite(text + at, 1, n, f);
    }
    fputc('"', f);
}
