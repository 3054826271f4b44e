// What a file or folder holds, from its headers alone: nothing is computed, and of the weights nothing is read.
#ifndef ENGINE_LOAD_INSPECT_H
#define ENGINE_LOAD_INSPECT_H

#include "engine/op.h"

enum { INSPECT_MAX_TYPES = 48, INSPECT_MAX_NOTES = 16 };

struct inspection {
    char format[96];
    char architecture[96]; // as the file calls it; "" where it does not
    bool has_spec;         // `spec` says what the model is like; else a note says why not
    struct model_spec spec;
    int32_t n_files, n_tensors, n_types, n_notes;
    uint64_t bytes;      // of the files with weights
    uint64_t parameters; // values of all tensors
    struct inspect_type {
        char name[16]; // as the format calls it
        int32_t n_tensors;
        uint64_t values, bytes;
    } type[INSPECT_MAX_TYPES];         // most bytes first
    char tokenizer[96], chat[32];      // "" where there is none
    char note[INSPECT_MAX_NOTES][224]; // what is unusual
};

// path: a GGUF file, a Hugging Face folder, a .safetensors file, a config.json, a tokenizer.json or a tokenizer.model. Fails
// for what can be read by no means; what nothing here can run is described, and a note says why.
bool inspect_path(struct inspection *out, const char *path, struct error *e);

#endif
