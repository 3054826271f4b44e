// kvbench tokenize: text on standard input to token ids, or back; one text, or JSON arrays of many.
#include "bench/command.h"

#include "engine/base/json.h"
#include "engine/base/units.h"
#include "engine/base/utf8.h"
#include "engine/load/tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char STDIN_NAME[] = "standard input";

struct input {
    char *text; // owned, zero-terminated
    size_t size;
};

static bool read_input(struct input *in, struct error *e)
{
    size_t capacity = 0;
    *in = (struct input){0};
    do {
        if (in->size + 1 >= capacity) {
            capacity = 2 * capacity + 65536;
            char *grown = realloc(in->text, capacity);
            if (!grown)
                return error_set(e, ERROR_MEMORY, "no memory for %s", STDIN_NAME);
            in->text = grown;
        }
        in->size += fread(in->text + in->size, 1, capacity - in->size - 1, stdin);
    } while (!feof(stdin) && !ferror(stdin));
    in->text[in->size] = 0;
    return !ferror(stdin) || error_set(e, ERROR_FILE, "%s: %s", STDIN_NAME, strerror(errno));
}

// ---- JSON in: cJSON's strings end at a zero, so \u0000 is read as a byte that UTF-8 never has, and turned back after.
enum { ZERO_MARK = 0xff };

static void mark_zeros(struct input *in)
{
    size_t to = 0;
    for (size_t at = 0; at < in->size; at++) {
        bool zero = in->size - at >= 6 && !memcmp(in->text + at, "\\u0000", 6);
        if (!zero && in->text[at] == '\\' && at + 1 < in->size)
            in->text[to++] = in->text[at++]; // an escape is two bytes at least, the second is no beginning of one
        in->text[to++] = zero ? (char)ZERO_MARK : in->text[at];
        at += zero ? 5 : 0;
    }
    in->size = to;
    in->text[to] = 0;
}

static size_t unmark_zeros(char *text)
{
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] == ZERO_MARK)
            text[i] = 0;
    return size;
}

static bool parse_input(struct input *in, cJSON **list, struct error *e)
{
    *list = NULL;
    if (utf8_valid_size(in->text, in->size) != in->size)
        return error_set(e, ERROR_FILE, "'%s': not valid UTF-8", STDIN_NAME);
    mark_zeros(in);
    if (!json_parse(in->text, in->size, STDIN_NAME, list, e))
        return false;
    return cJSON_IsArray(*list) || error_set(e, ERROR_FILE, "'%s': expected a JSON array", STDIN_NAME);
}

// ---- encode

static void put_ids(FILE *f, const struct token_list *ids, const char *between)
{
    for (int32_t i = 0; i < ids->n; i++)
        fprintf(f, "%s%d", i ? between : "", ids->id[i]);
}

static bool encode_item(FILE *f, const struct tokenizer *t, const cJSON *item, bool special, struct error *e)
{
    struct token_list ids = {0};
    if (!cJSON_IsString(item))
        return error_set(e, ERROR_FILE, "'%s': expected an array of strings", STDIN_NAME);
    bool ok = tokenizer_encode(t, item->valuestring, unmark_zeros(item->valuestring), special, &ids, e);
    fputc('[', f);
    put_ids(f, &ids, ",");
    fputc(']', f);
    token_list_free(&ids);
    return ok;
}

static bool encode_json(FILE *f, const struct tokenizer *t, const cJSON *list, bool special, struct error *e)
{
    const cJSON *item;
    fputc('[', f);
    cJSON_ArrayForEach(item, list)
    {
        if (item != list->child)
            fputc(',', f);
        if (!encode_item(f, t, item, special, e))
            return false;
    }
    fputs("]\n", f);
    return true;
}

static bool encode_text(FILE *f, const struct tokenizer *t, const struct input *in, bool special, struct error *e)
{
    struct token_list ids = {0};
    bool ok = tokenizer_encode(t, in->text, in->size, special, &ids, e);
    put_ids(f, &ids, " ");
    fputc('\n', f);
    token_list_free(&ids);
    return ok;
}

// ---- decode

static bool push(struct token_list *ids, double v, struct error *e)
{
    if (!(v >= 0 && v <= INT32_MAX) || v != (int32_t)v)
        return error_set(e, ERROR_FILE, "'%s': %g is no token id", STDIN_NAME, v);
    if (ids->n == ids->capacity) {
        int32_t capacity = 2 * ids->capacity + 1024;
        int32_t *grown = realloc(ids->id, (size_t)capacity * sizeof *grown);
        if (!grown)
            return error_set(e, ERROR_MEMORY, "no memory for %d tokens", capacity);
        ids->id = grown, ids->capacity = capacity;
    }
    ids->id[ids->n++] = (int32_t)v;
    return true;
}

