// Which span each kernel on the device belongs to and when it ran, by CUPTI's activity records. A kernel of a graph is known
// by its node, whose span was noted when it was captured; a kernel that was launched by itself by the number that was on
// top of CUPTI's stack of external correlations then.
#ifndef ENGINE_CUDA_ACTIVITY_H
#define ENGINE_CUDA_ACTIVITY_H

#include "engine/base/error.h"
#include "engine/cuda/profile.h"

struct activity_kernel {
    uint64_t begin_ns, end_ns; // CUPTI's clock
    uint64_t node;             // of its graph; 0: launched by itself
    uint32_t correlation;
};
struct activity_node {
    uint64_t node;
    int32_t span;
};
struct activity_launch {
    uint32_t correlation;
    int32_t span;
};

struct activity {
    const struct cupti *cupti;
    CUpti_SubscriberHandle subscriber;
    struct activity_kernel *kernel; // [n_kernels], as they come
    struct activity_node *node;     // [n_nodes]
    struct activity_launch *launch; // [n_launches]
    size_t n_kernels, n_nodes, n_launches, room_kernels, room_nodes, room_launches;
    size_t n_dropped;
    int32_t span;     // what is launched or captured now belongs to it; -1: nothing does
    uint64_t zero_ns; // CUPTI's clock when it was opened
    bool no_memory;
};

// Opens records for everything until they are closed. One at a time in a process, since CUPTI's callbacks know no owner.
bool activity_open(struct activity *a, struct error *e);
void activity_close(struct activity *a); // accepts zeroed

void activity_span(struct activity *a, int32_t span); // -1: what follows belongs to none

struct activity_time {
    uint64_t begin_ns, end_ns; // since activity_open; begin UINT64_MAX: nothing ran
};
// When each of n_spans ran, once the work is done. Fails where records are missing or belong to no span that was noted.
bool activity_times(struct activity *a, int32_t n_spans, struct activity_time *out, struct error *e);

// The parts, for whoever has buffers of its own (tests): records into lists, and lists into times.
bool activity_parse(struct activity *a, uint8_t *buffer, size_t bytes, struct error *e);
bool activity_note_node(struct activity *a, uint64_t node, int32_t span);
bool activity_clone_node(struct activity *a, uint64_t node, uint64_t original); // belongs where the original does
bool activity_join(struct activity *a, int32_t n_spans, struct activity_time *out, struct error *e);

#endif
