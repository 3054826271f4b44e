// Members of a record, whoever wrote it: JSON numbers, numbers as text, numbers with units.
#include "bench/import.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST 1e18 // no count or rate of ours is larger

static const struct unit {
    const char *name, *of;
    double value;
} UNIT[] = {
    {"s", "s", 1},
    {"sec", "s", 1},
    {"seconds", "s", 1},
    {"ms", "s", 1e-3},
    {"us", "s", 1e-6},
    {"ns", "s", 1e-9},
    {"B/s", "B/s", 1},
    {"MB/s", "B/s", 1e6},
    {"GB/s", "B/s", 1e9},
    {"GBps", "B/s", 1e9},
    {"TB/s", "B/s", 1e12},
    {"TBps", "B/s", 1e12},
    {"GiB/s", "B/s", 0x1p30},
    {"TiB/s", "B/s", 0x1p40},
    {"GFLOPS", "FLOP/s", 1e9},
    {"GFLOP/s", "FLOP/s", 1e9},
    {"TFLOPS", "FLOP/s", 1e12},
    {"TFLOP/s", "FLOP/s", 1e12},
    {"TOPS", "FLOP/s", 1e12},
    {"PFLOPS", "FLOP/s", 1e15},
    {"PFLOP/s", "FLOP/s", 1e15},
    {"tokens/s", "tokens/s", 1},
    {"token/s", "tokens/s", 1},
    {"tok/s", "tokens/s", 1},
    {"tps", "tokens/s", 1},
    {"t/s", "tokens/s", 1},
    {"B", "B", 1},
    {"MB", "B", 1e6},
    {"GB", "B", 1e9},
    {"MiB", "B", 0x1p20},
    {"GiB", "B", 0x1p30},
    {"TiB", "B", 0x1p40},
};

void import_say(char *text, size_t size, const char *format, ...)
{
    size_t n = strlen(text);
    va_list args;
    if (n && n + 3 < size)
        n += (size_t)snprintf(text + n, size - n, "; ");
    va_start(args, format);
    if (n + 1 < size)
        vsnprintf(text + n, size - n, format, args);
    va_end(args);
}

// The member, where it says something.
static const cJSON *find(const cJSON *record, const char *keys)
{
    char key[64];
    for (size_t n; *keys; keys += n + (keys[n] == '|')) {
        n = strcspn(keys, "|");
        snprintf(key, sizeof key, "%.*s", (int)n, keys);
        const cJSON *m = json_member(record, key);
        if (m && !(cJSON_IsString(m) && !*m->valuestring))
            return m;
    }
    return NULL;
}

bool record_has(const cJSON *record, const char *keys)
{
    return find(record, keys) != NULL;
}

bool record_true(const cJSON *record, const char *key)
{
    const cJSON *m = find(record, key);
    return cJSON_IsTrue(m) || (cJSON_IsNumber(m) && m->valuedouble > 0) ||
           (cJSON_IsString(m) && (!strcmp(m->valuestring, "1") || !strcasecmp(m->valuestring, "true")));
}

void record_text(const cJSON *record, const char *keys, char *out, size_t size)
{
    const cJSON *m = find(record, keys);
    *out = 0;
    if (cJSON_IsNumber(m))
        snprintf(out, size, "%.10g", m->valuedouble);
    if (!cJSON_IsString(m))
        return;
    const char *text = m->valuestring + strspn(m->valuestring, " \t");
    snprintf(out, size, "%s", text);
    for (char *c = out; *c; c++) // what is printed in tables stays on its line
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
    for (size_t n = strlen(out); n && out[n - 1] == ' '; n--)
        out[n - 1] = 0;
}

// "~1,069.2 GB/s", "22.0 ms", "132.19 ± 0.55": the number, what stands behind it, half of its last digit.
static bool parse_number(const char *text, double *value, double *half, const char **rest)
{
    char digits[40];
    size_t n = 0;
    bool point = false;
    text += strspn(text, " ~<>=\t");
    *half = 0.5;
    for (; *text && n + 1 < sizeof digits; text++) {
        bool exponent =
            n && (*text == 'e' || *text == 'E') && (isdigit((unsigned char)text[1]) || text[1] == '-' || text[1] == '+');
        bool sign = (*text == '-' || *text == '+') && (!n || digits[n - 1] == 'e' || digits[n - 1] == 'E');
        if (*text == ',' && !point && isdigit((unsigned char)text[1]))
            continue;
        if (!isdigit((unsigned char)*text) && *text != '.' && !exponent && !sign)
            break;
        if (point && isdigit((unsigned char)*text))
            *half /= 10;
        point |= *text == '.';
        digits[n++] = *text;
    }
    digits[n] = 0;
    char *end;
    *value = strtod(digits, &end);
    *rest = text + strspn(text, " ");
    return n && !*end && fabs(*value) <= MOST;
}

