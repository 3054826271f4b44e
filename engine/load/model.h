// A model as a user points at it: a Hugging Face folder, a GGUF file, a bare config.json, or a shape with random weights.
// Owns the mapped files. Every length and offset read from a file is checked before it is used.
#ifndef ENGINE_LOAD_MODEL_H
#define ENGINE_LOAD_MODEL_H

#include "engine/backend.h"

enum model_format { MODEL_NONE, MODEL_HF, MODEL_GGUF, MODEL_CONFIG, MODEL_RANDOM };

// How the model's makers sample from it (generation_config.json).
struct model_sampling {
    bool is_set; // false: they do not say, or take the likeliest token
    float temperature, top_p;
    int32_t top_k; // 0: all
};

struct model {
    struct model_spec spec;
    struct model_sampling sampling;
    enum model_format format;
    char path[1024];
    struct model_files *files; // owned: mapped files and their directory of tensors; NULL for MODEL_CONFIG
    // When not NULL, called while weights are read, from one thread at a time: bytes that are ready.
    void (*on_loaded)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
};

// path: a folder with config.json (weights optional: then MODEL_CONFIG), a .gguf file, or a config.json.
bool model_open(struct model *m, const char *path, struct error *e);

// A model of this shape whose weights are made by model_weights from a seed.
void model_open_random(struct model *m, const struct model_spec *spec);
void model_close(struct model *m); // accepts zeroed

// For plan_options.tensor_dtype, ctx = the model: the type the file stores (F32 where it has no such tensor; weights_open
// then says what is missing). Types the engine does not compute with directly are declared as what they are loaded as.
enum dtype model_tensor_dtype(void *model, const struct tensor_spec *spec);
bool model_has_weights(const struct model *m);      // false for MODEL_CONFIG
uint64_t model_stored_bytes(const struct model *m); // of all tensors in its files, by their headers; 0 where there are none

struct weights {
    struct tensor *tensor;        // [n_tensors of the plan]
    struct weight_source *source; // owned: where rows come from
    // How long it took: load_ns on the clock, parted as the threads' time was into reading (page-in and the search for NaN)
    // and repacking (conversion, another order of rows, making random values, the backend's own order).
    int64_t load_ns, read_ns, repack_ns;
};

// The plan's tensors, made row by row when they are read (struct tensor): from the mapped file, with Llama's q and k row
// permutation in GGUF undone and other types converted, or from the seed. Shapes must agree with the plan; NaN and infinity
// are refused by whoever reads them. Pages of the file are let go of behind the reader. For MODEL_RANDOM: uniform in
// +-sqrt(3 / cols) for matrices (so rows have unit gain), 1 for norms, 0 for biases. The model must outlive the weights.
bool weights_open(struct weights *w, const struct model *m, const struct plan *plan, uint64_t seed, struct error *e);
void weights_free(struct weights *w); // accepts zeroed

// Parts the time since opening, when `threads` threads have read all of them.
void weights_book(struct weights *w, int64_t load_ns, int32_t threads);

struct export_report {
    uint64_t bytes;      // of the file
    int32_t n_tensors;   // in it
    int32_t n_kept;      // matrices that stayed f32, since their rows are no whole blocks of the type
    char tokenizer[160]; // what became of the tokenizer
};

// Writes a model as a GGUF file with matrices in `type` (f32, f16, bf16, q8_0, q4_0) and vectors in f32. The same model
// gives the same bytes; at `path` there is a whole file or what was there before. A GGUF model needs no plan and weights.
bool model_export_gguf(const struct model *m, const struct plan *plan, const struct tensor *weights, enum dtype type,
                       const char *path, struct export_report *report, struct error *e);

// Parses the text of a Hugging Face config.json (versions 4 and 5). `where` names it in messages.
// Unknown architectures are refused by name with the list of supported ones (ERROR_UNSUPPORTED).
bool model_spec_from_config(struct model_spec *spec, const char *text, size_t size, const char *where, struct error *e);

// Family i in a line: how its files call it and which models are of it. False beyond the last.
bool model_describe_family(int i, const char **name, char *detail, int size);

// How weights of this type are stored, in a line. False if no file that can be loaded holds it.
bool model_describe_type(enum dtype type, char *detail, int size);

#endif
