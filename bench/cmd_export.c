// kvbench export: a loaded model as a GGUF file, so that other engines can run exactly what was measured.
#include "bench/command.h"
#include "bench/open.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/units.h"

#include <string.h>

static bool parse_type(const char *name, enum dtype *out, struct error *e)
{
    static const enum dtype WRITTEN[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_0};
    if (dtype_parse(name, out))
        for (size_t i = 0; i < sizeof WRITTEN / sizeof *WRITTEN; i++)
            if (WRITTEN[i] == *out)
                return true;
    return error_set(e, ERROR_USAGE, "'--type' is '%.40s', expected f32, f16, bf16, q8_0 or q4_0", name);
}

static void print_report(const struct options *o, const struct export_report *r, enum dtype type)
{
    char size[24];
    if (!o->json) {
        printf("%s: %d tensors, matrices in %s, %s\n", o->gguf, r->n_tensors, dtype_name(type),
               format_bytes(r->bytes, size));
        if (r->n_kept)
            printf("%d matrices stay f32: their rows are no whole blocks\n", r->n_kept);
        printf("tokenizer: %s\n", r->tokenizer);
        return;
    }
    printf("{\n  \"file\": ");
    json_write_text(stdout, o->gguf, strlen(o->gguf));
    printf(",\n  \"type\": \"%s\",\n  \"bytes\": %llu,\n  \"n_tensors\": %d,\n  \"n_kept\": %d,\n  \"tokenizer\": ",
           dtype_name(type), (unsigned long long)r->bytes, r->n_tensors, r->n_kept);
    json_write_text(stdout, r->tokenizer, strlen(r->tokenizer));
    printf("\n}\n");
}

// The mapped source would change under our hands.
static bool check_target(const struct options *o, struct error *e)
{
    if (!o->gguf)
        return error_set(e, ERROR_USAGE, "option '--gguf' is missing: the file to write");
    if (o->model && file_same(o->model, o->gguf))
        return error_set(e, ERROR_USAGE, "'%.200s' is the model itself, expected another file to write", o->gguf);
    return true;
}

bool cmd_export(const struct options *o, struct error *e)
{
    struct open_request request = open_request_of(o);
    struct export_report report;
    struct opened opened;
    enum dtype type;
    size_t length = o->model ? strlen(o->model) : 0;
    if (o->n_args)
        return error_set(e, ERROR_USAGE, "unexpected argument '%.60s'", o->arg[0]);
    if (!check_target(o, e) || !parse_type(o->type, &type, e))
        return false;
    bool gguf = length > 5 && !strcmp(o->model + length - 5, ".gguf");
    request.backend = "null"; // weights go from their source to the file, row by row
    if (!open_model(&opened, &request, e))
        return false;
    bool ok = (gguf || weights_open(&opened.weights, &opened.model, opened.plan, request.seed, e)) &&
              model_export_gguf(&opened.model, opened.plan, opened.weights.tensor, type, o->gguf, &report, e);
    if (ok)
        print_report(o, &report, type);
    open_close(&opened);
    return ok;
}
