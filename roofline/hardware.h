// What a machine can do: the catalogue entry or measured file of one device. Vendor GB/s are decimal, memory sizes binary.
#ifndef ROOFLINE_HARDWARE_H
#define ROOFLINE_HARDWARE_H

#include "engine/base/dtype.h"
#include "engine/base/error.h"

// The three meanings a peak can have (DESIGN: hard is physics, datasheet is print, attainable is a microbenchmark).
enum roof_kind { ROOF_HARD, ROOF_DATASHEET, ROOF_ATTAINABLE, ROOF_KINDS };

// 0 means unknown.
struct hw_value {
    double value;    // bytes/s or FLOP/s
    char method[12]; // "printed", "derived", "measured", "published"
    int32_t n;       // samples behind it, 0 if not measured
    double spread;   // relative, (p90 - p10) / median, 0 if unknown
    char date[12];   // YYYY-MM-DD or ""
    char source[160];
};

struct hardware {
    char name[64], title[96];              // "h100-sxm", "H100 SXM"
    char vendor[32], kind[8];              // kind: "gpu" or "cpu"
    uint64_t memory_bytes;                 // what the driver reports; marketed size where nobody printed it; 0: unknown
    uint64_t llc_bytes;                    // last-level cache, 0: unknown
    struct hw_value bandwidth[ROOF_KINDS]; // main memory, read, bytes/s
    struct hw_value peak[ROOF_KINDS][DTYPE_COUNT]; // dense FLOP/s by compute type
    double link_bytes_per_s_bidir;                 // both directions together, 0: none
    char source[256];
};

// name: a catalogue name or alias, or a path to a hardware JSON.
bool hardware_load(struct hardware *hw, const char *name, struct error *e);

// The dense peak for arithmetic in `compute`: its own, else the one the device would use instead (bf16 -> f32 where there is
// none: widened; fp8, int8 -> the 16-bit peak). 0 if nothing is known.
double hardware_peak(const struct hardware *hw, enum roof_kind kind, enum dtype compute);
double hardware_bandwidth(const struct hardware *hw, enum roof_kind kind);
// FLOP/byte at which compute and bandwidth take equally long; 0 if unknown.
double hardware_ridge(const struct hardware *hw, enum roof_kind kind, enum dtype compute);

// Writes the file that hardware_load reads.
bool hardware_save(const struct hardware *hw, const char *path, struct error *e);

#endif
