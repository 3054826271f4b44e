#include "engine/base/output.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

// Each open takes the lowest number that is free. Read-only, so that writing there fails as it should.
void keep_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
            return;
}

// The error flag too: a failed write of a full buffer leaves an empty one, which is flushed without complaint.
bool output_written(struct error *e)
{
    bool flushed = !fflush(stdout);
    return (flushed && !ferror(stdout)) || error_set(e, ERROR_OUTPUT, "standard output could not be written");
}
