// From a file to records: an object per row, whatever the file is written in. CSV, SQL and Markdown cells become texts.
#include "bench/import.h"
#include "engine/base/file.h"
#include "engine/base/names.h"

#include <csv.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 256, MAX_FILE = 256 << 20, MAX_ROWS = 100000 };

static const struct import_format *const FORMAT[] = {
    &IMPORT_LLAMA_BENCH,  &IMPORT_BATCHED_BENCH,  &IMPORT_VLLM_LATENCY, &IMPORT_VLLM_THROUGHPUT,
    &IMPORT_SGLANG_BATCH, &IMPORT_SGLANG_OFFLINE, &IMPORT_SERVING,      &IMPORT_TABLE,
};
enum { N_FORMATS = sizeof FORMAT / sizeof *FORMAT };

const struct import_format *import_format(int i)
{
    return i >= 0 && i < N_FORMATS ? FORMAT[i] : NULL;
}

const struct import_format *import_format_named(const char *name, struct error *e)
{
    const char *names[N_FORMATS];
    for (int i = 0; i < N_FORMATS; i++) {
        names[i] = FORMAT[i]->name;
        if (!strcmp(name, names[i]))
            return FORMAT[i];
    }
    const char *near = names_nearest(name, names, N_FORMATS);
    error_set(e, ERROR_USAGE, "unknown format '%.60s', %s%s%s", name, near ? "did you mean '" : "expected one of ",
              near ? near
                   : "llama-bench, batched-bench, vllm-latency, vllm-throughput, sglang-batch, sglang-offline, "
                     "serving, table",
              near ? "'?" : "");
    return NULL;
}

// A table under way: names of its columns, then rows.
struct sheet {
    cJSON *list; // of objects
    char *column[MAX_COLUMNS];
    int32_t n_columns, field, line;
    cJSON *row;
    bool failed;
};

static void sheet_free(struct sheet *t)
{
    for (int32_t i = 0; i < t->n_columns; i++)
        free(t->column[i]);
    cJSON_Delete(t->row);
}

static void add_cell(struct sheet *t, const char *text, size_t size)
{
    int32_t field = t->field++;
    char *copy = field < MAX_COLUMNS ? strndup(text ? text : "", size) : NULL;
    if (field >= MAX_COLUMNS)
        return;
    t->failed |= !copy;
    if (copy && t->line == 0) {
        t->column[t->n_columns++] = copy;
        return;
    }
    if (!t->row)
        t->row = cJSON_CreateObject();
    if (copy && field < t->n_columns && *copy && !cJSON_AddStringToObject(t->row, t->column[field], copy))
        t->failed = true;
    free(copy);
}

static void end_row(struct sheet *t)
{
    if (t->row && t->row->child)
        cJSON_AddItemToArray(t->list, t->row);
    else
        cJSON_Delete(t->row);
    t->row = NULL;
    t->line += t->n_columns > 0;
    t->field = 0;
}

static void on_csv_field(void *text, size_t size, void *self)
{
    add_cell(self, text, size);
}

static void on_csv_row(int end, void *self)
{
    (void)end;
    end_row(self);
}

static bool read_csv(struct sheet *t, const char *text, size_t size)
{
    struct csv_parser parser;
    if (csv_init(&parser, CSV_APPEND_NULL))
        return false;
    bool ok = csv_parse(&parser, text, size, on_csv_field, on_csv_row, t) == size &&
              csv_fini(&parser, on_csv_field, on_csv_row, t) == 0;
    csv_free(&parser);
    return ok;
}

// The end of the line at `at`.
static const char *line_end(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return newline ? newline : end;
}

static bool holds_only(const char *at, const char *stop, const char *set)
{
    while (at < stop && strchr(set, *at))
        at++;
    return at == stop;
}

