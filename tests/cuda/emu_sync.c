// What threads wait for: block barriers, warp collectives, asynchronous copies, mbarriers.
#include "tests/cuda/emu_fibers.h"

#include <stdio.h>
#include <string.h>

enum { BARRIERS = 16, BULK_COPIES = 256 };

static struct {
    unsigned arrived, wanted, n; // wanted 0: every live thread
    struct emu_fiber *waiting[EMU_MAX_THREADS];
    int sum, what, result;
    char tag;
} barrier[BARRIERS];

// Collectives of a warp, by the lowest lane of their mask: disjoint masks may be under way at once.
static struct {
    uint32_t arrived[32], mask[32];
    emu_collective what[32];
    char tag[32];
} warp[EMU_MAX_THREADS / 32];

static struct {
    void *to;
    const void *from;
    unsigned bytes;
    uint64_t *barrier;
} bulk[BULK_COPIES];
static unsigned n_bulk, n_mbarrier_waiting;
static struct emu_fiber *mbarrier_waiting[EMU_MAX_THREADS];

// Not memcpy: ThreadSanitizer would see a write by nobody.
#ifdef __clang__
#define PLAIN_LOOPS __attribute__((no_builtin("memcpy")))
#else
#define PLAIN_LOOPS __attribute__((optimize("no-tree-loop-distribute-patterns")))
#endif
PLAIN_LOOPS static void raw_copy(void *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((char *)to)[i] = ((const char *)from)[i];
}

void emu_sync_begin(void)
{
    memset(warp, 0, sizeof *warp * ((emu_threads + 31) / 32));
    for (int i = 0; i < BARRIERS; i++)
        barrier[i].arrived = barrier[i].n = barrier[i].wanted = 0;
    for (unsigned i = 0; i < emu_threads; i++)
        emu_fiber[i].n_copies = emu_fiber[i].n_groups = 0;
    n_bulk = n_mbarrier_waiting = 0;
}

void emu_sync_end(void)
{
    for (unsigned i = 0; i < emu_threads; i++)
        if (emu_fiber[i].n_copies)
            emu_die("thread %u exits with asynchronous copies under way", i);
    if (n_bulk)
        emu_die("the block exits with %u bulk copies under way", n_bulk);
}

void emu_sync_report(void)
{
    for (unsigned w = 0; w < (emu_threads + 31) / 32; w++)
        for (int g = 0; g < 32; g++)
            if (warp[w].arrived[g])
                fprintf(stderr, "cuda emulation:   warp %u: collective of mask %08x, arrived %08x\n", w, warp[w].mask[g],
                        warp[w].arrived[g]);
}

static void release_barrier(unsigned id)
{
    unsigned n = barrier[id].n;
    barrier[id].result = barrier[id].sum;
    barrier[id].arrived = barrier[id].wanted = barrier[id].n = 0;
    emu_make_ready(barrier[id].waiting, n);
}

// A thread that returned counts as arrived, as on the device.
void emu_sync_exit(struct emu_fiber *f)
{
    for (int g = 0; g < 32; g++)
        if (warp[f->warp].arrived[g] && warp[f->warp].mask[g] >> f->lane & 1)
            emu_die("a thread exits while its warp waits for it (mask %08x)", warp[f->warp].mask[g]);
    if (emu_live && barrier[0].n && barrier[0].arrived == emu_live)
        release_barrier(0);
}

static int arrive(unsigned id, unsigned wanted, enum emu_reduction what, int predicate)
{
    if (id >= BARRIERS)
        emu_die("there is no barrier %u", id);
    if (barrier[id].arrived && (barrier[id].wanted != wanted || barrier[id].what != (int)what))
        emu_die("barrier %u: threads arrive that want different things of it", id);
    if (!barrier[id].arrived)
        barrier[id].sum = what == EMU_AND;
    barrier[id].what = (int)what, barrier[id].wanted = wanted;
    switch (what) {
    case EMU_COUNT: barrier[id].sum += predicate != 0; break;
    case EMU_AND: barrier[id].sum &= predicate != 0; break;
    case EMU_OR: barrier[id].sum |= predicate != 0; break;
    case EMU_NONE: break;
    }
    emu_release(&barrier[id].tag);
    if (++barrier[id].arrived == (wanted ? wanted : emu_live)) {
        release_barrier(id);
    } else {
        barrier[id].waiting[barrier[id].n++] = emu_current;
        emu_wait(EMU_WAITS_BARRIER);
    }
    emu_acquire(&barrier[id].tag);
    return barrier[id].result;
}

void emu_barrier(unsigned id, unsigned threads)
{
    arrive(id, threads, EMU_NONE, 0);
}

int emu_barrier_reduce(enum emu_reduction what, int predicate)
{
    return arrive(0, 0, what, predicate);
}

static struct emu_fiber *lane_of(unsigned w, unsigned lane)
{
    unsigned i = w * 32 + lane;
    return i < emu_threads ? &emu_fiber[i] : NULL;
}

