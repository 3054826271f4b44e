#include "bench/store.h"

#include "bench/output_file.h"
#include "bench/roofs.h"
#include "engine/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// What a scenario's files end in.
static const char *const SUFFIX[] = {".jsonl",     ".blocks.jsonl", ".csv",       ".ops.csv",
                                     ".roofs.csv", ".meta.json",    ".trace.json"};
enum { ROWS, BLOCKS, CSV, OPS_CSV, ROOFS_CSV, META, TRACE, N_SUFFIXES, PATH_SIZE = OUTPUT_PATH };

static const char *path_of(const struct store *s, int suffix, char out[PATH_SIZE])
{
    snprintf(out, PATH_SIZE, "%s/%s%s", s->folder, s->name, SUFFIX[suffix]);
    return out;
}

static void format_utc(time_t t, const char *format, char out[32])
{
    struct tm tm;
    gmtime_r(&t, &tm);
    strftime(out, 32, format, &tm);
}

void utc_now(char out[32])
{
    format_utc(time(NULL), "%Y-%m-%dT%H:%M:%SZ", out);
}

static bool write_meta(struct store *s, const char *finished, struct error *e)
{
    char path[PATH_SIZE];
    cJSON_DeleteItemFromObject(s->meta, "finished");
    cJSON_AddItemToObject(s->meta, "finished", finished ? cJSON_CreateString(finished) : cJSON_CreateNull());
    char *text = cJSON_Print(s->meta);
    bool ok = write_file(path_of(s, META, path), text, e);
    free(text);
    return ok;
}

// Rows in memory.

static bool keep_row(struct store *s, struct stored row, struct error *e)
{
    if (s->n_rows == s->capacity) {
        int32_t capacity = s->capacity ? 2 * s->capacity : 64;
        struct stored *grown = realloc(s->row, (size_t)capacity * sizeof *grown);
        if (!grown)
            return error_set(e, ERROR_MEMORY, "no memory for %d results", capacity);
        s->row = grown;
        s->capacity = capacity;
    }
    s->row[s->n_rows++] = row;
    return true;
}

void stored_free(struct stored *row)
{
    result_free(&row->result);
    free(row->op);
}

static bool keep_block(struct store *s, struct sample_block block, struct error *e)
{
    if (s->n_blocks == s->blocks_capacity) {
        int32_t capacity = s->blocks_capacity ? 2 * s->blocks_capacity : 64;
        struct sample_block *grown = realloc(s->block, (size_t)capacity * sizeof *grown);
        if (!grown)
            return error_set(e, ERROR_MEMORY, "no memory for %d blocks of samples", capacity);
        s->block = grown;
        s->blocks_capacity = capacity;
    }
    s->block[s->n_blocks++] = block;
    return true;
}

const struct stored *store_find(const struct store *s, const char *key)
{
    for (int32_t i = 0; i < s->n_rows; i++)
        if (!strcmp(s->row[i].result.key, key))
            return &s->row[i];
    return NULL;
}

// Lines of JSON.

static cJSON *stored_json(const struct stored *row)
{
    int32_t n, n_op;
    const struct column *column = result_columns(&n), *op_column = op_columns(&n_op);
    cJSON *json = row_json(column, n, &row->result), *ops = cJSON_AddArrayToObject(json, "ops");
    for (int32_t i = 0; i < row->n_ops; i++)
        cJSON_AddItemToArray(ops, row_json(op_column, n_op, &row->op[i]));
    return json;
}

// What is written to a file that was removed or replaced would be lost without a word.
static bool still_there(FILE *f, const char *path, struct error *e)
{
    struct stat open_file, named;
    if (fstat(fileno(f), &open_file) || stat(path, &named))
        return output_failed(path, e);
    return open_file.st_ino == named.st_ino ||
           error_set(e, ERROR_OUTPUT, "'%s' was replaced while it was being written", path);
}

static bool append_line(FILE *f, cJSON *json, const char *path, struct error *e)
{
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    if (!text)
        return error_set(e, ERROR_MEMORY, "no memory for a line of '%s'", path);
    fprintf(f, "%s\n", text);
    free(text);
    return output_flush(f, path, e);
}

