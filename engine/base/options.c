#include "engine/base/options.h"

#include "engine/base/names.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum option_kind { KIND_flag, KIND_int, KIND_real, KIND_text, KIND_ints, KIND_texts };

static const struct row {
    const char *flags, *fallback, *help;
    enum option_kind kind;
    int commands;
    size_t offset, has_offset;
} ROW[] = {
#define X(field, kind, flags, fallback, commands, help)                                                                     \
    {flags, fallback, help, KIND_##kind, commands, offsetof(struct options, field), offsetof(struct options, has_##field)},
    OPTIONS(X)
#undef X
};
enum { N_ROWS = sizeof ROW / sizeof *ROW, MAX_LIST = 4096, MAX_FLAGS = 256 };

static const char *const COMMAND[] = {"sweep",   "run",    "predict", "ceilings",   "generate", "tokenize", "verify",
                                      "list",    "kvcalc", "plot",    "perplexity", "export",   "inspect",  "explain",
                                      "compare", "doctor", "report",  "import",     "bench"}; // by bit
enum { N_COMMANDS = sizeof COMMAND / sizeof *COMMAND };

// The next flag of a comma-separated list into buffer; NULL at the end.
static const char *next_flag(const char *flags, char buffer[32])
{
    size_t n = strcspn(flags, ",");
    if (!n)
        return NULL;
    snprintf(buffer, 32, "%.*s", (int)n, flags);
    return flags + n + (flags[n] == ',');
}

static const struct row *find_row(int command, const char *flag)
{
    char name[32];
    for (int i = 0; i < N_ROWS; i++)
        for (const char *f = ROW[i].flags; (f = next_flag(f, name));)
            if ((ROW[i].commands & command) && !strcmp(flag, name))
                return &ROW[i];
    return NULL;
}

// An option that exists, but not here.
static bool misplaced_option(const char *flag, struct error *e)
{
    const struct row *row = find_row(~0, flag);
    char where[160] = "";
    for (int i = 0; i < N_COMMANDS; i++)
        if (row->commands & 1 << i)
            snprintf(where + strlen(where), sizeof where - strlen(where), "%s%s", *where ? ", " : "", COMMAND[i]);
    return error_set(e, ERROR_USAGE, "option '%.60s' is none of this command, only of %s", flag, where);
}

static bool unknown_option(int command, const char *flag, struct error *e)
{
    if (find_row(~0, flag))
        return misplaced_option(flag, e);
    static char names[MAX_FLAGS][32];
    const char *list[MAX_FLAGS];
    int n = 0;
    for (int i = 0; i < N_ROWS; i++)
        for (const char *f = ROW[i].flags; n < MAX_FLAGS && (f = next_flag(f, names[n]));)
            if (ROW[i].commands & command)
                list[n] = names[n], n++;
    const char *near = names_nearest(flag, list, n);
    return error_set(e, ERROR_USAGE, "unknown option '%.60s'%s%s%s", flag, near ? ", did you mean '" : "", near ? near : "",
                     near ? "'?" : "");
}

static bool parse_long(const char *text, const char **end, int32_t *out)
{
    errno = 0;
    long v = strtol(text, (char **)end, 10);
    *out = (int32_t)v;
    return *end != text && !errno && v >= INT32_MIN && v <= INT32_MAX;
}

// Counts may end in k, which is 1024 as in the names of context lengths.
static bool parse_count(const char *text, const char **end, int32_t *out)
{
    if (!parse_long(text, end, out))
        return false;
    if (**end != 'k' && **end != 'K')
        return true;
    ++*end;
    return !__builtin_mul_overflow(*out, 1024, out);
}

static bool push(struct int_list *list, int32_t v)
{
    if (list->n >= MAX_LIST)
        return false;
    int32_t *grown = realloc(list->value, (size_t)(list->n + 1) * sizeof *grown);
    if (!grown)
        return false;
    list->value = grown;
    list->value[list->n++] = v;
    return true;
}

// "a", "a-b", "a-b+step" or "a-b*factor".
static bool parse_range(const char *text, const char **end, struct int_list *out)
{
    int32_t first, last, step = 1;
    char how = '+';
    if (!parse_count(text, end, &first))
        return false;
    last = first;
    if (**end == '-' && !parse_count(*end + 1, end, &last))
        return false;
    if (**end == '+' || **end == '*') {
        how = **end;
        if (!parse_count(*end + 1, end, &step))
            return false;
    }
    if (last < first || step < 1 || (how == '*' && (step < 2 || first < 1)))
        return false;
    for (int64_t v = first; v <= last; v = how == '*' ? v * step : v + step)
        if (!push(out, (int32_t)v))
            return false;
    return true;
}

bool int_list_parse(const char *text, struct int_list *out, struct error *e)
{
    const char *at = text;
    *out = (struct int_list){0};
    for (;;) {
        if (!parse_range(at, &at, out) || (*at && *at != ',')) {
            free(out->value);
            *out = (struct int_list){0};
            return error_set(e, ERROR_USAGE, "'%.60s' is no list of numbers, expected such as 512,1024 or 1-64*2", text);
        }
        if (!*at)
            return true;
        at++;
    }
}

static bool parse_texts(const char *text, struct text_list *out, bool split, struct error *e)
{
    for (bool more = true; more;) {
        size_t n = split ? strcspn(text, ",") : strlen(text);
        char **grown = realloc(out->value, (size_t)(out->n + 1) * sizeof *grown);
        if (!grown)
            return error_set(e, ERROR_MEMORY, "no memory for options");
        out->value = grown;
        if (!n)
            return error_set(e, ERROR_USAGE, "empty entry in a list");
        if (!(out->value[out->n] = strndup(text, n)))
            return error_set(e, ERROR_MEMORY, "no memory for options");
        out->n++;
        more = text[n];
        text += n + more;
    }
    return true;
}

static bool set_value(struct options *o, const struct row *row, const char *text, struct error *e)
{
    void *at = (char *)o + row->offset;
    const char *end = text;
    switch (row->kind) {
    case KIND_flag: *(bool *)at = true; return true;
    case KIND_int:
        if (!parse_long(text, &end, at) || *end)
            return error_set(e, ERROR_USAGE, "'%s' is '%.60s', expected a whole number", row->flags, text);
        return true;
    case KIND_real:
        errno = 0;
        *(double *)at = strtod(text, (char **)&end);
        if (end == text || *end || errno || !(*(double *)at == *(double *)at))
            return error_set(e, ERROR_USAGE, "'%s' is '%.60s', expected a number", row->flags, text);
        return true;
    case KIND_text: *(const char **)at = text; return true;
    case KIND_ints:
        free(((struct int_list *)at)->value);
        return int_list_parse(text, at, e) || error_prefix(e, "'%s'", row->flags);
    case KIND_texts: // -pg pairs stand as written; all others are lists
        return parse_texts(text, at, row->offset != offsetof(struct options, prompt_gen), e) ||
               error_prefix(e, "'%s'", row->flags);
    }
    return true;
}

static bool set_defaults(struct options *o, struct error *e)
{
    for (int i = 0; i < N_ROWS; i++)
        if (ROW[i].kind == KIND_text && !*ROW[i].fallback)
            *(const char **)((char *)o + ROW[i].offset) = NULL;
        else if (*ROW[i].fallback && !set_value(o, &ROW[i], ROW[i].fallback, e))
            return false;
    return true;
}

static bool parse_one(struct options *o, int command, int argc, char **argv, int *i, struct error *e)
{
    char flag[64];
    const char *arg = argv[*i], *equals = !strncmp(arg, "--", 2) ? strchr(arg, '=') : NULL;
    snprintf(flag, sizeof flag, "%.*s", equals ? (int)(equals - arg) : (int)strlen(arg), arg);
    const struct row *row = find_row(command, flag);
    if (!row)
        return unknown_option(command, flag, e);
    const char *text = equals ? equals + 1 : NULL;
    if (row->kind == KIND_flag && text)
        return error_set(e, ERROR_USAGE, "option '%s' takes no value", flag);
    if (row->kind != KIND_flag && !text) {
        if (*i + 1 >= argc)
            return error_set(e, ERROR_USAGE, "option '%s' needs a value", flag);
        text = argv[++*i];
    }
    *(bool *)((char *)o + row->has_offset) = true;
    return set_value(o, row, text, e);
}

bool options_parse(struct options *o, int command, int argc, char **argv, struct error *e)
{
    *o = (struct options){0};
    if (!(o->arg = calloc((size_t)argc + 1, sizeof *o->arg)))
        return error_set(e, ERROR_MEMORY, "no memory for options");
    if (!set_defaults(o, e))
        return false;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-' || !argv[i][1])
            o->arg[o->n_args++] = argv[i];
        else if (!parse_one(o, command, argc, argv, &i, e))
            return false;
    }
    return true;
}