static const struct unit *unit_named(const char *text)
{
    for (size_t i = 0; i < sizeof UNIT / sizeof *UNIT; i++) {
        size_t n = strlen(UNIT[i].name);
        if (!strncasecmp(text, UNIT[i].name, n) && !isalnum((unsigned char)text[n]) && text[n] != '/')
            return &UNIT[i];
    }
    return NULL;
}

double record_quantity(const cJSON *record, const char *keys, const char *fallback, const char *wanted, double *half,
                       struct import_facts *f)
{
    const cJSON *m = find(record, keys);
    const char *rest = "";
    double value = 0, digit = 0;
    if (half)
        *half = 0;
    if (!m)
        return 0;
    bool ok = cJSON_IsNumber(m) && fabs(m->valuedouble) <= MOST;
    if (ok)
        value = m->valuedouble;
    else if (cJSON_IsString(m))
        ok = parse_number(m->valuestring, &value, &digit, &rest);
    const struct unit *unit = unit_named(*rest && strncmp(rest, "±", 2) ? rest : fallback);
    ok = ok && value >= 0 && (!unit || !strcmp(unit->of, wanted)) && (unit || !*rest || !*wanted);
    if (!ok) {
        import_say(f->remark, sizeof f->remark, "%.30s '%.40s' is no number", m->string,
                   cJSON_IsString(m) ? m->valuestring : "");
        return 0;
    }
    double scale = unit ? unit->value : 1;
    if (half)
        *half = digit * scale;
    return value * scale;
}

// Counts of tokens may end in k, which is 1024 as in the names of context lengths.
int64_t record_count(const cJSON *record, const char *keys, struct import_facts *f)
{
    const cJSON *m = find(record, keys);
    const char *rest = "";
    double value = -1, half;
    if (!m)
        return -1;
    bool ok = cJSON_IsNumber(m);
    if (ok)
        value = m->valuedouble;
    else if (cJSON_IsString(m))
        ok = parse_number(m->valuestring, &value, &half, &rest);
    if (ok && (*rest == 'k' || *rest == 'K'))
        value *= 1024;
    if (ok && value >= 0 && value <= 1e9)
        return (int64_t)value;
    import_say(f->remark, sizeof f->remark, "%.30s '%.40s' is no count", m->string, cJSON_IsString(m) ? m->valuestring : "");
    return -1;
}

double *record_list(const cJSON *record, const char *key, double unit, int32_t *n)
{
    const cJSON *list = json_member(record, key);
    *n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    double *out = *n ? malloc((size_t)*n * sizeof *out) : NULL;
    int32_t i = 0;
    for (const cJSON *m = out ? list->child : NULL; m; m = m->next) {
        double value = cJSON_IsNumber(m) ? m->valuedouble * unit : 0;
        if (!(value > 0 && value <= MOST)) {
            free(out);
            out = NULL;
            break;
        }
        out[i++] = value;
    }
    if (!out)
        *n = 0;
    return out;
}

struct import_facts *import_add(struct import_list *list, const char *where)
{
    if (list->n == list->capacity) {
        int32_t capacity = list->capacity ? 2 * list->capacity : 64;
        struct import_facts *grown = realloc(list->row, (size_t)capacity * sizeof *grown);
        if (!grown)
            return NULL;
        list->row = grown;
        list->capacity = capacity;
    }
    struct import_facts *f = &list->row[list->n++];
    *f = (struct import_facts){.batch = -1, .n_prompt = -1, .n_gen = -1, .n_depth = -1, .threads = -1, .tokens_per_step = 1};
    snprintf(f->where, sizeof f->where, "%s", where);
    return f;
}

void import_free(struct import_list *list)
{
    for (int32_t i = 0; i < list->n; i++)
        free(list->row[i].sample_ns);
    free(list->row);
    *list = (struct import_list){0};
}
