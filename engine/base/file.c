#include "engine/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool map_descriptor(struct file *f, int fd, const char *path, struct error *e)
{
    struct stat st;
    if (fstat(fd, &st))
        return error_set(e, ERROR_FILE, "'%s': %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return error_set(e, ERROR_FILE, "'%s' is a directory, expected a file", path);
    if (!S_ISREG(st.st_mode))
        return error_set(e, ERROR_FILE, "'%s' is not a regular file", path);
    if (st.st_size == 0)
        return true;
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return error_set(e, ERROR_MEMORY, "'%s': cannot be mapped: %s", path, strerror(errno));
    *f = (struct file){data, (size_t)st.st_size};
    return true;
}

bool file_open(struct file *f, const char *path, struct error *e)
{
    *f = (struct file){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a named pipe is refused, not waited for
    if (fd < 0)
        return error_set(e, ERROR_FILE, "'%s': %s", path, strerror(errno));
    bool ok = map_descriptor(f, fd, path, e);
    close(fd);
    return ok;
}

void file_close(struct file *f)
{
    if (f->data)
        munmap((void *)f->data, f->size);
    *f = (struct file){0};
}

bool file_is_directory(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

bool file_exists(const char *path)
{
    return !access(path, F_OK);
}

bool file_same(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
