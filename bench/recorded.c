#include "bench/recorded.h"

#include "engine/base/file.h"

#include <csv.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FIELDS = 512, PATH_SIZE = 640 };

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && !strcmp(text + n - m, end);
}

// The path without its suffix: what the files of one result have in common.
static void base_of(const char *path, char out[PATH_SIZE])
{
    static const char *const SUFFIX[] = {".meta.json", ".jsonl", ".csv"};
    snprintf(out, PATH_SIZE, "%s", path);
    for (size_t i = 0; i < sizeof SUFFIX / sizeof *SUFFIX; i++)
        if (ends_in(out, SUFFIX[i])) {
            out[strlen(out) - strlen(SUFFIX[i])] = 0;
            return;
        }
}

static struct stored *find(const struct recorded *r, const char *key)
{
    for (int32_t i = 0; i < r->n_rows; i++)
        if (!strcmp(r->row[i].result.key, key))
            return &r->row[i];
    return NULL;
}

const struct stored *recorded_find(const struct recorded *r, const char *key)
{
    return find(r, key);
}

// Predictions have rows of several machines under one key.
static struct stored *find_same(const struct recorded *r, const struct result *row)
{
    for (int32_t i = 0; i < r->n_rows; i++)
        if (!strcmp(r->row[i].result.key, row->key) && !strcmp(r->row[i].result.hardware, row->hardware))
            return &r->row[i];
    return NULL;
}

// Takes over the row.
static bool keep(struct recorded *r, struct stored *row, struct error *e)
{
    struct stored *old = *row->result.key ? find_same(r, &row->result) : NULL;
    if (old) {
        stored_free(old);
        *old = *row;
        return true;
    }
    bool full = !(r->n_rows & (r->n_rows - 1)); // at 0 and powers of two
    struct stored *grown = full ? realloc(r->row, 2 * ((size_t)r->n_rows + 1) * sizeof *grown) : r->row;
    if (!grown) {
        stored_free(row);
        return error_set(e, ERROR_MEMORY, "no memory for the rows of '%s'", r->path);
    }
    r->row = grown;
    r->row[r->n_rows++] = *row;
    return true;
}

static bool read_line(struct recorded *r, const char *text, size_t size, const char *where, struct error *e)
{
    cJSON *json;
    struct stored row;
    if (!json_parse(text, size, where, &json, e))
        return false;
    bool ok = stored_from_json(&row, json, where, e);
    cJSON_Delete(json);
    if (ok)
        return keep(r, &row, e);
    stored_free(&row);
    return false;
}

