// Tables on standard output: for people (aligned text or Markdown), and rows of a column table for programs (CSV, JSON,
// JSONL). One option, -o, for all commands that print rows.
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include "bench/results.h"
#include "engine/base/options.h"

enum table_format { TABLE_TEXT, TABLE_CSV, TABLE_JSON, TABLE_JSONL, TABLE_MD };

// From -o and --json.
bool table_format_of(const struct options *o, enum table_format *out, struct error *e);
bool table_is_data(enum table_format format); // CSV, JSON, JSONL: all columns, nothing else on standard output

// rows[n_rows], `stride` bytes apart, of a column table; a data format.
void table_rows(FILE *f, enum table_format format, const struct column *column, int32_t n, const void *rows, size_t stride,
                int32_t n_rows);
// The same for values that hold more than a table: an array of them (CSV cannot), which stays the caller's.
void table_json(FILE *f, enum table_format format, const cJSON *list);
// One value on standard output, which is taken over.
void table_json_print(cJSON *json);

// For people.
enum { TABLE_MAX_COLUMNS = 24, TABLE_CELL = 96 };
struct table {
    struct {
        const char *name;
        bool left;     // words; numbers stand right
        bool optional; // left out where all cells are alike
    } column[TABLE_MAX_COLUMNS];
    int32_t n_columns;
    char (*cell)[TABLE_CELL]; // [n_rows, n_columns], then the row being filled
    char **note;              // [n_rows] below the row (Markdown: a last column), or NULL
    int32_t n_cells, n_notes;
    bool failed; // no memory: prints what there is
};
void table_column(struct table *t, const char *name, bool left, bool optional); // all before the first cell
void table_cell(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_note(struct table *t, const char *text); // of the row whose cells are complete; "" is none
void table_print(FILE *f, const struct table *t, bool markdown);
void table_free(struct table *t); // accepts zeroed

#endif
