// kvbench inspect: what a model's files hold, from their headers alone.
#include "bench/command.h"
#include "bench/table.h"

#include "engine/base/json.h"
#include "engine/base/units.h"
#include "engine/load/inspect.h"

#include <stdlib.h>
#include <string.h>

// KV of one token in bf16; 0: unknown.
static uint64_t kv_bytes(const struct inspection *in)
{
    struct plan plan;
    struct plan_options options = plan_options_default(DTYPE_BF16);
    if (!in->has_spec || !plan_make(&plan, &in->spec, &options, NULL))
        return 0;
    uint64_t bytes = plan_kv_bytes_per_token(&plan);
    plan_free(&plan);
    return bytes;
}

static void print_types(const struct inspection *in)
{
    char size[24];
    for (int32_t i = 0; i < in->n_types; i++) {
        const struct inspect_type *t = &in->type[i];
        printf("%-13s %-8s %6d tensors %15llu values  %10s  %6.3f bits each\n", i ? "" : "types", t->name, t->n_tensors,
               (unsigned long long)t->values, format_bytes(t->bytes, size),
               t->values ? 8 * (double)t->bytes / (double)t->values : 0);
    }
}

static void print_spec(const struct inspection *in)
{
    const struct model_spec *s = &in->spec;
    printf("%-13s %s\n", "family", s->family);
    printf("%-13s %d layers of %d, %d heads and %d KV heads of %d, feed-forward %d, vocabulary %d\n", "shape",
           s->num_hidden_layers, s->hidden_size, s->num_attention_heads, s->num_key_value_heads, s->head_dim,
           s->intermediate_size, s->vocab_size);
    printf("%-13s %d positions\n", "context", s->max_position_embeddings);
    printf("%-13s %llu B per token in bf16\n", "KV", (unsigned long long)kv_bytes(in));
}

static void print_text(const char *path, const struct inspection *in)
{
    char size[24];
    printf("%-13s %s\n%-13s %s\n", "file", path, "format", in->format);
    if (*in->architecture)
        printf("%-13s %s\n", "architecture", in->architecture);
    if (in->n_files)
        printf("%-13s %s in %d file%s, %d tensors\n%-13s %llu\n", "size", format_bytes(in->bytes, size), in->n_files,
               in->n_files > 1 ? "s" : "", in->n_tensors, "parameters", (unsigned long long)in->parameters);
    if (in->has_spec)
        print_spec(in);
    print_types(in);
    if (*in->tokenizer)
        printf("%-13s %s\n", "tokenizer", in->tokenizer);
    if (*in->chat)
        printf("%-13s %s\n", "chat format", in->chat);
    for (int32_t i = 0; i < in->n_notes; i++)
        printf("%-13s %s\n", i ? "" : "note", in->note[i]);
}

static void add_spec(cJSON *json, const struct inspection *in)
{
    const struct model_spec *s = &in->spec;
    cJSON_AddStringToObject(json, "family", s->family);
    cJSON_AddNumberToObject(json, "num_hidden_layers", s->num_hidden_layers);
    cJSON_AddNumberToObject(json, "hidden_size", s->hidden_size);
    cJSON_AddNumberToObject(json, "intermediate_size", s->intermediate_size);
    cJSON_AddNumberToObject(json, "num_attention_heads", s->num_attention_heads);
    cJSON_AddNumberToObject(json, "num_key_value_heads", s->num_key_value_heads);
    cJSON_AddNumberToObject(json, "head_dim", s->head_dim);
    cJSON_AddNumberToObject(json, "vocab_size", s->vocab_size);
    cJSON_AddNumberToObject(json, "max_position_embeddings", s->max_position_embeddings);
    cJSON_AddBoolToObject(json, "tie_word_embeddings", s->tie_word_embeddings);
    cJSON_AddNumberToObject(json, "kv_bytes_per_token", (double)kv_bytes(in));
}

static cJSON *json_of_types(const struct inspection *in)
{
    cJSON *types = cJSON_CreateArray();
    for (int32_t i = 0; i < in->n_types; i++) {
        cJSON *t = cJSON_CreateObject();
        cJSON_AddStringToObject(t, "type", in->type[i].name);
        cJSON_AddNumberToObject(t, "n_tensors", in->type[i].n_tensors);
        cJSON_AddNumberToObject(t, "values", (double)in->type[i].values);
        cJSON_AddNumberToObject(t, "bytes", (double)in->type[i].bytes);
        cJSON_AddItemToArray(types, t);
    }
    return types;
}

static void print_json(const char *path, const struct inspection *in)
{
    cJSON *json = cJSON_CreateObject(), *notes = cJSON_CreateArray();
    cJSON_AddStringToObject(json, "file", path);
    cJSON_AddStringToObject(json, "format", in->format);
    cJSON_AddStringToObject(json, "architecture", in->architecture);
    cJSON_AddBoolToObject(json, "supported", in->has_spec);
    cJSON_AddNumberToObject(json, "n_files", in->n_files);
    cJSON_AddNumberToObject(json, "bytes", (double)in->bytes);
    cJSON_AddNumberToObject(json, "n_tensors", in->n_tensors);
    cJSON_AddNumberToObject(json, "parameters", (double)in->parameters);
    if (in->has_spec)
        add_spec(json, in);
    cJSON_AddItemToObject(json, "types", json_of_types(in));
    cJSON_AddStringToObject(json, "tokenizer", in->tokenizer);
    cJSON_AddStringToObject(json, "chat_format", in->chat);
    for (int32_t i = 0; i < in->n_notes; i++)
        cJSON_AddItemToArray(notes, cJSON_CreateString(in->note[i]));
    cJSON_AddItemToObject(json, "notes", notes);
    table_json_print(json);
}

bool cmd_inspect(const struct options *o, struct error *e)
{
    struct inspection in;
    if (o->n_args != 1)
        return error_set(e, ERROR_USAGE, "inspect what? expected one file or folder");
    if (!inspect_path(&in, o->arg[0], e))
        return false;
    if (o->json)
        print_json(o->arg[0], &in);
    else
        print_text(o->arg[0], &in);
    return true;
}
