// Fibers: CUDA threads as stacks that one OS thread switches between. ASan and TSan are told about every switch; this
// file itself is compiled without TSan (EMU_TSAN says that the rest is not).
#include "tests/cuda/emu_fibers.h"

#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
void __sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *size);
#endif
#ifdef EMU_TSAN
void *__tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void *__tsan_get_current_fiber(void);
void __tsan_acquire(void *tag);
void __tsan_release(void *tag);
#endif

enum { STACK_BYTES = 256 << 10, PAGE = 4096 };
enum order { FORWARD, REVERSE, RANDOM };

struct emu_fiber emu_fiber[EMU_MAX_THREADS], *emu_current;
struct emu_block emu_block;
unsigned emu_threads, emu_live;

static struct emu_fiber host; // whoever calls emu_run_grid
#ifdef __SANITIZE_ADDRESS__
static size_t host_stack_bytes;
#endif
static unsigned n_made; // fibers that have a stack
static struct {
    struct emu_fiber *fiber[EMU_MAX_THREADS];
    unsigned head, n;
} ready;
static emu_thunk kernel;
static void *kernel_args;
static const char *kernel_name = "?";
static char block_tag;
static enum order order;
static uint64_t random_state;

void emu_die(const char *format, ...)
{
    va_list args;
    const struct emu_fiber *f = emu_current;
    fprintf(stderr, "cuda emulation: kernel %s, block (%u, %u, %u)", kernel_name, emu_block.bid.x, emu_block.bid.y,
            emu_block.bid.z);
    if (f && f != &host)
        fprintf(stderr, ", thread (%u, %u, %u)", f->tid.x, f->tid.y, f->tid.z);
    fputs(": ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

void emu_acquire(void *tag)
{
#ifdef EMU_TSAN
    __tsan_acquire(tag);
#else
    (void)tag;
#endif
}

void emu_release(void *tag)
{
#ifdef EMU_TSAN
    __tsan_release(tag);
#else
    (void)tag;
#endif
}

// xorshift64
static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void choose_order(void)
{
    const char *s = getenv("KVEMU_ORDER");
    order = !s || !strncmp(s, "fwd", 3) ? FORWARD : !strncmp(s, "rev", 3) ? REVERSE : RANDOM;
    if (order == RANDOM && !random_state)
        random_state = 0x9e3779b97f4a7c15u ^ (s[4] == ':' ? strtoull(s + 5, NULL, 0) * 2654435761u : 1);
}

unsigned emu_choose(unsigned n)
{
    return order == FORWARD ? 0 : order == REVERSE ? n - 1 : (unsigned)(next_random() % n);
}

// void switch_stack(void **save, void *to): callee-saved registers on the old stack, then those on the new one.
void emu_switch_stack(void **save, void *to);
#if defined(__x86_64__)
enum { SAVED_WORDS = 6 };
__asm__(".text\n.p2align 4\n.globl emu_switch_stack\n.hidden emu_switch_stack\n.type emu_switch_stack,@function\n"
        "emu_switch_stack:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size emu_switch_stack,.-emu_switch_stack\n");
#else
#error "the emulator knows x86-64"
#endif

static void switch_to(struct emu_fiber *to)
{
    struct emu_fiber *from = emu_current;
    if (to == from)
        return;
    emu_current = to;
#ifdef EMU_TSAN
    __tsan_switch_to_fiber(to->tsan, 1); // 1: no synchronization is implied
#endif
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&from->fake, to->stack, to == &host ? host_stack_bytes : STACK_BYTES);
    emu_switch_stack(&from->sp, to->sp);
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(from->fake, &bottom, &size);
#else
    emu_switch_stack(&from->sp, to->sp);
#endif
}

static void push_ready(struct emu_fiber *f)
{
    f->state = EMU_READY;
    ready.fiber[(ready.head + ready.n++) % EMU_MAX_THREADS] = f;
}

void emu_make_ready(struct emu_fiber **fiber, unsigned n)
{
    for (unsigned i = n; order == RANDOM && i > 1; i--) {
        unsigned j = (unsigned)(next_random() % i);
        struct emu_fiber *t = fiber[i - 1];
        fiber[i - 1] = fiber[j], fiber[j] = t;
    }
    for (unsigned i = 0; i < n; i++)
        push_ready(fiber[order == REVERSE ? n - 1 - i : i]);
}

static struct emu_fiber *pop_ready(void)
{
    if (!ready.n)
        return NULL;
    struct emu_fiber *f = ready.fiber[ready.head];
    ready.head = (ready.head + 1) % EMU_MAX_THREADS;
    ready.n--;
    f->state = EMU_RUNNING;
    return f;
}

static _Noreturn void deadlock(void)
{
    unsigned n[3] = {0};
    for (unsigned i = 0; i < emu_threads; i++)
        if (emu_fiber[i].state == EMU_WAITING)
            n[emu_fiber[i].waits_for]++;
    emu_sync_report();
    emu_die("deadlock: %u of %u threads live; %u wait at a block barrier, %u in a warp collective, %u on an mbarrier",
            emu_live, emu_threads, n[EMU_WAITS_BARRIER], n[EMU_WAITS_WARP], n[EMU_WAITS_MBARRIER]);
}

static struct emu_fiber *next_to_run(void)
{
    struct emu_fiber *next;
    while (!(next = pop_ready()))
        if (!emu_sync_progress())
            deadlock();
    return next;
}

void emu_wait(int what)
{
    emu_current->state = EMU_WAITING;
    emu_current->waits_for = what;
    switch_to(next_to_run());
}

static void finish_thread(void)
{
    emu_current->state = EMU_DONE;
    emu_live--;
    emu_sync_exit(emu_current);
    emu_release(&block_tag);
    switch_to(emu_live ? next_to_run() : &host);
}

static void fiber_main(void)
{
#ifdef __SANITIZE_ADDRESS__
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(NULL, &bottom, &size);
    if (!host.stack)
        host.stack = (void *)(uintptr_t)bottom, host_stack_bytes = size;
#endif
    for (;;) { // a fiber serves one thread of each block
        emu_acquire(&block_tag);
        kernel(kernel_args);
        finish_thread();
    }
}

static void make_fiber(struct emu_fiber *f)
{
    char *m = mmap(NULL, STACK_BYTES + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED || mprotect(m, PAGE, PROT_NONE)) // below the stack: an overflow faults
        emu_die("no memory for a fiber's stack");
    f->stack = m + PAGE;
    void **sp = (void **)(void *)((char *)f->stack + STACK_BYTES - 64);
    *--sp = NULL;
    *--sp = (void *)fiber_main; // where the first switch returns to
    sp -= SAVED_WORDS;
    memset(sp, 0, SAVED_WORDS * sizeof *sp);
    f->sp = sp;
#ifdef EMU_TSAN
    f->tsan = __tsan_create_fiber(0);
#endif
}

// __shared__ variables are thread_local on the CPU: they are the TLS segment of the module that holds the kernel.
struct tls_segment {
    uintptr_t code;
    void *data;
    size_t bytes;
};

static int find_tls(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct tls_segment *t = arg;
    bool mine = false;
    size_t bytes = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && t->code >= begin && t->code < begin + p->p_memsz)
            mine = true;
        if (p->p_type == PT_TLS)
            bytes = p->p_memsz;
    }
    if (mine)
        t->data = info->dlpi_tls_data, t->bytes = bytes;
    return mine;
}