// | model | size | ... |, with a line of dashes below the names.
static bool read_markdown(struct sheet *t, const char *text, size_t size)
{
    const char *end = text + size;
    for (const char *at = text, *stop; at < end; at = stop + 1) {
        stop = line_end(at, end);
        if (*at != '|' || holds_only(at, stop, "| :-\r"))
            continue;
        for (const char *cell = at + 1, *bar; cell < stop && (bar = memchr(cell, '|', (size_t)(stop - cell)));
             cell = bar + 1) {
            const char *first = cell, *last = bar;
            while (first < last && *first == ' ')
                first++;
            while (last > first && last[-1] == ' ')
                last--;
            add_cell(t, first, (size_t)(last - first));
        }
        end_row(t);
    }
    return t->n_columns > 0;
}

// The cells of one parenthesis: names, or texts in quotes. Returns behind it, or NULL.
static const char *read_tuple(struct sheet *t, const char *at, const char *end)
{
    while (at < end && *at != ')') {
        at += *at == '(' || *at == ',' || isspace((unsigned char)*at);
        if (at >= end)
            return NULL;
        if (*at == ' ' || *at == ',' || *at == ')')
            continue;
        bool quoted = *at == '\'';
        const char *from = at + quoted;
        at = from;
        while (at < end &&
               (quoted ? *at != '\'' || (at + 1 < end && at[1] != ',' && at[1] != ')') : *at != ',' && *at != ')'))
            at++; // quotes within are not escaped by who writes this
        if (at >= end)
            return NULL;
        add_cell(t, from, (size_t)(at - from));
        at += quoted;
    }
    return at < end ? at + 1 : NULL;
}

// INSERT INTO llama_bench (a, b) VALUES ('1', '2');
static bool read_sql(struct sheet *t, const char *text, size_t size)
{
    const char *end = text + size;
    for (const char *at = text, *stop; at < end; at = stop + 1) {
        stop = line_end(at, end);
        const char *names = memmem(at, (size_t)(stop - at), "INSERT INTO", 11);
        const char *values = names ? memmem(names, (size_t)(stop - names), "VALUES", 6) : NULL;
        const char *open = values ? memchr(names, '(', (size_t)(values - names)) : NULL;
        const char *tuple = open ? memchr(values, '(', (size_t)(stop - values)) : NULL;
        if (!tuple)
            continue;
        if (!t->n_columns && !read_tuple(t, open, values))
            return false;
        t->line = 1, t->field = 0;
        if (!read_tuple(t, tuple, stop))
            return false;
        end_row(t);
    }
    return t->n_columns > 0;
}

// One JSON object per line.
static bool read_lines(cJSON *list, const char *text, size_t size, const char *where, struct error *e)
{
    const char *end = text + size;
    int line = 1;
    for (const char *at = text, *stop; at < end; at = stop + 1, line++) {
        char here[240];
        cJSON *json;
        stop = line_end(at, end);
        if (holds_only(at, stop, " \t\r"))
            continue;
        snprintf(here, sizeof here, "%.200s:%d", where, line);
        if (!json_parse(at, (size_t)(stop - at), here, &json, e))
            return false;
        cJSON_AddItemToArray(list, json);
    }
    return true;
}

// Whether the first line is a whole value, so that the file is one of lines.
static bool is_lines(const char *text, size_t size)
{
    cJSON *json = NULL;
    const char *stop = line_end(text, text + size);
    bool whole = json_parse(text, (size_t)(stop - text), "", &json, NULL) && cJSON_IsObject(json);
    cJSON_Delete(json);
    return whole;
}

static bool read_json(cJSON *list, const char *text, size_t size, const char *where, struct error *e)
{
    cJSON *json;
    if (is_lines(text, size))
        return read_lines(list, text, size, where, e);
    if (!json_parse(text, size, where, &json, e))
        return false;
    if (!cJSON_IsArray(json))
        return cJSON_AddItemToArray(list, json);
    for (cJSON *m; (m = cJSON_DetachItemFromArray(json, 0));)
        cJSON_AddItemToArray(list, m);
    cJSON_Delete(json);
    return true;
}

