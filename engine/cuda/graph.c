// Decode steps as graphs. What changes from step to step is read from device memory, so a graph serves every step of as many
// sequences whose longest context is of the same octave.
#include "engine/cuda/instruments.h"

static void forget(struct cuda_graph *g)
{
    if (g->exec)
        (void)cudaGraphExecDestroy(g->exec);
    *g = (struct cuda_graph){0};
}

void cuda_graphs_free(struct cuda *c)
{
    for (int32_t i = 0; i < c->n_graphs; i++)
        forget(&c->graph[i]);
    c->n_graphs = 0;
}

// A free place, or that of the graph not used for longest.
static struct cuda_graph *place(struct cuda *c)
{
    struct cuda_graph *oldest = &c->graph[0];
    if (c->n_graphs < CUDA_GRAPHS)
        return &c->graph[c->n_graphs++];
    for (int32_t i = 1; i < c->n_graphs; i++)
        if (c->graph[i].last_used < oldest->last_used)
            oldest = &c->graph[i];
    forget(oldest);
    return oldest;
}

cudaError_t cuda_enqueue(const struct cuda_step *s, int32_t n_spans)
{
    cudaError_t e = cudaSuccess;
    for (int32_t i = 0; i < n_spans && !e; i++) {
        cuda_records_span(s->cuda, i);
        e = cuda_walk_span(s, &s->cuda->spans[i]);
    }
    cuda_records_span(s->cuda, -1);
    return e;
}

bool cuda_graph_capture(const struct cuda_step *s, int32_t n_spans, cudaGraphExec_t *out, struct error *e)
{
    cudaStream_t stream = s->cuda->stream;
    cudaGraph_t graph = NULL;
    if (!cuda_failed(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a step", e))
        return false;
    cudaError_t walked = cuda_enqueue(s, n_spans), ended = cudaStreamEndCapture(stream, &graph);
    bool ok = cuda_failed(walked ? walked : ended, "capturing a step", e) &&
              cuda_failed(cudaGraphInstantiate(out, graph, 0), "making a graph of a step", e);
    if (graph)
        (void)cudaGraphDestroy(graph);
    return ok;
}

cudaGraphExec_t cuda_graph_find(const struct cuda_step *s)
{
    struct cuda *c = s->cuda;
    for (int32_t i = 0; i < c->n_graphs; i++) {
        struct cuda_graph *g = &c->graph[i];
        if (g->exec && g->n_seqs == s->batch->n_seqs && g->splits == s->splits && g->table_stride == c->table_stride) {
            g->last_used = c->steps;
            return g->exec;
        }
    }
    return NULL;
}

bool cuda_graph_add(const struct cuda_step *s, int32_t n_spans, struct error *e)
{
    struct cuda *c = s->cuda;
    struct cuda_graph *g = place(c);
    *g = (struct cuda_graph){
        .n_seqs = s->batch->n_seqs, .splits = s->splits, .table_stride = c->table_stride, .last_used = c->steps};
    return cuda_graph_capture(s, n_spans, &g->exec, e);
}