static void complete(unsigned w, int group)
{
    struct emu_fiber *lane[32], *others[32];
    unsigned n = 0;
    uint32_t mask = warp[w].mask[group];
    for (unsigned i = 0; i < 32; i++) {
        lane[i] = mask >> i & 1 ? lane_of(w, i) : NULL;
        if (lane[i] && lane[i] != emu_current)
            others[n++] = lane[i];
    }
    if (warp[w].what[group])
        warp[w].what[group](lane, mask);
    warp[w].arrived[group] = 0;
    emu_make_ready(others, n);
}

static void check_lanes(unsigned w, uint32_t mask)
{
    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1 && (!lane_of(w, i) || lane_of(w, i)->state == EMU_DONE))
            emu_die("a warp collective of mask %08x names lane %u, which has exited or does not exist", mask, i);
}

void emu_warp(uint32_t mask, emu_collective what)
{
    unsigned w = emu_current->warp, lane = emu_current->lane;
    if (!(mask >> lane & 1))
        emu_die("lane %u calls a warp collective whose mask %08x does not name it", lane, mask);
    int group = __builtin_ctz(mask);
    if (!warp[w].arrived[group])
        warp[w].mask[group] = mask, warp[w].what[group] = what;
    else if (warp[w].mask[group] != mask || warp[w].what[group] != what)
        emu_die("a divergent warp collective (masks %08x and %08x)", mask, warp[w].mask[group]);
    warp[w].arrived[group] |= 1u << lane;
    emu_release(&warp[w].tag[group]);
    if (warp[w].arrived[group] == mask) {
        complete(w, group);
    } else {
        check_lanes(w, mask);
        emu_wait(EMU_WAITS_WARP);
    }
    emu_acquire(&warp[w].tag[group]);
}

void emu_shuffle(struct emu_fiber **lane, uint32_t mask)
{
    for (unsigned i = 0; i < 32; i++) {
        if (!lane[i])
            continue;
        unsigned from = (unsigned)lane[i]->source & 31;
        if (!lane[from])
            emu_die("shuffle: lane %u reads lane %u, which mask %08x does not name", i, from, mask);
        memcpy(lane[i]->out, lane[from]->in, sizeof lane[i]->out);
    }
}

void emu_ballot(struct emu_fiber **lane, uint32_t mask)
{
    uint32_t votes = 0;
    (void)mask;
    for (unsigned i = 0; i < 32; i++)
        votes |= (uint32_t)(lane[i] && lane[i]->in[0]) << i;
    for (unsigned i = 0; i < 32; i++)
        if (lane[i])
            lane[i]->out[0] = votes;
}

static float bf16_half(uint32_t pair, int high)
{
    uint32_t bits = (high ? pair >> 16 : pair & 0xffff) << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void load_fragments(struct emu_fiber **lane, float a[16][16], float b[16][8], float c[16][8])
{
    for (int t = 0; t < 32; t++) {
        int group = t >> 2, in_group = t & 3;
        for (int r = 0; r < 4; r++) {
            for (int h = 0; h < 2; h++)
                a[group + (r & 1) * 8][in_group * 2 + h + (r >> 1) * 8] = bf16_half(lane[t]->in[r], h);
            memcpy(&c[group + (r >> 1) * 8][in_group * 2 + (r & 1)], &lane[t]->in[6 + r], sizeof(float));
        }
        for (int r = 0; r < 2; r++)
            for (int h = 0; h < 2; h++)
                b[in_group * 2 + h + r * 8][group] = bf16_half(lane[t]->in[4 + r], h);
    }
}

void emu_mma_bf16(struct emu_fiber **lane, uint32_t mask)
{
    float a[16][16], b[16][8], c[16][8];
    if (mask != UINT32_MAX)
        emu_die("mma.sync wants the whole warp");
    load_fragments(lane, a, b, c);
    for (int t = 0; t < 32; t++)
        for (int r = 0; r < 4; r++) {
            int m = (t >> 2) + (r >> 1) * 8, n = (t & 3) * 2 + (r & 1);
            float sum = c[m][n];
            for (int k = 0; k < 16; k++)
                sum += a[m][k] * b[k][n];
            memcpy(&lane[t]->out[r], &sum, sizeof sum);
        }
}

// Matrix i of four is in the rows whose addresses lanes 8i .. 8i+7 hold; lane t gets elements 2 (t % 4) and the next of row
// t / 4; transposed: of column t / 4.
static void ldmatrix(struct emu_fiber **lane, uint32_t mask, bool transposed)
{
    if (mask != UINT32_MAX)
        emu_die("ldmatrix wants the whole warp");
    for (int i = 0; i < 4; i++) {
        uint16_t m[8][8];
        for (int r = 0; r < 8; r++) {
            const void *row;
            memcpy(&row, lane[8 * i + r]->in, sizeof row);
            if ((uintptr_t)row % 16)
                emu_die("ldmatrix: a row at %p is misaligned", row);
            raw_copy(m[r], row, sizeof m[r]);
        }
        for (int t = 0; t < 32; t++) {
            int row = t / 4, column = t % 4 * 2;
            uint16_t low = transposed ? m[column][row] : m[row][column];
            uint16_t high = transposed ? m[column + 1][row] : m[row][column + 1];
            lane[t]->out[i] = (uint32_t)high << 16 | low;
        }
    }
}

void emu_ldmatrix(struct emu_fiber **lane, uint32_t mask)
{
    ldmatrix(lane, mask, false);
}

void emu_ldmatrix_transposed(struct emu_fiber **lane, uint32_t mask)
{
    ldmatrix(lane, mask, true);
}

// NaN, whatever the type, in what nobody may read before it is waited for.
PLAIN_LOOPS static void poison(void *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)to)[i] = 0xff;
}

