// Standard output as a result: written in full, or an error.
#ifndef ENGINE_BASE_OUTPUT_H
#define ENGINE_BASE_OUTPUT_H

#include "engine/base/error.h"

// Called first: a standard file that the caller closed is opened again, so that no other file takes its number and what is
// printed never lands in a result.
void keep_standard_files(void);

// Flushes standard output. ERROR_OUTPUT if anything printed so far did not get there.
bool output_written(struct error *e);

#endif
