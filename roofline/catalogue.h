// Finding configs/: models and hardware by name or alias, wherever the program is installed.
#ifndef ROOFLINE_CATALOGUE_H
#define ROOFLINE_CATALOGUE_H

#include "engine/load/model.h"

// The folder with models/ and hardware/: $KVBENCH_CONFIGS, else configs/ beside the executable, else
// ../share/kvbench/configs from it, else ./configs.
bool catalogue_folder(char *out, int size, struct error *e);

// "models" or "hardware": the path of the entry with this name or alias (Hugging Face ids with and without owner, any case;
// `Meta-`, `-hf` and `-Instruct` optional). False with the nearest name if there is none.
bool catalogue_find(const char *section, const char *name, char *path, int size, struct error *e);

struct catalogue_fact {
    const char *name; // key in JSON, with its unit; NULL behind the last
    double value;
};
struct catalogue_row {
    char name[64];
    char detail[192];              // one line for `list`
    bool supported;                // models: a plan can be made of it
    struct catalogue_fact fact[6]; // what `detail` says, for programs; none for other lists
};
// Malloc'ed rows, sorted by name.
bool catalogue_list(const char *section, struct catalogue_row **rows, int *n, struct error *e);

// Every name of a section, spelled one way (lower case, without owner, meta-, -hf and -instruct), with its entry.
struct catalogue_name {
    char key[96];   // "llama-3-8b"
    char path[192]; // of the entry's file
};
bool catalogue_names(const char *section, struct catalogue_name **names, int *n, struct error *e);

// The entry that free text names ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "(48x4x128 shape: Qwen3-30B-A3B class)"):
// the longest name in it that is followed by nothing but what says nothing about the shape (types, dates, -Instruct). NULL
// if there is none.
const struct catalogue_name *catalogue_recognise(const struct catalogue_name *names, int n, const char *text);

// What --model means: a catalogue name (random weights of that shape), or any path model_open takes.
bool catalogue_open_model(struct model *m, const char *name_or_path, struct error *e);

#endif
