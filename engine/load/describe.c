// What can be loaded, in words: the tables that the readers go by, a line for each row.
#include "engine/load/family.h"
#include "engine/load/files.h"
#include "engine/load/gguf.h"
#include "engine/load/model.h"
#include "engine/load/safetensors.h"

#include <stdio.h>

bool model_describe_family(int i, const char **name, char *detail, int size)
{
    int n;
    const struct family *f = family_all(&n);
    if (i >= n)
        return false;
    *name = f[i].name;
    snprintf(detail, (size_t)size, "%s; GGUF %s; %s", f[i].architecture, f[i].gguf, f[i].models);
    return true;
}

enum { ROW = 8192 }; // beside so many values, what a row carries once is nothing

bool model_describe_type(enum dtype type, char *detail, int size)
{
    double bits = 8.0 * (double)dtype_row_bytes(type, ROW) / ROW;
    bool gguf = gguf_type_number(type) >= 0, hf = safetensors_type_name(type) != NULL;
    if (!gguf && !hf && !type_converts(type, false)) {
        snprintf(detail, (size_t)size, "in no file; weights of it are only priced");
        return false;
    }
    if (!gguf && !hf) {
        snprintf(detail, (size_t)size, "%.4g bits; random weights, in no file", bits);
        return true;
    }
    snprintf(detail, (size_t)size, "%.4g bits; %s%s%s%s", bits, gguf ? "GGUF files" : "", gguf && hf ? ", " : "",
             hf ? "Hugging Face folders" : "", type == DTYPE_FP8 ? ", with their scales; widened when loaded" : "");
    return true;
}
