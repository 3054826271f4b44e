#include "bench/table.h"

#include "engine/base/names.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool table_format_of(const struct options *o, enum table_format *out, struct error *e)
{
    static const char *const NAME[] = {"text", "csv", "json", "jsonl", "md"};
    enum { N = sizeof NAME / sizeof *NAME };
    int i = 0;
    *out = o->json ? TABLE_JSON : TABLE_TEXT;
    if (!o->has_output)
        return true;
    while (i < N && strcmp(NAME[i], o->output))
        i++;
    if (i == N)
        return error_set(e, ERROR_USAGE, "'--output' is '%.60s', expected csv, json, jsonl, md or text (--out names files)",
                         o->output);
    if (o->json && i != TABLE_JSON)
        return error_set(e, ERROR_USAGE, "'--output %s' and '--json' do not go together", NAME[i]);
    *out = (enum table_format)i;
    return true;
}

bool table_is_data(enum table_format format)
{
    return format != TABLE_TEXT && format != TABLE_MD;
}

void table_json(FILE *f, enum table_format format, const cJSON *list)
{
    const cJSON *item = format == TABLE_JSONL && list ? list->child : list;
    for (; item; item = format == TABLE_JSONL ? item->next : NULL) {
        char *text = format == TABLE_JSONL ? cJSON_PrintUnformatted(item) : cJSON_Print(item);
        fprintf(f, "%s\n", text ? text : "null");
        free(text);
    }
}

void table_json_print(cJSON *json)
{
    table_json(stdout, TABLE_JSON, json);
    cJSON_Delete(json);
}

void table_rows(FILE *f, enum table_format format, const struct column *column, int32_t n, const void *rows, size_t stride,
                int32_t n_rows)
{
    cJSON *list = format == TABLE_CSV ? NULL : cJSON_CreateArray();
    if (!list)
        csv_header(f, column, n);
    for (int32_t i = 0; i < n_rows; i++) {
        const void *row = (const char *)rows + (size_t)i * stride;
        if (list)
            cJSON_AddItemToArray(list, row_json(column, n, row));
        else
            csv_row(f, column, n, row);
    }
    if (list)
        table_json(f, format, list);
    cJSON_Delete(list);
}

void table_column(struct table *t, const char *name, bool left, bool optional)
{
    t->column[t->n_columns].name = name;
    t->column[t->n_columns].left = left;
    t->column[t->n_columns++].optional = optional;
}

// Room for one more in a list that grows by whole powers of two.
static bool room(void *list, int32_t n, size_t size)
{
    void *old, *grown;
    memcpy(&old, list, sizeof old);
    if (n & (n - 1))
        return true;
    grown = realloc(old, (n ? 2 * (size_t)n : 1) * size);
    if (grown)
        memcpy(list, &grown, sizeof grown);
    return grown;
}

void table_cell(struct table *t, const char *format, ...)
{
    va_list args;
    if (t->failed || !room(&t->cell, t->n_cells, sizeof *t->cell)) {
        t->failed = true;
        return;
    }
    va_start(args, format);
    vsnprintf(t->cell[t->n_cells++], TABLE_CELL, format, args);
    va_end(args);
}

static int32_t count_rows(const struct table *t)
{
    return t->n_columns ? t->n_cells / t->n_columns : 0;
}

void table_note(struct table *t, const char *text)
{
    for (int32_t row = count_rows(t); !t->failed && t->n_notes < row;) {
        if (!room(&t->note, t->n_notes, sizeof *t->note)) {
            t->failed = true;
            return;
        }
        t->note[t->n_notes] = t->n_notes == row - 1 && *text ? strdup(text) : NULL;
        t->n_notes++;
    }
}

void table_free(struct table *t)
{
    for (int32_t i = 0; i < t->n_notes; i++)
        free(t->note[i]);
    free(t->note);
    free(t->cell);
    *t = (struct table){0};
}

// Characters that take a place: UTF-8 continuation bytes do not.
static int width_of(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

static const char *cell_of(const struct table *t, int32_t row, int32_t c)
{
    return t->cell[row * t->n_columns + c];
}

// 0: the column is left out.
static int column_width(const struct table *t, int32_t c)
{
    int width = width_of(t->column[c].name);
    bool differ = false;
    for (int32_t i = 0; i < count_rows(t); i++) {
        int w = width_of(cell_of(t, i, c));
        width = w > width ? w : width;
        differ |= strcmp(cell_of(t, 0, c), cell_of(t, i, c)) != 0;
    }
    return t->column[c].optional && !differ ? 0 : width;
}

static void pad(FILE *f, const char *text, int width, bool left, bool last)
{
    int space = width - width_of(text);
    fprintf(f, "%*s%s%*s", left || space < 0 ? 0 : space, "", text, left && !last && space > 0 ? space : 0, "");
}

// row -1: the headings.
static void print_row(FILE *f, const struct table *t, int32_t row, const int *width, bool markdown)
{
    bool first = true;
    int32_t last = t->n_columns - 1;
    while (last > 0 && !width[last])
        last--;
    for (int32_t c = 0; c <= last; c++) {
        if (!width[c])
            continue;
        fputs(markdown ? "| " : first ? "" : "  ", f);
        pad(f, row < 0 ? t->column[c].name : cell_of(t, row, c), width[c], t->column[c].left, c == last && !markdown);
        fputs(markdown ? " " : "", f);
        first = false;
    }
}

static const char *note_of(const struct table *t, int32_t row)
{
    return row < t->n_notes && t->note[row] ? t->note[row] : "";
}

static void print_rule(FILE *f, const struct table *t, const int *width, bool notes)
{
    for (int32_t c = 0; c < t->n_columns; c++)
        if (width[c])
            fputs(t->column[c].left ? "|:--" : "|--:", f);
    fputs(notes ? "|:--|\n" : "|\n", f);
}

void table_print(FILE *f, const struct table *t, bool markdown)
{
    int width[TABLE_MAX_COLUMNS];
    bool notes = false;
    for (int32_t c = 0; c < t->n_columns; c++)
        width[c] = column_width(t, c);
    for (int32_t i = 0; i < t->n_notes; i++)
        notes |= t->note[i] != NULL;
    print_row(f, t, -1, width, markdown);
    fputs(markdown ? notes ? "| remarks |\n" : "|\n" : "\n", f);
    if (markdown)
        print_rule(f, t, width, notes);
    for (int32_t i = 0; i < count_rows(t); i++) {
        print_row(f, t, i, width, markdown);
        if (markdown)
            fprintf(f, notes ? "| %s |\n" : "|\n", note_of(t, i));
        else
            fprintf(f, *note_of(t, i) ? "\n    %s\n" : "\n", note_of(t, i));
    }
}
