// kvbench import: results of other engines' benchmarks become rows of ours, held to the same roof.
#include "bench/command.h"
#include "bench/import.h"
#include "bench/import_print.h"
#include "bench/scenario.h"
#include "bench/summary.h"
#include "bench/table.h"
#include "engine/base/version.h"

#include <ctype.h>
#include <string.h>

struct importer {
    const struct options *options;
    struct import_flags flags;
    struct import_catalogue *catalogue;
    struct import_list list;
    struct store store;
    enum table_format output;
    bool several_models;
    int32_t n_over_bound; // that their sources do not call traps
    char first_over_bound[300];
};

static const char *text_of(const char *option)
{
    return option ? option : "";
}

static int64_t only(const struct int_list *list, bool given)
{
    return given && list->n == 1 ? list->value[0] : -1;
}

static bool one_value(const struct int_list *list, const char *flag, struct error *e)
{
    return list->n <= 1 ||
           error_set(e, ERROR_USAGE, "'%s' has %d values, expected one: it stands for all rows", flag, list->n);
}

// Names that the user spelled wrong end the command; those that files spell do not.
static bool check_names(struct importer *m, struct error *e)
{
    char reason[200];
    int32_t devices;
    if (*m->flags.model && !import_model(m->catalogue, m->flags.model, true, reason))
        return error_set(e, ERROR_USAGE, "'--model': %s", reason);
    if (*m->flags.hardware && !import_hardware(m->catalogue, m->flags.hardware, true, &devices, reason))
        return error_set(e, ERROR_USAGE, "'--hardware': %s", reason);
    double bits;
    enum dtype type;
    if (*m->flags.weights && !import_weight_type(m->flags.weights, &bits, &type))
        return error_set(e, ERROR_USAGE, "'--weights': unknown type '%.60s'", m->flags.weights);
    if (*m->flags.kv && !import_type(m->flags.kv, &type))
        return error_set(e, ERROR_USAGE, "'--kv': unknown type '%.60s'", m->flags.kv);
    if (*m->flags.compute && !import_type(m->flags.compute, &type))
        return error_set(e, ERROR_USAGE, "'--compute': unknown type '%.60s'", m->flags.compute);
    return true;
}

static bool read_flags(struct importer *m, struct error *e)
{
    const struct options *o = m->options;
    m->flags = (struct import_flags){.model = text_of(o->model),
                                     .hardware = o->has_hardware ? o->hardware : "",
                                     .weights = o->weights.n ? o->weights.value[0] : "",
                                     .kv = o->kv.n ? o->kv.value[0] : "",
                                     .compute = text_of(o->compute),
                                     .tp = o->has_tp ? o->tp : 0,
                                     .batch = only(&o->batch, o->has_batch),
                                     .n_prompt = only(&o->n_prompt, o->has_n_prompt),
                                     .n_gen = only(&o->n_gen, o->has_n_gen),
                                     .n_depth = only(&o->n_depth, o->has_n_depth)};
    if (o->has_context && o->context.n == 1)
        m->flags.n_depth = o->context.value[0] - 1;
    if (o->has_tp && (o->tp < 1 || o->tp > 1024))
        return error_set(e, ERROR_USAGE, "'--tp' is %d, expected 1 to 1024", o->tp);
    return one_value(&o->batch, "--batch", e) && one_value(&o->n_prompt, "--n-prompt", e) &&
           one_value(&o->n_gen, "--n-gen", e) && one_value(&o->n_depth, "--n-depth", e) &&
           one_value(&o->context, "--context", e) && check_names(m, e);
}

static cJSON *make_meta(void)
{
    char now[32];
    cJSON *meta = cJSON_CreateObject(), *tool = cJSON_CreateObject();
    utc_now(now);
    cJSON_AddNumberToObject(meta, "schema_version", RESULT_SCHEMA_VERSION);
    cJSON_AddStringToObject(tool, "name", "kvbench");
    cJSON_AddStringToObject(tool, "version", kvbench_version);
    cJSON_AddBoolToObject(tool, "dirty", strstr(kvbench_version, "-dirty") != NULL);
    cJSON_AddItemToObject(meta, "tool", tool);
    cJSON_AddStringToObject(meta, "started", now);
    cJSON_AddNullToObject(meta, "scenario"); // measured elsewhere, by others
    cJSON_AddNullToObject(meta, "environment");
    cJSON_AddNullToObject(meta, "ceilings");
    cJSON_AddArrayToObject(meta, "imported");
    return meta;
}

static bool read_files(struct importer *m, cJSON *meta, struct error *e)
{
    const struct options *o = m->options;
    const struct import_format *format = o->format ? import_format_named(o->format, e) : NULL;
    if (o->format && !format)
        return false;
    for (int32_t i = 0; i < o->n_args; i++) {
        const struct import_format *used = NULL;
        int32_t before = m->list.n;
        if (!import_load(&m->list, o->arg[i], format, &used, e))
            return false;
        cJSON *file = cJSON_CreateObject();
        cJSON_AddStringToObject(file, "file", o->arg[i]);
        cJSON_AddStringToObject(file, "format", used ? used->name : "");
        cJSON_AddNumberToObject(file, "rows", m->list.n - before);
        cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(meta, "imported"), file);
    }
    for (int32_t i = 1; i < m->list.n; i++)
        m->several_models |= strcmp(m->list.row[i].model, m->list.row[0].model) != 0;
    return true;
}

