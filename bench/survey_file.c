// Reading and writing a file of some hundred megabytes: past the page cache, as far as the file system lets us, and
// through it. The file has no name, so nothing is left of it whatever happens.
#include "bench/survey.h"

#include "engine/base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { PIECE_BYTES = 4 << 20, FILE_PIECES = 48, FILE_LOOKS = 3, MOST_FILE_NS = 1500 * 1000 * 1000 };
#define ROOM 4 // times the file must be free

struct passage {
    int fd;
    bool write;
    uint8_t *piece; // aligned as direct access wants it
};

// Bytes per second of going over the file, or over as much of it as a bounded time allows; 0 if it fails. What is written
// directly is on the device when this returns.
static double pass(const struct passage *p, bool sync)
{
    int64_t begin = clock_ns();
    int32_t done = 0;
    for (; done < FILE_PIECES && clock_ns() - begin < MOST_FILE_NS; done++) {
        off_t at = (off_t)done * PIECE_BYTES;
        ssize_t n = p->write ? pwrite(p->fd, p->piece, PIECE_BYTES, at) : pread(p->fd, p->piece, PIECE_BYTES, at);
        if (n != PIECE_BYTES)
            return 0;
    }
    if (sync && fdatasync(p->fd))
        return 0;
    return (double)done * PIECE_BYTES * 1e9 / (double)(clock_ns() - begin);
}

static bool set_direct(int fd, bool direct)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && !fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT);
}

static bool look_at(struct survey *s, struct passage *p, bool direct, bool write, struct error *e)
{
    static const char *const HOW[] = {"cached", "direct"};
    const char *what = write ? "write" : "read";
    if (!set_direct(p->fd, direct))
        return survey_skip(s, "file", what, HOW[direct], "this file system has no direct access", e);
    struct survey_series *series = survey_next(s, "file", what, HOW[direct], "B/s", 1);
    if (!series)
        return survey_no_memory(e);
    p->write = write;
    series->row.set_bytes = (int64_t)FILE_PIECES * PIECE_BYTES;
    for (int32_t i = 0; i < FILE_LOOKS; i++) {
        double rate = pass(p, direct && write);
        if (rate > 0)
            survey_add(series, rate);
        else
            snprintf(series->row.note, sizeof series->row.note, "%s failed: %s", what, strerror(errno));
    }
    return true;
}

// Written before it is read; through the cache first, so that what is read directly is all there.
static bool look_at_all(struct survey *s, int fd, uint8_t *piece, struct error *e)
{
    struct passage p = {.fd = fd, .piece = piece};
    memset(piece, 0x5a, PIECE_BYTES);
    return look_at(s, &p, false, true, e) && look_at(s, &p, false, false, e) && look_at(s, &p, true, true, e) &&
           look_at(s, &p, true, false, e);
}

static bool has_room(const char *folder)
{
    struct statvfs v;
    return !statvfs(folder, &v) && (double)v.f_bavail * (double)v.f_frsize > (double)ROOM * FILE_PIECES * PIECE_BYTES;
}

bool survey_files(struct survey *s, const char *folder, struct error *e)
{
    char path[700];
    uint8_t *piece = NULL;
    if (!has_room(folder))
        return survey_skip(s, "file", "", "", "not enough room for a file of 192 MiB", e);
    snprintf(path, sizeof path, "%.640s/.kvbench-survey-XXXXXX", folder);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return survey_skip(s, "file", "", "", "the folder cannot be written", e);
    unlink(path);
    bool ok = !posix_memalign((void **)&piece, 1 << 20, PIECE_BYTES) || survey_no_memory(e);
    ok = ok && look_at_all(s, fd, piece, e);
    free(piece);
    close(fd);
    return ok;
}