static bool read_records(cJSON *list, const char *text, size_t size, const char *where, struct error *e)
{
    size_t skip = 0;
    struct sheet t = {.list = list};
    if (size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) // what Excel puts in front
        skip = 3;
    while (skip < size && isspace((unsigned char)text[skip]))
        skip++;
    text += skip, size -= skip;
    if (!size)
        return error_set(e, ERROR_FILE, "'%s' is empty, expected results of a benchmark", where);
    if (*text == '{' || *text == '[')
        return read_json(list, text, size, where, e);
    if (memchr(text, 0, size))
        return error_set(e, ERROR_FILE, "'%s' is no text, expected CSV, JSON, JSON lines, SQL or Markdown", where);
    bool sql = memmem(text, size < 1 << 16 ? size : 1 << 16, "INSERT INTO", 11);
    bool ok = sql ? read_sql(&t, text, size) : *text == '|' ? read_markdown(&t, text, size) : read_csv(&t, text, size);
    ok = ok && !t.failed;
    sheet_free(&t);
    return ok || error_set(e, ERROR_FILE, "'%s': not a table that can be read", where);
}

static const struct import_format *recognise(const cJSON *record)
{
    for (int i = 0; i < N_FORMATS; i++)
        if (FORMAT[i]->is(record))
            return FORMAT[i];
    return NULL;
}

static bool not_recognised(const cJSON *record, const char *where, struct error *e)
{
    char keys[160] = "";
    size_t n = 0;
    for (const cJSON *m = record ? record->child : NULL; m && n < 100; m = m->next)
        n += (size_t)snprintf(keys + n, sizeof keys - n, "%s%.30s", n ? ", " : "", m->string ? m->string : "");
    return error_set(e, ERROR_FILE,
                     "'%s': no format that is known (%s%s), expected llama-bench, llama-batched-bench, vLLM, SGLang or a "
                     "table with columns gpu, model, phase and tokens_per_s",
                     where, *keys ? "it has " : "no named values", keys);
}

static bool convert(struct import_list *list, const cJSON *records, const char *where, const struct import_format *format,
                    const struct import_format **used, struct error *e)
{
    int row = 1;
    int32_t before = list->n;
    for (const cJSON *m = records->child; m; m = m->next, row++) {
        char here[240];
        const struct import_format *is = format ? format : recognise(m);
        if (!is && *used == &IMPORT_TABLE)
            is = *used; // a row with most cells missing
        snprintf(here, sizeof here, "%.200s:%d", where, row);
        if (!cJSON_IsObject(m) || !is)
            return not_recognised(m, here, e);
        *used = is;
        if (!is->read(m, here, list, e))
            return false;
        if (list->n > MAX_ROWS)
            return error_set(e, ERROR_FILE, "'%s': more than %d rows", here, MAX_ROWS);
    }
    return list->n > before || error_set(e, ERROR_FILE, "'%s': no rows, expected results of a benchmark", where);
}

bool import_parse(struct import_list *list, const char *text, size_t size, const char *where,
                  const struct import_format *format, const struct import_format **used, struct error *e)
{
    cJSON *records = cJSON_CreateArray();
    bool ok = records ? read_records(records, text, size, where, e) && convert(list, records, where, format, used, e)
                      : error_set(e, ERROR_MEMORY, "no memory to read '%s'", where);
    cJSON_Delete(records);
    return ok;
}

bool import_load(struct import_list *list, const char *path, const struct import_format *format,
                 const struct import_format **used, struct error *e)
{
    struct file file;
    if (!file_open(&file, path, e))
        return false;
    bool ok = file.size <= MAX_FILE ? import_parse(list, file.data ? file.data : "", file.size, path, format, used, e)
                                    : error_set(e, ERROR_FILE, "'%s' is larger than %d MiB", path, MAX_FILE >> 20);
    file_close(&file);
    return ok;
}
