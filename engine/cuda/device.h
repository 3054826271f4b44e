// What kernels may use: the only header that a .cu file includes beside kernels.h. nvcc sees thin wrappers around PTX; g++
// (which defines no __CUDACC__) sees the emulator of tests/cuda, so that every kernel also runs on a CPU under test.
//
// Rules for kernels: launch by CUDA_LAUNCH, take dynamic shared memory by DYNAMIC_SHARED, reach PTX only through the
// wrappers below, compute in float (NVIDIA's bf16, f16 and fp8 conversions work on a CPU bit for bit, packed arithmetic
// does not), keep no thread_local or static variables.
#ifndef ENGINE_CUDA_DEVICE_H
#define ENGINE_CUDA_DEVICE_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <stdint.h>

#ifdef __CUDACC__

#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1") // where unrolling would take more registers than there are
#define DYNAMIC_SHARED(T, name)                                                                                             \
    extern __shared__ __align__(1024) unsigned char dynamic_shared_[];                                                      \
    T *name = reinterpret_cast<T *>(dynamic_shared_)
#define CUDA_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                                         \
    (kernel<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__), cudaGetLastError())

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

// 16 bytes to shared memory, past L1.
__device__ __forceinline__ void copy_async16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
// The same, zeros where !valid; nothing is read then.
__device__ __forceinline__ void copy_async16_or_zero(void *to, const void *from, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(valid ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int PENDING> __device__ __forceinline__ void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// d += a b: 16 x 8 x 16, bf16 in, f32 out, fragments of mma.sync.m16n8k16.
__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four 8 x 8 matrices of 16-bit values from shared memory; lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row)));
}
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row)));
}

// 2^x as the hardware has it: within 2 units in the last place, 0 below 2^-126.
__device__ __forceinline__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// 16 bytes that are read once: past L1, fetched 256 bytes at a time into L2.
__device__ __forceinline__ uint4 load_stream(const void *p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define HAS_BULK_COPY 1
__device__ __forceinline__ void mbarrier_init(uint64_t *b, unsigned count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count) : "memory");
}
__device__ __forceinline__ void mbarrier_init_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(uint64_t *b)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect(uint64_t *b, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbarrier_wait(uint64_t *b, unsigned parity)
{
    asm volatile("{\n.reg .pred p;\nWAIT_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE_%=;\n"
                 "bra WAIT_%=;\nDONE_%=:\n}" ::"r"(shared_address(b)),
                 "r"(parity)
                 : "memory");
}
// Weights: read once, so first to leave L2. bytes and addresses: multiples of 16.
__device__ __forceinline__ void bulk_load(void *to, const void *from, unsigned bytes, uint64_t *b)
{
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
            shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(b)), "l"(policy)
        : "memory");
}
#endif

#else // on the CPU

#define HAS_BULK_COPY 1
#include CUDA_EMULATOR // tests/cuda/emu_device.h, by the Makefile

#endif

#endif
