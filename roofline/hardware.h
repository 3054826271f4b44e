// What a machine can do: the catalogue entry or measured file of one device. Vendor GB/s are decimal, memory sizes binary.
//
// {"name": "h100-sxm", "title": "H100 SXM", "aliases": ["h100"], "vendor": "NVIDIA", "kind": "gpu", "arch": "Hopper",
//  "memory_MiB": 81559, "cuda_MiB": 81080, "cache_MiB": 50, "link": "NVLink4", "link_GBps_bidir": 900, "pcie_GBps_per_dir":
//  63, "hard": {"bandwidth_GBps": VALUE, "peak_TFLOPS": {"bf16": VALUE, ...}}, "datasheet": {...}, "attainable": {...,
//  "levels": [{"name": "L3", "capacity_MiB": 32, "fade_MiB": 128, "read_GBps": VALUE}]}, "source": "...", "note": "...",
//  "survey": [what else `kvbench ceilings` measured; not read here]}
// VALUE is a number, or {"value": 3352.3, "method": "derived", "n": 7, "median": 3300, "spread": 0.02, "date":
// "2025-01-31", "source": "..."}.
#ifndef ROOFLINE_HARDWARE_H
#define ROOFLINE_HARDWARE_H

#include "engine/base/dtype.h"
#include "engine/base/json.h"

// The three meanings a peak can have (DESIGN: hard is physics, datasheet is print, attainable is a microbenchmark).
enum roof_kind { ROOF_HARD, ROOF_DATASHEET, ROOF_ATTAINABLE, ROOF_KINDS };
const char *roof_kind_name(enum roof_kind kind); // "hard": also the JSON key

// value 0 means unknown.
struct hw_value {
    double value;    // bytes/s or FLOP/s
    char method[12]; // "printed", "derived", "measured", "published"
    int32_t n;       // samples behind it, 0 if not measured
    double median;   // of them, in the unit of value; 0 if unknown
    double spread;   // relative, (p90 - p10) / median, 0 if unknown
    char date[12];   // YYYY-MM-DD or ""
    char source[160];
};

// A cache, as loops find it that go over a set of bytes again and again, all threads together. Sets up to `bytes` are read
// from it; of larger ones it keeps linearly less, and nothing from fade_bytes on. Levels are in order of size, and slower.
struct hw_level {
    char name[16]; // "L2"
    uint64_t bytes, fade_bytes;
    struct hw_value bandwidth; // attainable, read
};
enum { HARDWARE_LEVELS = 4 };

struct hardware {
    char name[64], title[96];            // "h100-sxm", "H100 SXM"
    char vendor[32], kind[16], arch[32]; // kind: "gpu", "cpu" or "accelerator"
    uint64_t memory_bytes;               // what the driver reports; marketed size where nobody printed it; 0: unknown
    uint64_t cuda_bytes;  // what CUDA reports to a process, less by what the driver keeps; 0: nobody printed it
    uint64_t cache_bytes; // what can outlive a step on the chip (L2, and L3 or Infinity Cache behind it), 0: unknown
    struct hw_value bandwidth[ROOF_KINDS];         // main memory, read, bytes/s
    struct hw_value peak[ROOF_KINDS][DTYPE_COUNT]; // dense FLOP/s by compute type
    struct hw_level level[HARDWARE_LEVELS];        // [n_levels]; none: all is read from main memory
    int32_t n_levels;
    char link[48];                 // "NVLink4"
    double link_bytes_per_s_bidir; // both directions together, 0: none
    double pcie_bytes_per_s;       // each direction, 0: unknown
    char source[512], note[512];
};

// Where `kvbench ceilings` leaves what it measured, and `auto` looks for it.
#define HARDWARE_MEASURED_PATH "results/ceilings.json"

// name: a catalogue name or alias, a path to a hardware JSON (what has a '/' or ends in .json), or "auto": this machine's
// measured ceilings.
bool hardware_load(struct hardware *hw, const char *name, struct error *e);

// Reads parsed JSON; `where` names it in messages.
bool hardware_parse(struct hardware *hw, const cJSON *json, const char *where, struct error *e);

// What hardware_load reads, as JSON (the caller frees it with cJSON_Delete) and written to a file.
cJSON *hardware_json(const struct hardware *hw);
// Keeps the survey of the file it replaces; the second one writes this one (a copy of it) instead, where it is not NULL.
bool hardware_save(const struct hardware *hw, const char *path, struct error *e);
bool hardware_save_survey(const struct hardware *hw, const cJSON *survey, const char *path, struct error *e);

// The type whose peak bounds arithmetic in `compute`: its own where the device has it, else what it would use instead
// (bf16 and f16 widened to f32; fp8, int8 and block types in 16 bit).
enum dtype hardware_compute_type(const struct hardware *hw, enum dtype compute);

// The dense peak for arithmetic in `compute` (through hardware_compute_type) and the bandwidth, of exactly this kind;
// 0 if unknown.
double hardware_peak(const struct hardware *hw, enum roof_kind kind, enum dtype compute);
double hardware_bandwidth(const struct hardware *hw, enum roof_kind kind);

// What caches hold at most between steps: cache_bytes, or the largest level where that is more.
uint64_t hardware_cache(const struct hardware *hw);
// Of `distance` bytes that are gone over again and again, how many are still in a cache when they are wanted.
uint64_t hardware_kept(const struct hardware *hw, uint64_t distance);
// How many of them level i serves; i == n_levels: the main memory.
uint64_t hardware_served(const struct hardware *hw, int32_t i, uint64_t distance);
// The rate at which bytes are read again of which `distance` are gone over in between, themselves included: each level's
// for what it keeps, the main memory's for the rest; its spread likewise. Without levels the best known bandwidth.
struct hw_value hardware_stream(const struct hardware *hw, uint64_t distance);
// The memory of a moment in which that stream has another rate: all levels change by the same factor.
void hardware_set_stream(struct hardware *hw, uint64_t distance, double rate);
// True if levels keep nothing of it: the stream is the main memory's.
bool hardware_from_memory(const struct hardware *hw, uint64_t distance);

// Bytes/s of one rank's link in one direction: half of the bidirectional rate, else PCIe's; 0 if unknown.
double hardware_link(const struct hardware *hw);

// FLOP/byte at which compute and bandwidth take equally long; 0 if unknown.
double hardware_ridge(const struct hardware *hw, enum roof_kind kind, enum dtype compute);

#endif
