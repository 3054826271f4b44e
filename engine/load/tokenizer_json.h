// Between the two halves of the tokenizer.json reader: tokenizer_json.c (vocabulary, merges, added tokens, the whole) and
// tokenizer_json_steps.c (what is done before and after the model).
#ifndef ENGINE_LOAD_TOKENIZER_JSON_H
#define ENGINE_LOAD_TOKENIZER_JSON_H

#include "engine/base/json.h"
#include "engine/load/tokenizer_parts.h"

struct json_reader {
    struct tokenizer *t;
    bool byte_level; // the ByteLevel pre-tokenizer has been seen
    bool fused;      // the Fuse decoder has been seen
    struct normalizers decoder;
};

struct text text_of(const char *s);
bool json_unsupported(const char *what, const char *type, const char *supported, struct error *e);
// A number of 0..VOCAB_MAX_IDS - 1.
bool json_read_id(const cJSON *number, const char *token, int32_t *id, struct error *e);
// Whether a part or a member of its Sequence has this type.
bool json_has_type(const cJSON *part, const char *key, const char *type);

typedef bool (*json_step)(struct json_reader *r, const cJSON *part, struct error *e);
// Calls `add` for the members of a list.
bool json_for_each(struct json_reader *r, const cJSON *part, const char *key, json_step add, struct error *e);

bool json_add_normalizer(struct json_reader *r, const cJSON *part, struct error *e);
bool json_add_pre_tokenizer(struct json_reader *r, const cJSON *part, struct error *e);
bool json_add_post_processor(struct json_reader *r, const cJSON *part, struct error *e);
bool json_add_decoder(struct json_reader *r, const cJSON *part, struct error *e);

#endif
