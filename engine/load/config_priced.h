// The part of config.c for families that are priced, but not run by every backend.
#ifndef ENGINE_LOAD_CONFIG_PRICED_H
#define ENGINE_LOAD_CONFIG_PRICED_H

#include "engine/base/error.h"
#include "engine/model_spec.h"

#include <cjson/cJSON.h>

// The family of an architecture ("deepseek_v3"), or NULL if it is none of these.
const char *config_priced_name(const char *architecture);

// architecture: one that has a name. Fills all of the spec but its name and its token ids.
bool config_read_priced(struct model_spec *spec, const cJSON *config, const char *architecture, const char *where,
                        struct error *e);

// The same for GGUF files, whose architectures have other names ("deepseek2"): NULL if it is none of these.
struct gguf;
const char *gguf_priced_architecture(const char *name);
bool gguf_priced_spec(struct model_spec *spec, const struct gguf *g, const char *name, struct error *e);

#endif
