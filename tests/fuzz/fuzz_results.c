// Results as explain, compare and report read them. The input is the files of one, in their order and parted by a byte 0x1e:
// rows (.jsonl where the first byte is a brace, else .csv), operations (.ops.csv), .meta.json, and the rows that it is
// compared with (none: its own). Whatever is accepted is explained and compared without a word but on standard output, which
// nobody reads here, and makes a page in which every coordinate is a number and nothing that a file says is a script.
#include "bench/command.h"
#include "bench/report/report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PARTS = 4, PATH = 96 };

static char folder[64];

static const char *const NAME[] = {"a.jsonl", "a.csv", "a.ops.csv", "a.meta.json", "b.jsonl", "b.csv"};
enum { A_JSONL, A_CSV, A_OPS, A_META, B_JSONL, B_CSV, NAMES };

static const char *path_of(int name, char out[PATH])
{
    snprintf(out, PATH, "%s/%s", folder, NAME[name]);
    return out;
}

static void remove_files(void)
{
    char path[PATH];
    for (int i = 0; i < NAMES; i++)
        unlink(path_of(i, path));
}

static void remove_folder(void)
{
    remove_files();
    rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    const char *memory = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm"; // thousands of files a second
    snprintf(folder, sizeof folder, "%s/kvbench-fuzz-XXXXXX", memory);
    if (!mkdtemp(folder) || atexit(remove_folder) || !freopen("/dev/null", "w", stdout))
        abort();
    return 0;
}

struct part {
    const char *data;
    size_t size;
};

static void split(const uint8_t *data, size_t size, struct part out[PARTS])
{
    const char *at = (const char *)data, *end = at + size, *next;
    for (int i = 0; i < PARTS; i++, at = next < end ? next + 1 : end) {
        next = i == PARTS - 1 || at == end ? NULL : memchr(at, 0x1e, (size_t)(end - at));
        next = next ? next : end;
        out[i] = (struct part){at, (size_t)(next - at)};
    }
}

static void write_part(int name, const struct part *part)
{
    char path[PATH];
    FILE *f = part->size ? fopen(path_of(name, path), "wb") : NULL;
    if (f && (fwrite(part->data, 1, part->size, f) != part->size || fclose(f)))
        abort();
}

static int rows_name(const struct part *part, int jsonl, int csv)
{
    return part->size && *part->data == '{' ? jsonl : csv;
}

// A command as its user calls it. What it refuses it says why.
static void call(bool (*command)(const struct options *, struct error *), int bit, int argc, char **argv)
{
    struct options o;
    struct error e = {0};
    if (!options_parse(&o, bit, argc, argv, &e) || (!command(&o, &e) && !*e.message))
        abort();
    options_free(&o);
}

// The values of attributes that place something: no data can stand there, since its quotes are escaped.
static void check_coordinates(const char *page)
{
    static const char *const ATTRIBUTE[] = {" d=\"", " x=\"", " y=\"", " x1=\"", " y1=\"", " width=\"", " viewBox=\""};
    for (size_t i = 0; i < sizeof ATTRIBUTE / sizeof *ATTRIBUTE; i++)
        for (const char *at = page; (at = strstr(at, ATTRIBUTE[i]));) {
            at += strlen(ATTRIBUTE[i]);
            if (at[strspn(at, "0123456789.-+ ,%MmLlHhVvAaZz")] != '"')
                abort();
        }
}

static void check_page(const char *page)
{
    const char *script = strstr(page, "<script");
    if (!script || strstr(script + 1, "<script"))
        abort();
    check_coordinates(page);
}

static void report(const char *a, const char *b)
{
    const char *const path[] = {a, b};
    struct report r;
    struct error e = {0};
    char *page = NULL;
    size_t size;
    if (!report_open(&r, path, 2, &e)) {
        if (!*e.message)
            abort();
        return;
    }
    FILE *f = open_memstream(&page, &size);
    report_write(f, &r);
    fclose(f);
    check_page(page);
    free(page);
    report_close(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct part part[PARTS];
    char a[PATH], b[PATH];
    split(data, size, part);
    int rows = rows_name(&part[0], A_JSONL, A_CSV), others = rows_name(&part[3], B_JSONL, B_CSV);
    write_part(rows, &part[0]);
    write_part(A_OPS, &part[1]);
    write_part(A_META, &part[2]);
    write_part(others, &part[3]);
    path_of(rows, a);
    path_of(part[3].size ? others : rows, b);
    call(cmd_explain, ON_EXPLAIN, 2, (char *[]){"explain", a, NULL});
    call(cmd_explain, ON_EXPLAIN, 4, (char *[]){"explain", a, "--point", "1", NULL});
    call(cmd_explain, ON_EXPLAIN, 4, (char *[]){"explain", a, "-o", "json", NULL});
    call(cmd_compare, ON_COMPARE, 3, (char *[]){"compare", a, b, NULL});
    call(cmd_compare, ON_COMPARE, 5, (char *[]){"compare", a, b, "--by", "fraction", NULL});
    report(a, b);
    remove_files();
    return 0;
}