static bool read_ops(const cJSON *list, const char *where, struct stored *row, struct error *e)
{
    int32_t n;
    const struct column *column = op_columns(&n);
    row->op = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *row->op);
    if (!row->op)
        return error_set(e, ERROR_MEMORY, "no memory for the operations of '%s'", where);
    for (const cJSON *m = list ? list->child : NULL; m; m = m->next) {
        op_result_init(&row->op[row->n_ops]);
        if (!row_from_json(column, n, m, where, &row->op[row->n_ops++], e))
            return false;
    }
    return true;
}

bool stored_from_json(struct stored *row, const cJSON *json, const char *where, struct error *e)
{
    int32_t n;
    const struct column *column = result_columns(&n);
    *row = (struct stored){0};
    result_init(&row->result);
    return row_from_json(column, n, json, where, &row->result, e) && read_ops(json_member(json, "ops"), where, row, e);
}

static bool read_row(struct store *s, const cJSON *json, const char *where, struct error *e)
{
    struct stored row;
    bool ok = stored_from_json(&row, json, where, e);
    bool keep = ok && row.result.key[0] && strcmp(row.result.verdict, "failed") && !store_find(s, row.result.key);
    if (keep && keep_row(s, row, e))
        return true;
    stored_free(&row);
    return ok && !keep;
}

static bool read_block(struct store *s, const cJSON *json, const char *where, struct error *e)
{
    struct sample_block b;
    if (!sample_block_parse(&b, json, where, e))
        return false;
    bool ok = keep_block(s, b, e);
    if (!ok)
        free(b.sample_ns);
    return ok;
}