// Late: its thread's wait makes the copy. At once: it overwrites what others may still be reading. Both are CUDA's right.
void emu_copy_async(void *to, const void *from, unsigned bytes)
{
    struct emu_fiber *f = emu_current;
    if ((uintptr_t)to % bytes || (uintptr_t)from % bytes)
        emu_die("cp.async of %u bytes is misaligned", bytes);
    if (f->n_copies == EMU_MAX_COPIES)
        emu_die("more than %d copies of one thread under way", EMU_MAX_COPIES);
    bool late = emu_choose(2) == 0;
    if (late)
        poison(to, bytes);
    else
        raw_copy(to, from, bytes);
    f->copy[f->n_copies++] = (struct emu_copy){to, from, late ? bytes : 0, f->n_groups};
}

void emu_copy_commit(void)
{
    emu_current->n_groups++;
}

void emu_copy_wait(unsigned pending)
{
    struct emu_fiber *f = emu_current;
    unsigned kept = 0;
    for (unsigned i = 0; i < f->n_copies; i++) {
        struct emu_copy c = f->copy[i];
        if (c.group + pending < f->n_groups)
            raw_copy(c.to, c.from, c.bytes);
        else
            f->copy[kept++] = c;
    }
    f->n_copies = kept;
}

// An mbarrier's word: bit 63 phase, bits 62..48 count, 47..32 arrivals still missing, 31..0 bytes still missing (signed).
static unsigned mbarrier_count(uint64_t word)
{
    return (unsigned)(word >> 48 & 0x7fff);
}

static void check_phase(uint64_t *b)
{
    if ((*b >> 32 & 0xffff) || (int32_t)*b)
        return;
    *b = (*b ^ UINT64_C(1) << 63) | (uint64_t)mbarrier_count(*b) << 32;
    unsigned n = n_mbarrier_waiting;
    n_mbarrier_waiting = 0;
    emu_make_ready(mbarrier_waiting, n); // whoever waits for another looks again
}

static void add_bytes(uint64_t *b, uint32_t bytes)
{
    *b = (*b & UINT64_C(0xffffffff00000000)) | (uint32_t)((uint32_t)*b + bytes);
}

void emu_mbarrier_init(uint64_t *b, unsigned count)
{
    if (!count || count > 0x7fff)
        emu_die("an mbarrier of %u arrivals", count);
    *b = (uint64_t)count << 48 | (uint64_t)count << 32;
}

void emu_mbarrier_arrive(uint64_t *b, unsigned expect_bytes)
{
    if (!mbarrier_count(*b) || *b == UINT64_MAX)
        emu_die("an arrival on an mbarrier that was not initialized");
    if (!(*b >> 32 & 0xffff))
        emu_die("more arrivals on an mbarrier than its count of %u", mbarrier_count(*b));
    emu_release(b);
    add_bytes(b, expect_bytes);
    *b -= UINT64_C(1) << 32;
    check_phase(b);
}

void emu_mbarrier_wait(uint64_t *b, unsigned parity)
{
    while (*b >> 63 == (parity & 1)) {
        mbarrier_waiting[n_mbarrier_waiting++] = emu_current;
        emu_wait(EMU_WAITS_MBARRIER);
    }
    emu_acquire(b);
}

bool emu_sync_progress(void)
{
    if (!n_bulk)
        return false;
    unsigned i = emu_choose(n_bulk);
    uint64_t *b = bulk[i].barrier;
    uint32_t bytes = bulk[i].bytes;
    raw_copy(bulk[i].to, bulk[i].from, bytes);
    bulk[i] = bulk[--n_bulk];
    add_bytes(b, -bytes);
    check_phase(b);
    return true;
}

void emu_bulk_load(void *to, const void *from, unsigned bytes, uint64_t *b)
{
    if ((uintptr_t)to % 16 || (uintptr_t)from % 16 || bytes % 16 || !bytes)
        emu_die("cp.async.bulk: an address or size is no multiple of 16");
    if (n_bulk == BULK_COPIES)
        emu_sync_progress();
    bulk[n_bulk].to = to, bulk[n_bulk].from = from, bulk[n_bulk].bytes = bytes;
    bulk[n_bulk++].barrier = b;
}
