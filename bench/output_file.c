#include "bench/output_file.h"

#include "engine/base/file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool output_failed(const char *path, struct error *e)
{
    return error_set(e, ERROR_OUTPUT, "'%s' cannot be written: %s", path, strerror(errno));
}

bool make_folder(const char *path, struct error *e)
{
    char part[OUTPUT_PATH];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = part + 1; *slash; slash++)
        if (*slash == '/') {
            *slash = 0;
            if (mkdir(part, 0777) && errno != EEXIST)
                return output_failed(part, e);
            *slash = '/';
        }
    if (mkdir(part, 0777) && errno != EEXIST)
        return output_failed(part, e);
    return file_is_directory(path) || error_set(e, ERROR_OUTPUT, "'%s' is not a folder", path);
}

bool output_flush(FILE *f, const char *path, struct error *e)
{
    return (!fflush(f) && !ferror(f) && !fsync(fileno(f))) || output_failed(path, e);
}

static bool close_written(FILE *f, const char *path, struct error *e)
{
    bool ok = output_flush(f, path, e);
    return (!fclose(f) || !ok || output_failed(path, e)) && ok;
}

bool replacement_open(struct replacement *r, const char *path, struct error *e)
{
    snprintf(r->path, sizeof r->path, "%s", path);
    snprintf(r->temporary, sizeof r->temporary, "%s.new", path);
    r->f = fopen(r->temporary, "we");
    return r->f || output_failed(path, e);
}

bool replacement_close(struct replacement *r, bool ok, struct error *e)
{
    ok = close_written(r->f, r->path, ok ? e : NULL) && ok;
    if (ok && rename(r->temporary, r->path))
        ok = output_failed(r->path, e);
    if (!ok)
        unlink(r->temporary);
    return ok;
}

bool write_file(const char *path, const char *text, struct error *e)
{
    struct replacement r;
    if (!text)
        return error_set(e, ERROR_MEMORY, "no memory for '%s'", path);
    if (!replacement_open(&r, path, e))
        return false;
    fputs(text, r.f);
    return replacement_close(&r, true, e);
}