void options_free(struct options *o)
{
    for (int i = 0; i < N_ROWS; i++) {
        void *at = (char *)o + ROW[i].offset;
        if (ROW[i].kind == KIND_ints)
            free(((struct int_list *)at)->value);
        if (ROW[i].kind != KIND_texts)
            continue;
        struct text_list *list = at;
        for (int32_t k = 0; k < list->n; k++)
            free(list->value[k]);
        free(list->value);
    }
    free(o->arg);
    *o = (struct options){0};
}

// Help. A clause may begin with the commands that it is about, "sweep, run: ...", or with "others: ...": those that no
// clause before it was about.

enum { OTHERS = 1 << N_COMMANDS, HELP_INDENT = 35, HELP_WIDTH = 112 };

static int command_bit(const char *name, size_t n)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strlen(COMMAND[i]) == n && !strncmp(COMMAND[i], name, n))
            return 1 << i;
    return n == 6 && !strncmp(name, "others", n) ? OTHERS : 0;
}

// Whom a clause is about, and where its words begin; 0: everybody.
static int clause_commands(const char *clause, const char **words)
{
    int commands = 0;
    *words = clause;
    for (const char *at = clause;; at += 2) {
        size_t n = strcspn(at, ",:;");
        int bit = command_bit(at, n);
        at += n;
        if (!bit || !*at || *at == ';' || at[1] != ' ')
            return 0;
        commands |= bit;
        if (*at == ':') {
            *words = at + 2;
            return commands;
        }
    }
}