// The name of the results: --name, else the first file's without its ending, as far as its characters may stand in one.
static void name_results(const struct options *o, char name[64])
{
    const char *from = o->name ? o->name : o->arg[0], *slash = strrchr(from, '/');
    snprintf(name, 64, "%.63s", slash && !o->name ? slash + 1 : from);
    char *dot = o->name ? NULL : strrchr(name, '.');
    if (dot && dot > name)
        *dot = 0;
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            *c = '-';
    if (*name == '.' || !*name)
        *name = '_';
}

// The source's name of the row, else its shape as the keys of our own points put it; with a number behind it where that is
// taken.
static void make_key(const struct importer *m, const struct import_facts *f, struct result *r)
{
    char shape[96] = "", base[200];
    if (r->n_prompt > 0)
        snprintf(shape, sizeof shape, "/p%lld", (long long)r->n_prompt);
    else if (r->context != RESULT_UNKNOWN)
        snprintf(shape, sizeof shape, "/c%lld", (long long)r->context);
    size_t n = strlen(shape);
    if (r->n_gen > (strcmp(r->phase, "decode") ? 0 : 1))
        snprintf(shape + n, sizeof shape - n, "/n%lld", (long long)r->n_gen);
    n = strlen(shape);
    if (r->n_depth > 0 && r->n_prompt > 0)
        snprintf(shape + n, sizeof shape - n, "/d%lld", (long long)r->n_depth);
    if (*f->id)
        snprintf(base, sizeof base, "%.127s", f->id);
    else
        snprintf(base, sizeof base, "%.40s%s%.12s/b%lld%.40s%s%.16s%s%.16s", m->several_models ? r->model : "",
                 m->several_models ? "/" : "", r->phase, r->batch == RESULT_UNKNOWN ? 0 : (long long)r->batch, shape,
                 *r->weights ? "/" : "", r->weights, *r->type_k ? "/kv-" : "", r->type_k);
    snprintf(r->key, sizeof r->key, "%s", base);
    for (int again = 2; store_find(&m->store, r->key); again++)
        snprintf(r->key, sizeof r->key, "%s#%d", base, again);
}

static bool knows_hardware(const struct store *s, const struct hardware *hw)
{
    for (int32_t i = 0; i < s->n_hw; i++)
        if (!strcmp(s->hw[i].name, hw->name))
            return true;
    return false;
}

static bool add_row(struct importer *m, const struct import_facts *f, struct error *e)
{
    struct result row;
    const struct hardware *hw;
    bool ok = import_row(m->catalogue, f, &m->flags, &row, &hw, e);
    if (!ok || (hw && !knows_hardware(&m->store, hw) && !store_hardware(&m->store, hw, e))) {
        result_free(&row);
        return false;
    }
    make_key(m, f, &row);
    if (!strcmp(row.verdict, "over-bound") && !f->trap && !m->n_over_bound++)
        snprintf(m->first_over_bound, sizeof m->first_over_bound, "'%.100s': %.180s", row.key, row.reason);
    return store_add(&m->store, &row, NULL, 0, e);
}

static void print(const struct importer *m)
{
    if (table_is_data(m->output)) {
        summary_rows(stdout, m->output, &m->store);
        return;
    }
    import_print_table(stdout, &m->store, m->output == TABLE_MD);
    if (m->output == TABLE_TEXT)
        import_print_summary(stdout, &m->store);
}

static bool import_all(struct importer *m, struct error *e)
{
    struct scenario s;
    char name[64];
    cJSON *meta = make_meta();
    name_results(m->options, name);
    scenario_init(&s, m->options->arg[0], name);
    if (!read_files(m, meta, e)) {
        cJSON_Delete(meta);
        return false;
    }
    if (!store_open(&m->store, m->options->folder ? m->options->folder : "results", &s, false, meta, e))
        return false;
    bool ok = true;
    for (int32_t i = 0; ok && i < m->list.n; i++)
        ok = add_row(m, &m->list.row[i], e);
    ok = ok && store_finish(&m->store, true, e);
    if (ok)
        print(m);
    if (ok && m->n_over_bound)
        ok = error_set(e, ERROR_OVER_BOUND, "%d of %d rows over-bound, first %s", m->n_over_bound, m->list.n,
                       m->first_over_bound);
    store_close(&m->store);
    return ok;
}

bool cmd_import(const struct options *o, struct error *e)
{
    struct importer m = {.options = o};
    if (!o->n_args)
        return error_set(e, ERROR_USAGE,
                         "no file, expected results of llama-bench, vLLM, SGLang or a table (kvbench list imports)");
    if (!table_format_of(o, &m.output, e) || !(m.catalogue = import_catalogue_open(e)))
        return false;
    bool ok = read_flags(&m, e) && import_all(&m, e);
    import_free(&m.list);
    import_catalogue_close(m.catalogue);
    return ok;
}
