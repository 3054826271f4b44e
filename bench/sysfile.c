#include "bench/sysfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *open_below(const char *root, const char *path)
{
    char whole[1024];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    return fopen(whole, "re");
}

bool sysfile_line(const char *root, const char *path, char *out, int size)
{
    FILE *f = open_below(root, path);
    *out = 0;
    bool ok = f && fgets(out, size, f);
    out[strcspn(out, "\n")] = 0;
    if (f)
        fclose(f);
    return ok;
}

bool sysfile_field(const char *root, const char *path, const char *name, char *out, int size)
{
    char line[8192];
    FILE *f = open_below(root, path);
    bool found = false;
    *out = 0;
    while (f && !found && fgets(line, sizeof line, f)) {
        size_t n = strlen(name), colon = strcspn(line, ":");
        found = !strncmp(line, name, n) && colon < strlen(line) && strspn(line + n, " \t") == colon - n;
        if (found)
            snprintf(out, (size_t)size, "%s", line + colon + 1 + strspn(line + colon + 1, " \t"));
    }
    out[strcspn(out, "\n")] = 0;
    if (f)
        fclose(f);
    return found;
}

bool sysfile_number(const char *root, const char *path, int64_t *out)
{
    char text[64], *end;
    *out = 0;
    if (!sysfile_line(root, path, text, sizeof text))
        return false;
    long long value = strtoll(text, &end, 10);
    *out = end == text ? 0 : value;
    return end != text;
}

bool sysfile_exists(const char *root, const char *path)
{
    char whole[1024];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    return !access(whole, F_OK);
}

int32_t sysfile_list(const char *text, int32_t *out, int32_t n)
{
    int32_t count = 0;
    for (const char *p = text;; p++) {
        char *end;
        long first = strtol(p, &end, 10), last = first;
        if (end == p)
            return count;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long i = first; i <= last && count < n; i++)
            out[count++] = (int32_t)i;
        if (*end != ',')
            return count;
        p = end;
    }
}
