// Reading JSON strictly (cJSON underneath): every failure names the file, the key and what was expected.
// The getters leave *out alone when the key is absent or null, so the caller's default stands.
#ifndef ENGINE_BASE_JSON_H
#define ENGINE_BASE_JSON_H

#include "engine/base/error.h"

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// Parses exactly one JSON value; `where` names the source in messages. The caller frees *out with cJSON_Delete.
bool json_parse(const char *text, size_t size, const char *where, cJSON **out, struct error *e);

// Reads and parses a file of at most 256 MiB.
bool json_load(const char *path, cJSON **out, struct error *e);

// False with the offending key and its nearest known name if `object` has a key that is not in keys[n].
bool json_known_keys(const cJSON *object, const char *where, const char *const *keys, int n, struct error *e);

bool json_i32(const cJSON *object, const char *where, const char *key, int32_t min, int32_t max, int32_t *out,
              struct error *e);
bool json_f64(const cJSON *object, const char *where, const char *key, double min, double max, double *out, struct error *e);
bool json_bool(const cJSON *object, const char *where, const char *key, bool *out, struct error *e);

// *out points into `object`.
bool json_string(const cJSON *object, const char *where, const char *key, const char **out, struct error *e);

// The member, or NULL if it is absent or null.
const cJSON *json_member(const cJSON *object, const char *key);

// Writes text[size] as a JSON string; bytes that are no UTF-8 become U+FFFD.
void json_write_text(FILE *f, const char *text, size_t size);

#endif
