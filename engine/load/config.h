// What config.c and the GGUF reader share about families and impossible shapes.
#ifndef ENGINE_LOAD_CONFIG_H
#define ENGINE_LOAD_CONFIG_H

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/load/family.h"

enum { MAX_POSITIONS = 1 << 28 };

// Refuses what no transformer can be (heads that do not divide, odd rotary sizes, sizes beyond what plans count with), so
// that products of the spec's fields need no further checks: H*d, K*d <= 2^22, V, F <= 2^24, D <= 2^20.
bool model_spec_check(const struct model_spec *spec, const char *where, struct error *e);

// Structure that all models of a family share, and its name.
void model_spec_from_family(struct model_spec *spec, const struct family *family);

// Every n-th layer does without rotary embedding; 0: none does.
void model_spec_set_no_rope(struct model_spec *spec, int32_t every);

// Rotary embedding (config_rope.c). Needs head_dim and max_position_embeddings.
bool config_read_rope(struct model_spec *spec, const struct family *family, const cJSON *config, const char *where,
                      struct error *e);

// Takes a list of end-of-text ids, or a single one, for those it has. NULL: keeps them.
void model_spec_set_eos(struct model_spec *spec, const cJSON *ids);

// The name a path gives a model: its last part without .json or .gguf; of ".../NAME/config.json" it is NAME.
void model_name_from_path(const char *path, char *out, int size);

#endif