static bool read_jsonl(struct recorded *r, const char *path, struct error *e)
{
    struct file file;
    if (!file_open(&file, path, e))
        return false;
    bool ok = true;
    const char *at = file.data, *end = at + file.size, *newline;
    for (int line = 1; ok && at < end && (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1, line++) {
        char where[PATH_SIZE + 32];
        snprintf(where, sizeof where, "%s:%d", path, line);
        ok = newline == at || read_line(r, at, (size_t)(newline - at), where, e);
    }
    file_close(&file);
    return ok;
}

// A CSV table whose first line names the columns.
struct table_reader {
    const char *path;
    const struct column *column; // [n]
    int32_t n;
    int32_t place[MAX_FIELDS]; // the column that a field is, -1: none of ours
    int32_t field, line;
    void *row;                                               // filled field by field
    bool (*end)(struct table_reader *t, struct recorded *r); // takes over the row and makes an empty one
    struct recorded *r;
    bool failed;
    struct error *e;
};

static void on_heading(struct table_reader *t, const char *text)
{
    t->place[t->field] = -1;
    for (int32_t i = 0; i < t->n; i++)
        if (!strcmp(t->column[i].name, text))
            t->place[t->field] = i;
}

static void on_field(void *text, size_t size, void *self)
{
    struct table_reader *t = self;
    (void)size; // libcsv appends a NUL
    if (!t->failed && t->field < MAX_FIELDS) {
        const char *cell = text ? text : "";
        int32_t place = t->line ? t->place[t->field] : -1;
        if (!t->line)
            on_heading(t, cell);
        else if (place >= 0 && !cell_from_text(&t->column[place], cell, t->row))
            t->failed = !error_set(t->e, ERROR_FILE, "'%s': line %d: '%s' is '%.40s', expected a number", t->path,
                                   t->line + 1, t->column[place].name, cell);
    }
    t->field++;
}

static void on_row(int end, void *self)
{
    struct table_reader *t = self;
    (void)end;
    if (t->line && !t->failed)
        t->failed = !t->end(t, t->r);
    t->line++;
    t->field = 0;
}

static bool has_column(const struct table_reader *t, const char *name)
{
    for (int32_t i = 0; i < MAX_FIELDS; i++)
        if (t->place[i] >= 0 && !strcmp(t->column[t->place[i]].name, name))
            return true;
    return false;
}

static bool read_table(struct table_reader *t)
{
    struct file file;
    struct csv_parser parser;
    memset(t->place, -1, sizeof t->place);
    if (!file_open(&file, t->path, t->e))
        return false;
    bool ok =
        !csv_init(&parser, CSV_APPEND_NULL | CSV_STRICT) || error_set(t->e, ERROR_MEMORY, "no memory to read '%s'", t->path);
    if (ok) {
        ok = (csv_parse(&parser, file.data ? file.data : "", file.size, on_field, on_row, t) == file.size &&
              !csv_fini(&parser, on_field, on_row, t)) ||
             error_set(t->e, ERROR_FILE, "'%s': line %d is no CSV", t->path, t->line + 1);
        csv_free(&parser);
    }
    file_close(&file);
    return ok && !t->failed &&
           ((has_column(t, "key") && has_column(t, "phase")) ||
            error_set(t->e, ERROR_FILE, "'%s': expected a table of results with the columns key and phase", t->path));
}

static bool end_result(struct table_reader *t, struct recorded *r)
{
    struct stored row = {.result = *(struct result *)t->row};
    result_init(t->row);
    return keep(r, &row, t->e);
}

static bool end_op(struct table_reader *t, struct recorded *r)
{
    struct op_result *op = t->row;
    struct stored *row = find(r, op->key);
    struct op_result *grown = row ? realloc(row->op, ((size_t)row->n_ops + 1) * sizeof *grown) : NULL;
    if (row && !grown)
        return error_set(t->e, ERROR_MEMORY, "no memory for the operations of '%s'", t->path);
    if (row) {
        row->op = grown;
        row->op[row->n_ops++] = *op;
    }
    op_result_init(op);
    return true;
}

static bool read_csv(struct recorded *r, const char *path, struct error *e)
{
    struct result row;
    struct table_reader t = {.path = path, .row = &row, .end = end_result, .r = r, .e = e};
    t.column = result_columns(&t.n);
    result_init(&row);
    bool ok = read_table(&t);
    result_free(&row);
    return ok;
}

static bool read_ops_csv(struct recorded *r, const char *path, struct error *e)
{
    struct op_result op;
    struct table_reader t = {.path = path, .row = &op, .end = end_op, .r = r, .e = e};
    t.column = op_columns(&t.n);
    op_result_init(&op);
    return !file_exists(path) || read_table(&t);
}

static bool read_hardware(struct recorded *r, const char *where, struct error *e)
{
    const cJSON *list = json_member(r->meta, "ceilings");
    int32_t n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    r->hw = calloc((size_t)n + 1, sizeof *r->hw);
    if (!r->hw)
        return error_set(e, ERROR_MEMORY, "no memory for the ceilings of '%s'", where);
    for (const cJSON *m = n ? list->child : NULL; m; m = m->next)
        if (!hardware_parse(&r->hw[r->n_hw++], m, where, e))
            return false;
    return true;
}

static bool read_meta(struct recorded *r, const char *path, struct error *e)
{
    bool ok = file_exists(path) ? json_load(path, &r->meta, e) : (r->meta = cJSON_CreateObject()) != NULL;
    return ok && (cJSON_IsObject(r->meta) || error_set(e, ERROR_FILE, "'%s': expected an object", path)) &&
           read_hardware(r, path, e);
}

static bool read_rows(struct recorded *r, const char *base, struct error *e)
{
    char rows[PATH_SIZE + 16], table[PATH_SIZE + 16], ops[PATH_SIZE + 16];
    snprintf(rows, sizeof rows, "%s.jsonl", base);
    snprintf(table, sizeof table, "%s.csv", base);
    snprintf(ops, sizeof ops, "%s.ops.csv", base);
    if (ends_in(r->path, ".csv") || (!ends_in(r->path, ".jsonl") && !file_exists(rows) && file_exists(table)))
        return read_csv(r, table, e) && read_ops_csv(r, ops, e);
    if (ends_in(r->path, ".jsonl") || file_exists(rows))
        return read_jsonl(r, rows, e);
    return error_set(e, ERROR_FILE, "'%s': no such result, expected NAME.jsonl, NAME.csv or NAME of a sweep", r->path);
}

bool recorded_read(struct recorded *r, const char *path, struct error *e)
{
    char base[PATH_SIZE], meta[PATH_SIZE + 16];
    *r = (struct recorded){0};
    if (strlen(path) >= sizeof r->path)
        return error_set(e, ERROR_USAGE, "'%.80s...': a path of %zu bytes, expected less than %zu", path, strlen(path),
                         sizeof r->path);
    base_of(path, base);
    const char *slash = strrchr(base, '/');
    snprintf(r->path, sizeof r->path, "%s", path);
    snprintf(r->name, sizeof r->name, "%.63s", slash ? slash + 1 : base);
    snprintf(meta, sizeof meta, "%s.meta.json", base);
    bool ok = read_rows(r, base, e) && (r->n_rows || error_set(e, ERROR_FILE, "'%s': no finished point in it", path)) &&
              read_meta(r, meta, e);
    if (!ok)
        recorded_free(r);
    return ok;
}

static bool is_here(const char *name)
{
    static const char *const END[] = {"", ".jsonl", ".csv"};
    char path[PATH_SIZE];
    for (size_t i = 0; i < sizeof END / sizeof *END; i++) {
        snprintf(path, sizeof path, "%.600s%s", name, END[i]);
        if (file_exists(path) && !file_is_directory(path))
            return true;
    }
    return false;
}

bool recorded_open(struct recorded *r, const char *folder, const char *name, struct error *e)
{
    char path[PATH_SIZE], below[PATH_SIZE];
    snprintf(path, sizeof path, "%.300s/%.300s", folder, name);
    base_of(path, below);
    bool elsewhere = !strchr(name, '/') && !is_here(name) && is_here(below);
    return recorded_read(r, elsewhere ? path : name, e);
}

void recorded_free(struct recorded *r)
{
    for (int32_t i = 0; i < r->n_rows; i++)
        stored_free(&r->row[i]);
    free(r->row);
    free(r->hw);
    cJSON_Delete(r->meta);
    *r = (struct recorded){0};
}
