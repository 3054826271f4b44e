// The CPU side of engine/cuda/device.h: CUDA's names, served by the emulator.
#ifndef TESTS_CUDA_EMU_DEVICE_H
#define TESTS_CUDA_EMU_DEVICE_H

#include "tests/cuda/emu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#undef __shared__
#define __shared__ static thread_local // one OS thread; filled anew for each block
#undef __forceinline__
#define __forceinline__ inline
#undef __launch_bounds__
#define __launch_bounds__(...)
#define UNROLL
#define ROLLED
#define threadIdx (emu_current->tid)
#define blockIdx (emu_block.bid)
#define blockDim (emu_block.block)
#define gridDim (emu_block.grid)
#define DYNAMIC_SHARED(T, name) T *name = static_cast<T *>(emu_block.dynamic)

static const int warpSize = 32;

using std::max;
using std::min;

inline void __syncthreads()
{
    emu_barrier(0, 0);
}
inline int __syncthreads_count(int p)
{
    return emu_barrier_reduce(EMU_COUNT, p);
}
inline int __syncthreads_and(int p)
{
    return emu_barrier_reduce(EMU_AND, p);
}
inline int __syncthreads_or(int p)
{
    return emu_barrier_reduce(EMU_OR, p);
}
inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    emu_warp(mask, nullptr);
}
inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_block()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

template <class T> inline T emu_shuffle_from(unsigned mask, T value, int source)
{
    static_assert(sizeof(T) <= sizeof emu_current->in, "shuffle operand");
    T result;
    std::memcpy(emu_current->in, &value, sizeof value);
    emu_current->source = source;
    emu_warp(mask, emu_shuffle);
    std::memcpy(&result, emu_current->out, sizeof result);
    return result;
}
template <class T> inline T __shfl_sync(unsigned mask, T v, int from, int width = 32)
{
    int lane = (int)emu_current->lane;
    return emu_shuffle_from(mask, v, (lane & ~(width - 1)) | (from & (width - 1)));
}
template <class T> inline T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32)
{
    int lane = (int)emu_current->lane, from = lane ^ bits;
    return emu_shuffle_from(mask, v, from > (lane | (width - 1)) ? lane : from);
}
template <class T> inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32)
{
    int lane = (int)emu_current->lane, from = lane + (int)by;
    return emu_shuffle_from(mask, v, from > (lane | (width - 1)) ? lane : from);
}
template <class T> inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32)
{
    int lane = (int)emu_current->lane, from = lane - (int)by;
    return emu_shuffle_from(mask, v, from < (lane & ~(width - 1)) ? lane : from);
}
inline unsigned __ballot_sync(unsigned mask, int p)
{
    emu_current->in[0] = p != 0;
    emu_warp(mask, emu_ballot);
    return emu_current->out[0];
}
inline int __any_sync(unsigned mask, int p)
{
    return __ballot_sync(mask, p) != 0;
}
inline int __all_sync(unsigned mask, int p)
{
    return __ballot_sync(mask, p) == mask;
}

template <class T> inline T __ldg(const T *p)
{
    return *p;
}
// Blocks run one after another on one thread: plain operations are atomic.
template <class T> inline T atomicAdd(T *p, T v)
{
    T old = *p;
    *p = old + v;
    return old;
}
template <class T> inline T atomicMax(T *p, T v)
{
    T old = *p;
    *p = old < v ? v : old;
    return old;
}

inline float rsqrtf(float x)
{
    return 1.0f / std::sqrt(x);
}
inline float __expf(float x)
{
    return std::exp(x);
}
inline float __fdividef(float a, float b)
{
    return a / b;
}
inline float __uint_as_float(unsigned bits)
{
    float f;
    std::memcpy(&f, &bits, sizeof f);
    return f;
}
inline unsigned __float_as_uint(float f)
{
    unsigned bits;
    std::memcpy(&bits, &f, sizeof bits);
    return bits;
}
inline int __dp4a(int a, int b, int c)
{
    for (int i = 0; i < 4; i++)
        c += (int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i);
    return c;
}
inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

inline void copy_async16(void *to, const void *from)
{
    emu_copy_async(to, from, 16);
}
inline void copy_async16_or_zero(void *to, const void *from, bool valid)
{
    alignas(16) static const char zeros[16] = {0};
    emu_copy_async(to, valid ? from : zeros, 16);
}
inline void copy_commit()
{
    emu_copy_commit();
}
template <int PENDING> inline void copy_wait()
{
    emu_copy_wait(PENDING);
}
inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    std::memcpy(emu_current->in, a, sizeof a);
    std::memcpy(emu_current->in + 4, b, sizeof b);
    std::memcpy(emu_current->in + 6, d, sizeof d);
    emu_warp(0xffffffffu, emu_mma_bf16);
    std::memcpy(d, emu_current->out, sizeof d);
}
inline void load_matrices(uint32_t (&r)[4], const void *row)
{
    std::memcpy(emu_current->in, &row, sizeof row);
    emu_warp(0xffffffffu, emu_ldmatrix);
    std::memcpy(r, emu_current->out, sizeof r);
}
inline void load_matrices_transposed(uint32_t (&r)[4], const void *row)
{
    std::memcpy(emu_current->in, &row, sizeof row);
    emu_warp(0xffffffffu, emu_ldmatrix_transposed);
    std::memcpy(r, emu_current->out, sizeof r);
}
inline float power_of_two(float x)
{
    return std::exp2(x);
}
inline uint4 load_stream(const void *p)
{
    if (reinterpret_cast<uintptr_t>(p) % 16)
        emu_die("a 16-byte load from %p is misaligned", p);
    return *static_cast<const uint4 *>(p);
}
inline void mbarrier_init(uint64_t *b, unsigned count)
{
    emu_mbarrier_init(b, count);
}
inline void mbarrier_init_fence()
{
}
inline void mbarrier_arrive(uint64_t *b)
{
    emu_mbarrier_arrive(b, 0);
}
inline void mbarrier_arrive_expect(uint64_t *b, unsigned bytes)
{
    emu_mbarrier_arrive(b, bytes);
}
inline void mbarrier_wait(uint64_t *b, unsigned parity)
{
    emu_mbarrier_wait(b, parity);
}
inline void bulk_load(void *to, const void *from, unsigned bytes, uint64_t *b)
{
    emu_bulk_load(to, from, bytes, b);
}

// Arguments are packed and copied, as a real launch does.
template <class... P, class... A>
inline cudaError_t emu_launch_kernel(const char *name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
                                     cudaStream_t stream, A &&...args)
{
    struct packed {
        void (*kernel)(P...);
        std::tuple<std::decay_t<P>...> args;
    };
    static_assert((std::is_trivially_copyable_v<std::decay_t<P>> && ...), "kernel parameters must be plain data");
    packed p{kernel, std::tuple<std::decay_t<P>...>(std::forward<A>(args)...)};
    auto run = [](void *q) {
        packed *x = static_cast<packed *>(q);
        std::apply(x->kernel, x->args);
    };
    return (cudaError_t)emu_launch({grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes, stream, +run, &p,
                                   sizeof p, (const void *)kernel, name);
}
#define CUDA_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                                         \
    emu_launch_kernel(#kernel, kernel, grid, block, shared_bytes, stream, __VA_ARGS__)

#endif
