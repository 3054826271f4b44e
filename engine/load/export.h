// The parts of model_export_gguf, for export*.c only.
#ifndef ENGINE_LOAD_EXPORT_H
#define ENGINE_LOAD_EXPORT_H

#include "engine/load/gguf_write.h"
#include "engine/load/model.h"

// What GGUF says of a model of this shape: keys, and tensors of rotary factors (export_spec.c). *factors: malloc'ed, must
// outlive the writing.
void export_spec(struct gguf_writer *w, const struct model_spec *s, float **factors);

// The vocabulary of the folder's tokenizer.json, where GGUF can say what it does: byte-level BPE with a pre-tokenizer that
// gives the same pieces under one of GGUF's names, which is tried (export_tokenizer.c). Else the file gets none.
// says: what was done, or why not. `path` may be NULL.
bool export_tokenizer(struct gguf_writer *w, const char *path, const struct model_spec *s, char says[160], struct error *e);

#endif