static void help_for(const struct row *row, int command, char *out, size_t size)
{
    bool addressed = false;
    size_t n = 0;
    for (const char *clause = row->help, *words, *end; *clause; clause = *end ? end + 2 : end) {
        int commands = clause_commands(clause, &words);
        end = strstr(clause, "; ");
        end = end ? end : clause + strlen(clause);
        bool mine = commands & OTHERS ? !addressed : commands & command;
        addressed |= commands && mine;
        if ((!commands || mine) && n < size)
            n += (size_t)snprintf(out + n, size - n, "%s%.*s", n ? "; " : "", (int)(end - words), words);
    }
    if (*row->fallback && n < size)
        snprintf(out + n, size - n, " [%s]", row->fallback);
}

// Words from column HELP_INDENT on, as many in a line as fit.
static void print_wrapped(FILE *f, const char *text)
{
    int column = HELP_INDENT;
    for (size_t n; *text; text += n) {
        n = strcspn(text, " ");
        if (column > HELP_INDENT && column + 1 + (int)n > HELP_WIDTH)
            column = HELP_INDENT + fprintf(f, "\n%*s", HELP_INDENT, "") - HELP_INDENT - 1;
        else if (column > HELP_INDENT)
            column += fprintf(f, " ");
        column += fprintf(f, "%.*s", (int)n, text);
        n += strspn(text + n, " ");
    }
    fputs("\n", f);
}

void options_help(FILE *f, int command)
{
    static const char *const VALUE[] = {"", " N", " X", " TEXT", " LIST", " LIST"};
    for (int i = 0; i < N_ROWS; i++) {
        if (!(ROW[i].commands & command))
            continue;
        char left[64], help[512] = "";
        snprintf(left, sizeof left, "%s%s", ROW[i].flags, VALUE[ROW[i].kind]);
        help_for(&ROW[i], command, help, sizeof help);
        fprintf(f, "  %-32s ", left);
        print_wrapped(f, help);
    }
}
