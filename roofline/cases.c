#include "roofline/cases.h"

#include "engine/base/file.h"

#include <csv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
#define X(name) COLUMN_##name,
    CASE_COLUMNS(X)
#undef X
        COLUMN_COUNT,
    MAX_FIELDS = 256,
};

static const char *const COLUMN[COLUMN_COUNT] = {
#define X(name) #name,
    CASE_COLUMNS(X)
#undef X
};

struct table_reader {
    struct kv_cases *cases;
    int column[MAX_FIELDS]; // which column a field is; -1: none of ours
    int field, line;
    bool failed;
};

static char **field_of(struct kv_case *row, int column)
{
    return (char **)row + column; // a row is nothing but its columns
}

static void begin_row(struct table_reader *t)
{
    struct kv_cases *c = t->cases;
    struct kv_case *grown = realloc(c->row, (size_t)(c->n + 1) * sizeof *grown);
    if (!grown) {
        t->failed = true;
        return;
    }
    c->row = grown;
    memset(&c->row[c->n++], 0, sizeof *grown);
}

static void on_field(void *text, size_t size, void *self)
{
    struct table_reader *t = self;
    int field = t->field++;
    if (t->failed || field >= MAX_FIELDS)
        return;
    if (t->line == 0) {
        t->column[field] = -1;
        for (int i = 0; i < COLUMN_COUNT; i++)
            if (strlen(COLUMN[i]) == size && !memcmp(COLUMN[i], text, size))
                t->column[field] = i;
        return;
    }
    if (field == 0)
        begin_row(t);
    if (t->failed || t->column[field] < 0)
        return;
    char **at = field_of(&t->cases->row[t->cases->n - 1], t->column[field]);
    free(*at);
    *at = strndup(text ? text : "", size);
    t->failed |= !*at;
}

static void on_row(int end, void *self)
{
    struct table_reader *t = self;
    (void)end;
    t->line++;
    t->field = 0;
}

// Columns that a table lacks, and fields that a row lacks, are empty.
static bool fill_in(struct kv_cases *c)
{
    for (int r = 0; r < c->n; r++)
        for (int i = 0; i < COLUMN_COUNT; i++) {
            char **at = field_of(&c->row[r], i);
            if (!*at && !(*at = strdup("")))
                return false;
        }
    return true;
}

static bool has_column(const struct table_reader *t, int column)
{
    for (int i = 0; i < MAX_FIELDS; i++)
        if (t->column[i] == column)
            return true;
    return false;
}

bool kv_cases_parse(struct kv_cases *cases, const void *data, size_t size, const char *where, struct error *e)
{
    struct table_reader t = {.cases = cases};
    struct csv_parser parser;
    memset(t.column, -1, sizeof t.column);
    *cases = (struct kv_cases){0};
    if (csv_init(&parser, CSV_APPEND_NULL))
        return error_set(e, ERROR_MEMORY, "no memory to read '%s'", where);
    bool ok = csv_parse(&parser, data, size, on_field, on_row, &t) == size && csv_fini(&parser, on_field, on_row, &t) == 0;
    csv_free(&parser);
    if (ok && !t.failed && has_column(&t, COLUMN_engine) && has_column(&t, COLUMN_kv_tokens) && fill_in(cases))
        return true;
    kv_cases_free(cases);
    if (t.failed)
        return error_set(e, ERROR_MEMORY, "no memory to read '%s'", where);
    return error_set(e, ERROR_FILE, "'%s': expected a CSV table with at least the columns engine and kv_tokens", where);
}

bool kv_cases_load(struct kv_cases *cases, const char *path, struct error *e)
{
    struct file file;
    *cases = (struct kv_cases){0};
    if (!file_open(&file, path, e))
        return false;
    bool ok = kv_cases_parse(cases, file.data ? file.data : "", file.size, path, e);
    file_close(&file);
    return ok;
}

void kv_cases_free(struct kv_cases *cases)
{
    for (int r = 0; r < cases->n; r++)
        for (int i = 0; i < COLUMN_COUNT; i++)
            free(*field_of(&cases->row[r], i));
    free(cases->row);
    *cases = (struct kv_cases){0};
}
