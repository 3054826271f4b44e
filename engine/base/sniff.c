#include "engine/base/sniff.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const struct sign {
    const char *begin; // of the file, any case, after white space where `text`
    bool text;
    const char *is, *hint;
} SIGN[] = {
    {"version https://git-lfs", true, "a Git LFS pointer", "the file itself comes with 'git lfs pull'"},
    {"<!doctype html", true, "an HTML page", "a failed download?"},
    {"<html", true, "an HTML page", "a failed download?"},
    {"<?xml", true, "an XML page", "a failed download?"},
    {"Entry not found", true, "an error message of a download", "wrong name or address?"},
    {"Invalid username or password", true, "an error message of a download", "no permission?"},
    {"{\"error\"", true, "an error message of a download", "wrong name or no permission?"},
    {"GGUF", false, "a GGUF file", "rename it to .gguf"},
    {"ggjt", false, "a GGML file of before GGUF", "convert it again"},
    {"lmgg", false, "a GGML file of before GGUF", "convert it again"},
    {"tjgg", false, "a GGML file of before GGUF", "convert it again"},
    {"PK\x03\x04", false, "a zip archive or PyTorch checkpoint", "convert it to safetensors"},
    {"\x80\x02", false, "a Python pickle", "convert it to safetensors"},
    {"\x1f\x8b", false, "a gzip archive", "unpack it first"},
    {"\xfd"
     "7zXZ",
     false, "an xz archive", "unpack it first"},
    {"\x28\xb5\x2f\xfd", false, "a zstd archive", "unpack it first"},
};

static bool begins(const char *data, size_t size, const char *with)
{
    size_t n = strlen(with);
    return size >= n && !strncasecmp(data, with, n);
}

bool sniff_stranger(const void *data, size_t size, const char *where, const char *expected, struct error *e)
{
    const char *p = data, *text = p;
    if (!size)
        return error_set(e, ERROR_FILE, "'%s' is empty, not %s (a failed download?)", where, expected);
    while (text < p + size && isspace((unsigned char)*text))
        text++;
    for (size_t i = 0; i < sizeof SIGN / sizeof *SIGN; i++) {
        const char *at = SIGN[i].text ? text : p;
        if (begins(at, size - (size_t)(at - p), SIGN[i].begin) && strcmp(SIGN[i].is, expected))
            return error_set(e, ERROR_FILE, "'%s' is %s, not %s (%s)", where, SIGN[i].is, expected, SIGN[i].hint);
    }
    if (size > 9 && p[8] == '{' && !p[6] && !p[7] && strcmp(expected, "a safetensors file"))
        return error_set(e, ERROR_FILE, "'%s' is a safetensors file, not %s (rename it to .safetensors)", where, expected);
    size_t zeros = 0;
    while (zeros < size && zeros < 4096 && !p[zeros])
        zeros++;
    if (zeros == size || zeros == 4096)
        return error_set(e, ERROR_FILE, "'%s' begins with nothing but zeros, not as %s (an unfinished download?)", where,
                         expected);
    return true;
}