static struct emu_dim3 at(uint64_t i, struct emu_dim3 of)
{
    return (struct emu_dim3){(unsigned)(i % of.x), (unsigned)(i / of.x % of.y), (unsigned)(i / ((uint64_t)of.x * of.y))};
}

static void run_block(const struct tls_segment *shared)
{
    struct emu_fiber *all[EMU_MAX_THREADS];
    if (shared->bytes)
        memset(shared->data, 0xff, shared->bytes);
    memset(emu_block.dynamic, 0xff, emu_block.dynamic_bytes);
    emu_sync_begin();
    emu_live = emu_threads;
    ready.head = ready.n = 0;
    for (unsigned i = 0; i < emu_threads; i++)
        all[i] = &emu_fiber[i];
    emu_make_ready(all, emu_threads);
    emu_release(&block_tag);
    switch_to(pop_ready());
    emu_acquire(&block_tag);
    emu_sync_end();
}

// The i-th block to run: by KVEMU_ORDER. `step` shares no factor with n.
static uint64_t block_number(uint64_t i, uint64_t n, uint64_t step, uint64_t offset)
{
    return order == REVERSE ? n - 1 - i : (offset + i * step) % n;
}

static uint64_t coprime_step(uint64_t n)
{
    for (;;) {
        uint64_t step = next_random() % n | 1, a = step, b = n;
        while (b) {
            uint64_t rest = a % b;
            a = b, b = rest;
        }
        if (a == 1)
            return step;
    }
}

static void place_threads(struct emu_dim3 block)
{
    emu_threads = block.x * block.y * block.z;
    for (; n_made < emu_threads; n_made++)
        make_fiber(&emu_fiber[n_made]);
    for (unsigned i = 0; i < emu_threads; i++) {
        struct emu_fiber *f = &emu_fiber[i];
        f->index = i, f->lane = i & 31, f->warp = i >> 5;
        f->tid = at(i, block);
    }
}

void emu_run_grid(struct emu_dim3 grid, struct emu_dim3 block, unsigned dynamic_bytes, emu_thunk run, void *args,
                  const char *name)
{
    static void *shared_memory;
    if (!shared_memory && !(shared_memory = aligned_alloc(1024, EMU_SHARED_BYTES)))
        emu_die("no memory for shared memory");
    choose_order();
    kernel = run, kernel_args = args, kernel_name = name;
    emu_block = (struct emu_block){.grid = grid, .block = block, .dynamic_bytes = dynamic_bytes};
    emu_block.dynamic =
        (char *)shared_memory + ((EMU_SHARED_BYTES - dynamic_bytes) & ~1023u); // its end is near the memory's
    place_threads(block);
    emu_current = &host;
#ifdef EMU_TSAN
    host.tsan = __tsan_get_current_fiber();
#endif
    struct tls_segment shared = {.code = (uintptr_t)run};
    dl_iterate_phdr(find_tls, &shared);
    uint64_t n = (uint64_t)grid.x * grid.y * grid.z, step = 1, offset = 0;
    if (order == RANDOM && n > 1)
        step = coprime_step(n), offset = next_random() % n;
    for (uint64_t i = 0; i < n; i++) {
        emu_block.bid = at(block_number(i, n, step, offset), grid);
        run_block(&shared);
    }
    emu_current = NULL;
}
