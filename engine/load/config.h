// What config.c and the GGUF reader share about families and impossible shapes.
#ifndef ENGINE_LOAD_CONFIG_H
#define ENGINE_LOAD_CONFIG_H

#include "engine/base/error.h"
#include "engine/model_spec.h"

// Refuses what no transformer can be (heads that do not divide, odd rotary sizes, sizes beyond what plans count with), so
// that products of the spec's fields need no further checks: H*d, K*d <= 2^22, V, F <= 2^24, D <= 2^20.
bool model_spec_check(const struct model_spec *spec, const char *where, struct error *e);

// The name a path gives a model: its last part without .json or .gguf; of ".../NAME/config.json" it is NAME.
void model_name_from_path(const char *path, char *out, int size);

#endif
