// The CPU backend: kernels per instruction set behind one dispatch table, chosen at run time by CPU features.
#ifndef ENGINE_CPU_CPU_H
#define ENGINE_CPU_CPU_H

#include "engine/backend.h"

// Registered in engine/backends.c. options->isa: "auto", "ref" (plain readable C, ref.c), "avx2", "avx2vnni", "avx512",
// "avx512vnni", "avx512bf16".
bool cpu_backend_open(struct backend *out, const struct backend_options *options, struct error *e);

// The cover alone: plain C, no device, no weights. Pricing needs no open backend.
int32_t cpu_cover(void *unused, const struct plan *plan, const struct batch_shape *shape, struct span *spans);
const char *cpu_kernel_name(void *unused, uint16_t kernel);

// The arithmetic that goes with weights of a type: bf16 for bf16, int8 (activations quantized by row and group) for int8,
// int4 and the block types, else f32. f32 can be had for every type. Plain C, as the cover.
enum dtype cpu_compute_of(enum dtype weights);
bool cpu_can_compute(enum dtype weights, enum dtype compute);

// What the kernels of an open CPU backend do with a type: multiply by matrices of it, keep K or V in it.
bool cpu_can_multiply(const struct backend *cpu, enum dtype type);
bool cpu_can_keep(const struct backend *cpu, enum dtype type);

// Facts for the record: what this machine is and which path was taken. Strings are owned by the library.
const char *cpu_isa_selected(const struct backend *cpu); // "avx512bf16"
const char *cpu_isa_best(void);                          // what "auto" selects here

#endif
