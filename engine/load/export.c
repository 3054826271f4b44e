// Any loaded model as a GGUF file. From a GGUF file, metadata and names are taken over as they are; from elsewhere, both are
// made from the model_spec, and rows are put into GGUF's order.
#include "engine/load/export.h"

#include "engine/load/family.h"
#include "engine/load/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// llama.cpp's numbers for "mostly of this type".
static const struct {
    enum dtype type;
    uint32_t number;
} FILE_TYPE[] = {{DTYPE_F32, 0}, {DTYPE_F16, 1}, {DTYPE_Q4_0, 2}, {DTYPE_Q8_0, 7}, {DTYPE_BF16, 32}};
enum { N_FILE_TYPES = sizeof FILE_TYPE / sizeof *FILE_TYPE };

static void put_file_type(struct gguf_writer *w, enum dtype type)
{
    for (int i = 0; i < N_FILE_TYPES; i++)
        if (FILE_TYPE[i].type == type)
            gguf_put_u32(w, "general.file_type", FILE_TYPE[i].number);
    if (dtype_block(type) > 1)
        gguf_put_u32(w, "general.quantization_version", 2);
}

// Vectors stay f32, as other engines want them, and so do rows that are no whole blocks.
static enum dtype stored_as(enum dtype type, int32_t n_dims, uint64_t cols)
{
    return n_dims < 2 || cols % (uint64_t)dtype_block(type) ? DTYPE_F32 : type;
}

// ---- from GGUF

static bool is_copied(const struct gguf_value *v)
{
    static const char *const OTHERS[] = {"general.file_type", "general.quantization_version",
                                         "general.alignment", "split.no",
                                         "split.count",       "split.tensors.count"};
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (!text_compare(v->key, (struct text){OTHERS[i], strlen(OTHERS[i])}))
            return false;
    return true;
}

static bool put_stored(struct gguf_writer *w, const struct stored_tensor *s, enum dtype type, const char *where,
                       struct error *e)
{
    char name[96];
    uint64_t rows = 1; // of a file that was checked: their product with the columns fits 64 bits
    for (int32_t i = 0; i + 1 < s->n_dims; i++)
        rows *= s->dim[i];
    struct gguf_out_tensor *t = s->name.size < sizeof t->name && s->n_dims <= 4 ? gguf_put_tensor(w) : NULL;
    if (!t || !s->known || rows > INT32_MAX || s->dim[s->n_dims - 1] > INT32_MAX)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': tensor '%s' of type %s cannot be exported", where,
                         text_print(s->name, name), s->type);
    memcpy(t->name, s->name.data, s->name.size);
    t->n_dims = s->n_dims, t->n_parts = 1;
    for (int32_t i = 0; i < s->n_dims; i++)
        t->dim[i] = s->dim[i];
    t->part[0].tensor =
        (struct tensor){.data = s->data, .dtype = s->dtype, .rows = (int32_t)rows, .cols = (int32_t)s->dim[s->n_dims - 1]};
    t->from = s->dtype, t->to = stored_as(type, s->n_dims, s->dim[s->n_dims - 1]);
    return true;
}

static bool export_file(struct gguf_writer *w, const struct gguf *g, enum dtype type, struct error *e)
{
    for (uint64_t i = 0; i < g->n_values; i++)
        if (is_copied(&g->value[i]))
            gguf_put_value(w, &g->value[i]);
    put_file_type(w, type);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        if (!put_stored(w, &g->tensor[i], type, g->where, e))
            return false;
    return true;
}

// ---- from a plan and its weights

// Roles that GGUF wants behind one another in one matrix (Phi-3).
struct fusion {
    enum tensor_role role[GGUF_WRITE_PARTS];
    int32_t n;
    const char *name;
};
static const struct fusion FUSION[] = {
    {{TENSOR_ATTN_Q, TENSOR_ATTN_K, TENSOR_ATTN_V}, 3, "blk.%d.attn_qkv.weight"},
    {{TENSOR_FFN_GATE, TENSOR_FFN_UP}, 2, "blk.%d.ffn_up.weight"},
};

static const struct fusion *fusion_of(const struct model_spec *s, enum tensor_role role)
{
    for (int i = 0; i < 2 && !strcmp(family_by_name(s->family)->gguf, "phi3"); i++)
        for (int32_t k = 0; k < FUSION[i].n; k++)
            if (FUSION[i].role[k] == role)
                return &FUSION[i];
    return NULL;
}

static struct gguf_rows rows_of_tensor(const struct model_spec *s, enum tensor_role role, const struct tensor *t)
{
    bool q_or_k = role == TENSOR_ATTN_Q || role == TENSOR_ATTN_K || role == TENSOR_ATTN_Q_BIAS || role == TENSOR_ATTN_K_BIAS;
    struct gguf_rows rows = {.tensor = *t};
    if (q_or_k && family_by_name(s->family)->permuted_gguf)
        rows.head_dim = s->head_dim, rows.rotary_dim = s->rope.rotary_dim;
    return rows;
}

