// Between kvbench, which knows no NVIDIA library, and kvbench-cuda.so, which holds the CUDA backend: one exported function.
// Both sides are built from one tree; the numbers below refuse a plug-in of another.
#ifndef ENGINE_CUDA_CUDA_H
#define ENGINE_CUDA_CUDA_H

#include "engine/backend.h"

#define CUDA_PLUGIN_FILE "kvbench-cuda.so"
#define CUDA_PLUGIN_SYMBOL "kvbench_cuda_plugin_1"

// Of n moments; n 0: not measured.
struct cuda_rate {
    double best, median, spread; // spread: (p90 - p10) / median
    int32_t n;
};

// What a device attains.
struct cuda_ceilings {
    char device[256];
    uint64_t memory_bytes, l2_bytes;
    struct cuda_rate read, copy;                        // bytes/s; a copy's are read and written
    struct cuda_rate product[DTYPE_COUNT];              // FLOP/s of cuBLAS(Lt), the best of some shapes, by type of inputs
    struct cuda_rate launch_ns, graph_node_ns;          // of a kernel that does nothing: launched by itself, and in a graph
    double known_bytes, known_flops;                    // what was read and multiplied under its counters
    struct device_counts counted_read, counted_product; // and what they said
    char not_counted[200];                              // why they said nothing, or ""
};

struct cuda_plugin {
    uint32_t abi;   // CUDA_PLUGIN_ABI
    uint32_t bytes; // cuda_plugin_bytes(): of all structures that cross the border
    bool (*open)(struct backend *out, const struct backend_options *options, struct error *e);
    bool (*ceilings)(int32_t device, struct cuda_ceilings *out, struct error *e);
};

enum { CUDA_PLUGIN_ABI = 2 };

static inline uint32_t cuda_plugin_bytes(void)
{
    return (uint32_t)(sizeof(struct cuda_plugin) + sizeof(struct cuda_ceilings) + sizeof(struct backend) +
                      sizeof(struct backend_options) + sizeof(struct plan) + sizeof(struct op) + sizeof(struct slot) +
                      sizeof(struct tensor_spec) + sizeof(struct tensor) + sizeof(struct choice) + sizeof(struct batch) +
                      sizeof(struct trace_row) + sizeof(struct error));
}

typedef const struct cuda_plugin *(*cuda_plugin_entry)(void);

// Opens the backend through the plug-in. ERROR_DEVICE with one line that names the cause: no driver, no plug-in, a library
// the plug-in wants, a plug-in of another build, no device. The plug-in is looked for in the folder KVBENCH_BACKEND_DIR
// alone where that is set (and then without asking for a driver first), else beside the program and in ../lib/kvbench.
bool cuda_backend_open(struct backend *out, const struct backend_options *options, struct error *e);

// What device `device` attains, likewise through the plug-in; takes some seconds.
bool cuda_device_ceilings(int32_t device, struct cuda_ceilings *out, struct error *e);

// Is there an NVIDIA driver, or has the user named a folder of plug-ins? Loading the plug-in takes most of a second.
bool cuda_backend_likely(void);

#endif
