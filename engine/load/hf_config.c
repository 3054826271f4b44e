// What a Hugging Face folder says beside the shape of its model: how its weights are quantized (config.json), where texts
// end and how its makers sample (generation_config.json).
#include "engine/load/config.h"
#include "engine/load/files.h"

#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 2048 };

static bool refuse_quantized(const char *path, const char *method, struct error *e)
{
    return error_set(e, ERROR_UNSUPPORTED,
                     "'%s': weights quantized by '%.40s' are not supported, use the model's unquantized folder, its FP8 "
                     "folder or a GGUF file of it",
                     path, method);
}

// [rows, columns] that share a scale.
static bool read_block(struct model_files *f, const cJSON *size, const char *path, struct error *e)
{
    for (int i = 0; size && i < 2; i++) {
        const cJSON *n = cJSON_GetArrayItem(size, i);
        if (!cJSON_IsNumber(n) || n->valuedouble < 1 || n->valuedouble > 1 << 20)
            return error_set(e, ERROR_FILE, "'%s': the size of quantized blocks is no pair of whole numbers", path);
        f->scale_block[i] = (int32_t)n->valuedouble;
    }
    return true;
}

// compressed-tensors describes groups of layers: all must hold 8-bit floats.
static bool read_groups(struct model_files *f, const cJSON *quantization, const char *path, struct error *e)
{
    const cJSON *group;
    cJSON_ArrayForEach(group, json_member(quantization, "config_groups"))
    {
        const cJSON *weights = json_member(group, "weights");
        const char *type = "int";
        int32_t bits = 8;
        if (!json_string(weights, path, "type", &type, e) || !json_i32(weights, path, "num_bits", 1, 64, &bits, e) ||
            !read_block(f, json_member(weights, "block_structure"), path, e))
            return false;
        if (strcmp(type, "float") || bits != 8)
            return refuse_quantized(path, "compressed-tensors, not in 8-bit floats", e);
    }
    return true;
}

static bool read_quantization(struct model_files *f, const cJSON *q, const char *path, struct error *e)
{
    const char *method = "an unknown method", *algorithm = "";
    if (!q)
        return true;
    if (!cJSON_IsObject(q))
        return error_set(e, ERROR_FILE, "'%s': 'quantization_config' is not an object", path);
    if (!json_string(q, path, "quant_method", &method, e) || !json_string(q, path, "quant_algo", &algorithm, e))
        return false;
    if (!strcmp(method, "fp8") || !strcmp(method, "fbgemm_fp8"))
        return read_block(f, json_member(q, "weight_block_size"), path, e);
    if (!strcmp(method, "compressed-tensors"))
        return read_groups(f, q, path, e);
    return (!strcmp(method, "modelopt") && !strcmp(algorithm, "FP8")) || refuse_quantized(path, method, e);
}

bool hf_read_quantization(struct model_files *f, const char *config_path, struct error *e)
{
    cJSON *json;
    if (!json_load(config_path, &json, e))
        return false;
    const cJSON *outer = json_member(json, "quantization_config");
    const cJSON *inner = json_member(json_member(json, "text_config"), "quantization_config");
    f->scale_block[0] = f->scale_block[1] = 128; // DeepSeek's, and the default of transformers
    bool ok = read_quantization(f, outer ? outer : inner, config_path, e);
    cJSON_Delete(json);
    return ok;
}

static bool read_generation(struct model *m, const cJSON *json, const char *path, struct error *e)
{
    double temperature = 1, top_p = 1;
    bool sample = false;
    struct model_sampling *s = &m->sampling;
    if (!json_bool(json, path, "do_sample", &sample, e) || !json_f64(json, path, "temperature", 0, 100, &temperature, e) ||
        !json_f64(json, path, "top_p", 0, 1, &top_p, e))
        return false;
    s->top_k = 50; // the default of transformers
    if (!json_i32(json, path, "top_k", 0, INT32_MAX, &s->top_k, e))
        return false;
    s->is_set = sample;
    s->temperature = (float)temperature, s->top_p = top_p > 0 ? (float)top_p : 1;
    model_spec_set_eos(&m->spec, json_member(json, "eos_token_id"));
    return true;
}

bool hf_read_generation(struct model *m, const char *folder, struct error *e)
{
    char path[PATH_BYTES];
    cJSON *json;
    int n = snprintf(path, sizeof path, "%s/generation_config.json", folder);
    if (n < 0 || n >= PATH_BYTES || !file_exists(path))
        return true;
    if (!json_load(path, &json, e))
        return false;
    bool ok = cJSON_IsObject(json) ? read_generation(m, json, path, e)
                                   : error_set(e, ERROR_FILE, "'%s': expected an object", path);
    cJSON_Delete(json);
    return ok;
}