// A bias of q or k in GGUF's order: its values are rows of one value.
static void put_vector(struct gguf_out_tensor *out, const struct tensor *t)
{
    out->n_dims = 1, out->dim[0] = (uint64_t)t->cols;
    out->to = DTYPE_F32;
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static bool put_planned(struct gguf_writer *w, const struct model_spec *s, const struct plan *plan,
                        const struct tensor *weights, int32_t id, enum dtype type, struct error *e)
{
    const struct tensor_spec *spec = &plan->tensor[id];
    enum tensor_role role = (enum tensor_role)spec->role;
    const struct fusion *fusion = fusion_of(s, role);
    if (fusion && role != fusion->role[0])
        return true; // written with the first
    struct gguf_out_tensor *t = gguf_put_tensor(w);
    if (!t)
        return error_set(e, ERROR_MEMORY, "no memory for a list of tensors");
    if (fusion)
        snprintf(t->name, sizeof t->name, fusion->name, spec->layer);
    else if (!tensor_name_gguf(role, spec->layer, t->name, sizeof t->name))
        return error_set(e, ERROR_UNSUPPORTED, "GGUF has no name for '%s'", tensor_role_name(role));
    t->from = weights[id].dtype;
    t->n_dims = 2, t->dim[1] = (uint64_t)weights[id].cols;
    for (int32_t i = id; i < plan->n_tensors && t->n_parts < (fusion ? fusion->n : 1); i++)
        if (i == id || (plan->tensor[i].layer == spec->layer && plan->tensor[i].role == fusion->role[t->n_parts])) {
            t->dim[0] += (uint64_t)weights[i].rows;
            t->part[t->n_parts++] = rows_of_tensor(s, (enum tensor_role)plan->tensor[i].role, &weights[i]);
        }
    t->to = stored_as(type, 2, t->dim[1]);
    if (spec->rows == 1)
        put_vector(t, &weights[id]);
    return true;
}

static bool export_plan(struct gguf_writer *w, const struct model *m, const struct plan *plan, const struct tensor *weights,
                        enum dtype type, struct error *e)
{
    for (int32_t i = 0; i < plan->n_tensors; i++)
        if (!put_planned(w, &m->spec, plan, weights, i, type, e))
            return false;
    return true;
}

// ---- both

static void fill_report(struct export_report *r, const struct gguf_writer *w, enum dtype type)
{
    r->n_tensors = (int32_t)w->n_tensors;
    for (uint64_t i = 0; i < w->n_tensors; i++)
        r->n_kept += w->tensor[i].n_dims > 1 && w->tensor[i].to != type;
}

// GGUF leaves it to the reader which layers of a family do not turn q and k.
static bool check_no_rope(const struct model_spec *s, struct error *e)
{
    int32_t every = family_by_name(s->family)->no_rope_every;
    for (int32_t layer = 0; layer < s->num_hidden_layers; layer++)
        if (s->no_rope[layer] != (every && (layer + 1) % every == 0))
            return error_set(e, ERROR_UNSUPPORTED, "'%s': GGUF cannot say that other layers than every %dth do without rope",
                             s->name, every);
    return true;
}

// What belongs to the architecture there, without a key.
static bool check_usual(const struct model_spec *s, struct error *e)
{
    if (s->hidden_act != family_by_name(s->family)->hidden_act)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': GGUF cannot say another activation than the usual one of %s", s->name,
                         s->family);
    if (s->rope_local.rotary_dim && s->rope_local.kind != ROPE_DEFAULT)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': GGUF cannot say that rope of layers with a window is scaled", s->name);
    if (s->rope.kind == ROPE_YARN && s->rope.ramp_is_exact)
        return error_set(e, ERROR_UNSUPPORTED, "'%s': GGUF cannot say that YaRN's ramp is not rounded", s->name);
    return check_no_rope(s, e);
}

bool model_export_gguf(const struct model *m, const struct plan *plan, const struct tensor *weights, enum dtype type,
                       const char *path, struct export_report *report, struct error *e)
{
    struct gguf_writer w = {0};
    float *factors = NULL;
    bool ok;
    *report = (struct export_report){0};
    if (m->format != MODEL_GGUF && !family_by_name(m->spec.family))
        return error_set(e, ERROR_UNSUPPORTED, "'%s': models of family '%s' can be priced, not exported", m->spec.name,
                         m->spec.family);
    if (m->format != MODEL_GGUF && !check_usual(&m->spec, e))
        return false;
    if (m->format == MODEL_GGUF) {
        snprintf(report->tokenizer, sizeof report->tokenizer, "taken over");
        ok = export_file(&w, &m->files->gguf, type, e);
    } else {
        export_spec(&w, &m->spec, &factors);
        put_file_type(&w, type);
        ok = export_tokenizer(&w, m->format == MODEL_HF ? m->path : NULL, &m->spec, report->tokenizer, e) &&
             export_plan(&w, m, plan, weights, type, e);
    }
    ok = ok && gguf_write(&w, path, &report->bytes, e);
    fill_report(report, &w, type);
    gguf_writer_free(&w);
    free(factors);
    return ok;
}