// Calls one for each line that ends in a newline: what a killed process had half written is dropped.
static bool each_line(struct store *s, const char *path,
                      bool (*one)(struct store *, const cJSON *, const char *where, struct error *), struct error *e)
{
    struct file file;
    if (!file_exists(path))
        return true;
    if (!file_open(&file, path, e))
        return false;
    bool ok = true;
    const char *at = file.data, *end = at + file.size, *newline;
    for (int line = 1; ok && at < end && (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1, line++) {
        char where[PATH_SIZE];
        cJSON *json;
        snprintf(where, sizeof where, "%.600s:%d", path, line);
        ok = json_parse(at, (size_t)(newline - at), where, &json, e) && one(s, json, where, e);
        cJSON_Delete(json);
    }
    file_close(&file);
    return ok;
}

// Opening.

static bool keep_hardware(struct store *s, const struct hardware *hw, struct error *e)
{
    int32_t i = 0;
    while (i < s->n_hw && strcmp(s->hw[i].name, hw->name))
        i++;
    if (i == s->n_hw) {
        struct hardware *grown = realloc(s->hw, (size_t)(s->n_hw + 1) * sizeof *grown);
        if (!grown)
            return error_set(e, ERROR_MEMORY, "no memory for the ceilings of '%s'", hw->name);
        s->hw = grown;
        s->n_hw++;
    }
    s->hw[i] = *hw;
    return true;
}

static bool read_ceilings(struct store *s, const char *where, struct error *e)
{
    const cJSON *list = json_member(s->meta, "ceilings");
    for (const cJSON *m = cJSON_IsArray(list) ? list->child : NULL; m; m = m->next) {
        struct hardware hw;
        if (!hardware_parse(&hw, m, where, e) || !keep_hardware(s, &hw, e))
            return false;
    }
    return true;
}

// What the interrupted sweep knew stays known: when it began, its notes, and its ceilings until they are looked up again.
static void inherit(struct store *s, cJSON *old)
{
    static const char *const KEY[] = {"started", "ceilings", "notes"};
    for (size_t i = 0; i < sizeof KEY / sizeof *KEY; i++) {
        cJSON *value = cJSON_DetachItemFromObjectCaseSensitive(old, KEY[i]);
        if (!value)
            continue;
        cJSON_DeleteItemFromObjectCaseSensitive(s->meta, KEY[i]);
        cJSON_AddItemToObject(s->meta, KEY[i], value);
    }
}

static bool read_old_meta(struct store *s, const struct scenario *scenario, struct error *e)
{
    char path[PATH_SIZE], hash[17];
    const char *old = "";
    cJSON *meta;
    if (!json_load(path_of(s, META, path), &meta, e))
        return false;
    scenario_hash(scenario, hash);
    bool ok = json_string(meta, path, "scenario_hash", &old, e);
    if (ok && strcmp(old, hash))
        ok =
            error_set(e, ERROR_USAGE, "'%s' comes from another scenario (hash %.16s, this one has %s): run without --resume",
                      path, old, hash);
    if (ok)
        inherit(s, meta);
    cJSON_Delete(meta);
    return ok && read_ceilings(s, path, e);
}

// Rows that stay are written anew: without the failed ones and without half a line at the end.
static bool rewrite_rows(struct store *s, struct error *e)
{
    char path[PATH_SIZE];
    struct replacement r;
    if (!replacement_open(&r, path_of(s, ROWS, path), e))
        return false;
    bool ok = true;
    for (int32_t i = 0; ok && i < s->n_rows; i++)
        ok = append_line(r.f, stored_json(&s->row[i]), path, e);
    return replacement_close(&r, ok, e);
}

static bool read_old(struct store *s, const struct scenario *scenario, struct error *e)
{
    char path[PATH_SIZE];
    if (!file_exists(path_of(s, ROWS, path)))
        return true;
    return read_old_meta(s, scenario, e) && each_line(s, path_of(s, ROWS, path), read_row, e) &&
           each_line(s, path_of(s, BLOCKS, path), read_block, e);
}

static bool load_old(struct store *s, const struct scenario *scenario, struct error *e)
{
    char path[PATH_SIZE];
    return read_old(s, scenario, e) && (!file_exists(path_of(s, ROWS, path)) || rewrite_rows(s, e));
}

// When the files of this name were written, by the first that is there; false if none is.
static bool find_old(const struct store *s, struct stat *st)
{
    char path[PATH_SIZE];
    for (int i = 0; i < N_SUFFIXES; i++)
        if (!stat(path_of(s, i, path), st))
            return true;
    return false;
}

// The date of the old result, and a number behind it where that name is taken.
static bool name_of_old(const struct store *s, const struct stat *st, char out[PATH_SIZE], struct error *e)
{
    char path[PATH_SIZE + 16], date[32];
    format_utc(st->st_mtime, "%Y%m%dT%H%M%SZ", date);
    for (int i = 1; i < 1000; i++) {
        char number[16] = "";
        bool taken = false;
        if (i > 1)
            snprintf(number, sizeof number, "-%d", i);
        snprintf(out, PATH_SIZE, "%s/old/%s-%s%s", s->folder, s->name, date, number);
        for (int k = 0; k < N_SUFFIXES; k++) {
            snprintf(path, sizeof path, "%s%s", out, SUFFIX[k]);
            taken |= file_exists(path);
        }
        if (!taken)
            return true;
    }
    return error_set(e, ERROR_OUTPUT, "'%s' is full of older results of '%s'", s->folder, s->name);
}

static bool move_old(struct store *s, struct error *e)
{
    char from[PATH_SIZE], to[PATH_SIZE + 16], base[PATH_SIZE], folder[PATH_SIZE];
    struct stat st;
    if (!find_old(s, &st))
        return true;
    snprintf(folder, sizeof folder, "%s/old", s->folder);
    if (!make_folder(folder, e) || !name_of_old(s, &st, base, e))
        return false;
    for (int i = 0; i < N_SUFFIXES; i++) {
        snprintf(to, sizeof to, "%s%s", base, SUFFIX[i]);
        if (rename(path_of(s, i, from), to) && errno != ENOENT)
            return output_failed(to, e);
    }
    snprintf(s->moved_to, sizeof s->moved_to, "%.630s", base);
    return true;
}

static FILE *open_append(const struct store *s, int suffix, struct error *e)
{
    char path[PATH_SIZE];
    FILE *f = fopen(path_of(s, suffix, path), "ae");
    if (!f)
        output_failed(path, e);
    return f;
}

// Whoever writes a result holds a lock on its rows, which ends with the process, however that ends.
static bool lock_rows(const struct store *s, int fd, struct error *e)
{
    char path[PATH_SIZE];
    if (!flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
        return true; // a file system without locks is no reason not to measure
    return error_set(e, ERROR_OUTPUT, "'%s' is being written by another kvbench", path_of(s, ROWS, path));
}

// Before anything is moved or read: the rows that are there may belong to a sweep that still runs.
static bool check_idle(const struct store *s, struct error *e)
{
    char path[PATH_SIZE];
    int fd = open(path_of(s, ROWS, path), O_RDONLY | O_CLOEXEC);
    bool ok = fd < 0 || lock_rows(s, fd, e);
    if (fd >= 0)
        close(fd);
    return ok;
}

static bool write_roofs(const struct store *s, struct error *e)
{
    char path[PATH_SIZE];
    struct replacement r;
    if (!replacement_open(&r, path_of(s, ROOFS_CSV, path), e))
        return false;
    roofs_csv(r.f, s->hw, s->n_hw);
    return replacement_close(&r, true, e);
}

// The files of this sweep, with the blocks that were held back.
static bool begin(struct store *s, struct error *e)
{
    char path[PATH_SIZE];
    bool held = s->waits;
    s->waits = false;
    bool ok = (!held || (check_idle(s, e) && move_old(s, e))) && (s->rows = open_append(s, ROWS, e)) &&
              lock_rows(s, fileno(s->rows), e) && write_meta(s, NULL, e) && (s->blocks = open_append(s, BLOCKS, e)) &&
              (!s->n_hw || write_roofs(s, e));
    for (int32_t i = 0; ok && held && i < s->n_blocks; i++)
        ok = append_line(s->blocks, sample_block_json(&s->block[i]), path_of(s, BLOCKS, path), e);
    return ok;
}

// That files can be made where begin() will make them.
static bool check_writable(const struct store *s, struct error *e)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/.%s.new", s->folder, s->name);
    FILE *f = fopen(path, "we");
    if (!f)
        return output_failed(s->folder, e);
    fclose(f);
    unlink(path);
    return true;
}

static void set_names(struct store *s, const char *folder, const struct scenario *scenario)
{
    snprintf(s->folder, sizeof s->folder, "%s", folder);
    snprintf(s->name, sizeof s->name, "%s", scenario->name);
}

bool store_open(struct store *s, const char *folder, const struct scenario *scenario, bool resume, cJSON *meta,
                struct error *e)
{
    struct stat st;
    *s = (struct store){.on_disk = folder, .meta = meta};
    if (!folder)
        return true;
    bool ok = (*folder && strlen(folder) < sizeof s->folder) ||
              error_set(e, ERROR_USAGE, "the folder of results has a name of %zu bytes, expected 1 to %zu", strlen(folder),
                        sizeof s->folder - 1);
    set_names(s, folder, scenario);
    ok = ok && make_folder(folder, e) && check_idle(s, e) && (!resume || load_old(s, scenario, e));
    s->waits = ok && !resume && find_old(s, &st);
    ok = ok && (s->waits ? check_writable(s, e) : begin(s, e));
    if (!ok)
        store_close(s);
    return ok;
}

bool store_peek(struct store *s, const char *folder, const struct scenario *scenario, struct error *e)
{
    *s = (struct store){.meta = cJSON_CreateObject()};
    set_names(s, folder, scenario);
    if (read_old(s, scenario, e))
        return true;
    store_close(s);
    return false;
}

void store_close(struct store *s)
{
    for (int32_t i = 0; i < s->n_rows; i++)
        stored_free(&s->row[i]);
    for (int32_t i = 0; i < s->n_blocks; i++)
        free(s->block[i].sample_ns);
    free(s->row);
    free(s->block);
    free(s->hw);
    if (s->rows)
        fclose(s->rows);
    if (s->blocks)
        fclose(s->blocks);
    cJSON_Delete(s->meta);
    *s = (struct store){0};
}

bool store_add(struct store *s, struct result *row, struct op_result *op, int32_t n_ops, struct error *e)
{
    char path[PATH_SIZE];
    struct stored stored = {.result = *row, .op = op, .n_ops = n_ops};
    *row = (struct result){0};
    if (!keep_row(s, stored, e)) {
        stored_free(&stored);
        return false;
    }
    if (s->waits && !begin(s, e))
        return false;
    return !s->on_disk ||
           (append_line(s->rows, stored_json(&stored), path_of(s, ROWS, path), e) && still_there(s->rows, path, e));
}

static bool hold_block(struct store *s, const struct sample_block *block, struct error *e)
{
    struct sample_block copy;
    if (!sample_block_copy(&copy, block, e))
        return false;
    bool ok = keep_block(s, copy, e);
    if (!ok)
        free(copy.sample_ns);
    return ok;
}

bool store_add_block(struct store *s, const struct sample_block *block, struct error *e)
{
    char path[PATH_SIZE];
    if (s->waits)
        return hold_block(s, block, e);
    return !s->on_disk || (append_line(s->blocks, sample_block_json(block), path_of(s, BLOCKS, path), e) &&
                           still_there(s->blocks, path, e));
}

static bool write_csv(const struct store *s, struct error *e)
{
    char path[PATH_SIZE];
    int32_t n;
    const struct column *column = result_columns(&n);
    struct replacement r;
    if (!replacement_open(&r, path_of(s, CSV, path), e))
        return false;
    csv_header(r.f, column, n);
    for (int32_t i = 0; i < s->n_rows; i++)
        csv_row(r.f, column, n, &s->row[i].result);
    return replacement_close(&r, true, e);
}

static bool write_ops_csv(const struct store *s, struct error *e)
{
    char path[PATH_SIZE];
    int32_t n;
    const struct column *column = op_columns(&n);
    struct replacement r;
    if (!replacement_open(&r, path_of(s, OPS_CSV, path), e))
        return false;
    csv_header(r.f, column, n);
    for (int32_t i = 0; i < s->n_rows; i++)
        for (int32_t k = 0; k < s->row[i].n_ops; k++)
            csv_row(r.f, column, n, &s->row[i].op[k]);
    return replacement_close(&r, true, e);
}

void store_note(struct store *s, const char *format, ...)
{
    char text[320];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cJSON *list = cJSON_GetObjectItemCaseSensitive(s->meta, "notes");
    if (!list)
        list = cJSON_AddArrayToObject(s->meta, "notes");
    for (const cJSON *m = list ? list->child : NULL; m; m = m->next)
        if (cJSON_IsString(m) && !strcmp(m->valuestring, text))
            return;
    cJSON_AddItemToArray(list, cJSON_CreateString(text));
}

bool store_hardware(struct store *s, const struct hardware *hw, struct error *e)
{
    if (!keep_hardware(s, hw, e))
        return false;
    cJSON *list = cJSON_CreateArray();
    for (int32_t i = 0; i < s->n_hw; i++)
        cJSON_AddItemToArray(list, hardware_json(&s->hw[i]));
    cJSON_DeleteItemFromObject(s->meta, "ceilings");
    cJSON_AddItemToObject(s->meta, "ceilings", list);
    return !s->on_disk || s->waits || (write_roofs(s, e) && write_meta(s, NULL, e));
}

bool store_finish(struct store *s, bool complete, struct error *e)
{
    char path[PATH_SIZE], now[32];
    if (!s->on_disk || s->waits)
        return true;
    utc_now(now);
    bool ok = write_csv(s, e) && write_ops_csv(s, e) && write_meta(s, complete ? now : NULL, e);
    if (ok && complete)
        unlink(path_of(s, BLOCKS, path));
    return ok;
}
