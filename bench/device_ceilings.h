// The ceilings of a CUDA device, measured through the plug-in, as hardware like any other.
#ifndef BENCH_DEVICE_CEILINGS_H
#define BENCH_DEVICE_CEILINGS_H

#include "engine/cuda/cuda.h"
#include "roofline/hardware.h"

enum { DEVICE_CEILINGS_SECONDS = 10 }; // that measuring them takes, about

// Where they are kept: FOLDER/ceilings-cuda0.json.
void device_ceilings_path(const char *folder, int32_t device, char out[640]);

void device_ceilings_hardware(const struct cuda_ceilings *c, struct hardware *hw);

// Measures; where `path` (or NULL) is of the same device, what was higher then is kept. Written to it.
bool device_ceilings_measure(struct hardware *hw, struct cuda_ceilings *c, int32_t device, const char *path,
                             struct error *e);

// True if `path` holds those of a device with this name (struct backend's).
bool device_ceilings_find(struct hardware *hw, const char *path, const char *device);

// For people: rates, launches, and what counters said of work whose size is known.
void device_ceilings_print(FILE *f, const struct hardware *hw, const struct cuda_ceilings *c);
// The same beside the hardware's JSON, under "device".
cJSON *device_ceilings_json(const struct cuda_ceilings *c);

#endif