static bool decode_ids(FILE *f, const struct tokenizer *t, const struct token_list *ids, bool json, struct error *e)
{
    char *text;
    size_t size;
    if (!tokenizer_decode(t, ids->id, ids->n, false, &text, &size, e))
        return false;
    if (json)
        json_write_text(f, text, size);
    else
        fwrite(text, 1, size, f);
    free(text);
    return true;
}

static bool decode_item(FILE *f, const struct tokenizer *t, const cJSON *array, struct error *e)
{
    const cJSON *item;
    struct token_list ids = {0};
    bool ok = cJSON_IsArray(array) ||
              error_set(e, ERROR_FILE, "'%s': expected an array of id arrays, or one array of ids", STDIN_NAME);
    cJSON_ArrayForEach(item, array)
    {
        ok = ok && push(&ids, cJSON_IsNumber(item) ? item->valuedouble : -1, e);
    }
    ok = ok && decode_ids(f, t, &ids, true, e);
    token_list_free(&ids);
    return ok;
}

static bool decode_json(FILE *f, const struct tokenizer *t, const cJSON *list, struct error *e)
{
    bool one = cJSON_IsNumber(list->child);
    fputc('[', f);
    if (one && !decode_item(f, t, list, e))
        return false;
    for (const cJSON *item = one ? NULL : list->child; item; item = item->next) {
        if (item != list->child)
            fputc(',', f);
        if (!decode_item(f, t, item, e))
            return false;
    }
    fputs("]\n", f);
    return true;
}

static bool decode_text(FILE *f, const struct tokenizer *t, const struct input *in, struct error *e)
{
    struct token_list ids = {0};
    bool ok = true;
    for (char *at = in->text, *end; ok && at[strspn(at, " \t\r\n")]; at = end) {
        double v = strtod(at, &end);
        ok = end == at ? error_set(e, ERROR_FILE, "'%s': expected token ids separated by spaces", STDIN_NAME)
                       : push(&ids, v, e);
    }
    ok = ok && decode_ids(f, t, &ids, false, e);
    token_list_free(&ids);
    return ok;
}

// ---- speed

// Time of this thread's core, which others on the machine take less from than from the clock on the wall.
static int64_t core_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// The whole text again and again, for a second and three times at least; the fastest counts.
static bool print_speed(FILE *f, const struct options *o, const struct tokenizer *t, const struct input *in, struct error *e)
{
    struct token_list ids = {0};
    int64_t begin = clock_ns(), best = INT64_MAX;
    bool ok = true;
    for (int n = 0; ok && (n < 3 || clock_ns() - begin < 1000000000); n++) {
        int64_t from = core_ns();
        ids.n = 0;
        ok = tokenizer_encode(t, in->text, in->size, o->special, &ids, e);
        int64_t took = core_ns() - from;
        best = took < best ? took : best;
    }
    if (ok)
        fprintf(f, "%.1f MB/s, %zu bytes are %d tokens\n", 1e3 * (double)in->size / (double)(best ? best : 1), in->size,
                ids.n);
    token_list_free(&ids);
    return ok;
}

// ---- the command

static bool convert(FILE *f, const struct options *o, const struct tokenizer *t, struct input *in, struct error *e)
{
    cJSON *list = NULL;
    if (o->speed)
        return print_speed(f, o, t, in, e);
    if (!o->json)
        return o->decode ? decode_text(f, t, in, e) : encode_text(f, t, in, o->special, e);
    bool ok = parse_input(in, &list, e) && (o->decode ? decode_json(f, t, list, e) : encode_json(f, t, list, o->special, e));
    cJSON_Delete(list);
    return ok;
}

// Output goes through memory, so that a failure prints nothing but its message.
static bool run(const struct options *o, const struct tokenizer *t, struct input *in, struct error *e)
{
    char *out = NULL;
    size_t size = 0;
    if (!read_input(in, e))
        return false;
    FILE *f = open_memstream(&out, &size);
    bool ok = f ? convert(f, o, t, in, e) : error_set(e, ERROR_MEMORY, "no memory for the output");
    if (f && fclose(f))
        ok = error_set(e, ERROR_MEMORY, "no memory for the output");
    if (ok)
        fwrite(out, 1, size, stdout);
    free(out);
    return ok;
}

bool cmd_tokenize(const struct options *o, struct error *e)
{
    struct tokenizer *t;
    struct input in = {0};
    if (!o->model)
        return error_set(e, ERROR_USAGE, "option '--model' is missing: a tokenizer.json, a folder with one, or a GGUF file");
    if (o->n_args)
        return error_set(e, ERROR_USAGE, "unexpected argument '%.60s': text is read from standard input", o->arg[0]);
    if (o->speed && (o->json || o->decode))
        return error_set(e, ERROR_USAGE, "'--speed' encodes plain text, without --json and --decode");
    if (!tokenizer_open(&t, o->model, e))
        return false;
    bool ok = run(o, t, &in, e);
    free(in.text);
    tokenizer_close(t);
    return ok;
}
