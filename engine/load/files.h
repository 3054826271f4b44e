// The mapped files behind a model and their one directory of tensors, whatever the format.
#ifndef ENGINE_LOAD_FILES_H
#define ENGINE_LOAD_FILES_H

#include "engine/load/gguf.h"
#include "engine/load/model.h"
#include "engine/load/safetensors.h"

struct model_files {
    struct gguf gguf;  // of a model in several files: the first, with the tensors of all
    struct gguf *part; // [n_parts] the others
    int32_t n_parts;
    struct safetensors *shard; // [n_shards]
    int32_t n_shards;
    struct stored_tensor *merged;       // owned: the directories of several shards, sorted
    const struct stored_tensor *tensor; // [n_tensors], sorted by name; in gguf, shard[0] or merged
    uint64_t n_tensors;
    int32_t scale_block[2]; // rows and columns that share a scale, where FP8 weights are scaled by blocks
};

void model_files_free(struct model_files *f); // accepts zeroed

// The safetensors of a Hugging Face folder (hf.c). *found is false, with nothing opened, when it has none.
bool hf_open_weights(struct model_files *f, const char *folder, bool *found, struct error *e);

// What its config.json says of quantized weights: FP8 is read, the rest refused by name (hf_config.c).
bool hf_read_quantization(struct model_files *f, const char *config_path, struct error *e);

// End-of-text ids and sampling of its generation_config.json, where there is one.
bool hf_read_generation(struct model *m, const char *folder, struct error *e);

// A GGUF file, or all files of a model that is split as NAME-00001-of-0000N.gguf when `path` is any of them (gguf_split.c).
bool gguf_open_parts(struct model_files *f, const char *path, struct error *e);

// What a GGUF file says of its model (gguf_model.c): metadata, and shapes and presence of tensors.
bool gguf_model_spec(struct model_spec *spec, const struct gguf *g, struct error *e);

// Where one of the plan's tensors lies (locate.c). Of a vector, rows are values.
struct location {
    const struct stored_tensor *stored;
    int64_t first, rows; // it begins at row `first` of a tensor that must have `rows` of them
};

// By the naming of the model's format. False if the files have none.
bool model_locate(const struct model *m, const struct tensor_spec *spec, struct location *out);

// What the format calls this tensor. False if the name does not fit.
bool model_tensor_name(const struct model *m, const struct tensor_spec *spec, char *out, int size);

// Fills rows first .. first+count-1 of tensor number `id` of the plan at `row` (random.c), the same for any division.
uint64_t random_stream(uint64_t seed, int32_t id); // which its values are a function of, with their type and place
void random_fill(const struct tensor_spec *t, int32_t id, uint64_t seed, int32_t first, int32_t count, void *row);

// A type is computed with if it converts to f32, and can be converted to if it converts from f32 (weights.c).
bool type_converts(enum dtype type, bool from_f32);

// A row (or part of it) that holds no NaN and no infinity, block scales included (finite.c).
bool values_finite(enum dtype type, const void *data, uint64_t bytes);

#endif
