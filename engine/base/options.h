// Command-line options: one table gives flag, short names, default, help text and the commands that take it.
// Scenario files use the same names (n-prompt aside) through bench/scenario.c.
#ifndef ENGINE_BASE_OPTIONS_H
#define ENGINE_BASE_OPTIONS_H

#include "engine/base/error.h"

#include <stdint.h>
#include <stdio.h>

struct int_list {
    int32_t *value;
    int32_t n;
};
struct text_list {
    char **value;
    int32_t n;
};

enum command_bit {
    ON_SWEEP = 1 << 0,
    ON_RUN = 1 << 1,
    ON_PREDICT = 1 << 2,
    ON_CEILINGS = 1 << 3,
    ON_GENERATE = 1 << 4,
    ON_TOKENIZE = 1 << 5,
    ON_VERIFY = 1 << 6,
    ON_LIST = 1 << 7,
    ON_KVCALC = 1 << 8,
    ON_PLOT = 1 << 9,
    ON_PERPLEXITY = 1 << 10,
    ON_EXPORT = 1 << 11,
    ON_INSPECT = 1 << 12,
    ON_EXPLAIN = 1 << 13,
    ON_COMPARE = 1 << 14,
    ON_DOCTOR = 1 << 15,
    ON_REPORT = 1 << 16,
    ON_IMPORT = 1 << 17,
    ON_BENCH = 1 << 18,
    ON_MEASURE = ON_SWEEP | ON_RUN,
    ON_SHAPE = ON_RUN | ON_PREDICT,
    ON_ROWS = ON_MEASURE | ON_PREDICT | ON_EXPLAIN | ON_COMPARE | ON_IMPORT | ON_BENCH,
    ON_MODEL = ON_MEASURE | ON_GENERATE | ON_VERIFY | ON_PERPLEXITY,
    ON_ENGINE = ON_MODEL | ON_CEILINGS | ON_BENCH,
};

// kind: flag (bool), int (int32_t), real (double), text (const char *), ints (struct int_list), texts (struct text_list).
// ints take lists and ranges as llama-bench writes them: 512,1024  1-8  1-64*2  64-256+64; a k behind a number is 1024.
// field, kind, flags (comma-separated), default as text ("" = unset), commands, help. In the help "sweep, run: ..." stands
// for these commands only, up to the next semicolon, and "others: ..." for those that no such clause before it is about.
#define OPTIONS(X)                                                                                                          \
    X(model, text, "-m,--model", "", ON_MODEL | ON_PREDICT | ON_TOKENIZE | ON_KVCALC | ON_EXPORT | ON_IMPORT | ON_BENCH,    \
      "bench: qwen3-0.6b, llama-3-8b or fit, default all; others: catalogue name, Hugging Face folder, GGUF file or "       \
      "config.json; run, predict: several with commas")                                                                     \
    X(hardware, text, "--hardware,--gpu", "auto", ON_MEASURE | ON_PREDICT | ON_KVCALC | ON_IMPORT,                          \
      "catalogue name or hardware JSON; predict: several with commas; auto: this machine's measured ceilings")              \
    X(backend, text, "--backend", "auto", ON_MEASURE | ON_GENERATE | ON_VERIFY | ON_PREDICT | ON_PERPLEXITY | ON_CEILINGS,  \
      "cpu, cuda, null; ceilings: auto is cpu; others: auto is the best here")                                              \
    X(device, int, "--device", "0", ON_MEASURE | ON_GENERATE | ON_VERIFY | ON_PERPLEXITY | ON_CEILINGS,                     \
      "device number, where there are several")                                                                             \
    X(threads, int, "-t,--threads", "0", (ON_ENGINE & ~ON_MEASURE) | ON_EXPORT, "threads; 0: one per allowed CPU")          \
    X(threads_list, ints, "-t,--threads", "0", ON_MEASURE, "threads; 0: one per allowed CPU")                               \
    X(cpu_list, text, "--cpu-list", "", ON_ENGINE, "CPUs to pin to, such as 0,2-3")                                         \
    X(isa, text, "--isa", "auto", ON_MODEL | ON_BENCH,                                                                      \
      "kernel set: auto, ref, avx2, avx2vnni, avx512, avx512vnni, avx512bf16; of cuda auto, fixed, own, blas")              \
    X(n_prompt, ints, "-p,--n-prompt", "", ON_SHAPE | ON_IMPORT,                                                            \
      "prefill: tokens per sequence; 0: no prefill; run, predict: 512 where no shape is given, and decode at context 512")  \
    X(n_gen, ints, "-n,--n-gen", "", ON_SHAPE | ON_IMPORT, "decode steps of one token each after --n-depth; 0: no decode")  \
    X(n_depth, ints, "-d,--n-depth", "", ON_SHAPE | ON_IMPORT, "positions in the KV before the step (context - 1)")         \
    X(prompt_gen, texts, "-pg,--prompt-gen", "", ON_SHAPE,                                                                  \
      "pp,tg pairs: prefill pp tokens, then decode tg; may be repeated")                                                    \
    X(batch, ints, "-b,--batch", "1", ON_SHAPE | ON_IMPORT, "sequences per step")                                           \
    X(load, int, "-b,--batch", "0", ON_KVCALC, "requests in the priced decode step; 0: as many as fit")                     \
    X(context, ints, "-c,--context", "", ON_SHAPE | ON_KVCALC | ON_IMPORT,                                                  \
      "positions attended by a decode step, the new token included")                                                        \
    X(weights, texts, "-w,--weights", "", ON_SHAPE | ON_MODEL | ON_KVCALC | ON_EXPORT | ON_IMPORT | ON_BENCH,               \
      "weight types (kvbench list formats); default: the model's own")                                                      \
    X(kv, texts, "--kv", "", ON_SHAPE | ON_GENERATE | ON_VERIFY | ON_KVCALC | ON_PERPLEXITY | ON_IMPORT,                    \
      "KV types (both K and V); predict, kvcalc, import: any; others: f32, bf16, f16, int8")                                \
    X(type_k, texts, "-ctk,--type-k", "", ON_SHAPE | ON_KVCALC, "K type; V keeps its own or its default")                   \
    X(type_v, texts, "-ctv,--type-v", "", ON_SHAPE | ON_KVCALC, "V type; K keeps its own or its default")                   \
    X(block, ints, "--block", "16", ON_SHAPE | ON_GENERATE | ON_KVCALC, "tokens per KV block; 0: contiguous")               \
    X(compute, text, "--compute", "", ON_SHAPE | ON_MODEL | ON_IMPORT,                                                      \
      "arithmetic of linear layers: f32, bf16, int8; sweep, run, predict, import: default by the weights; others: "         \
      "default f32")                                                                                                        \
    X(tp, int, "--tp", "1", ON_PREDICT | ON_KVCALC | ON_IMPORT, "tensor-parallel ranks")                                    \
    X(util, real, "--util", "0.9", ON_KVCALC, "share of device memory that may be used")                                    \
    X(weight_bytes, text, "--weight-bytes", "", ON_KVCALC,                                                                  \
      "weight bytes per rank, instead of the model's (16GiB, 15.01e9)")                                                     \
    X(pp, int, "--pp", "1", ON_KVCALC, "pipeline stages")                                                                   \
    X(dcp, int, "--dcp", "1", ON_KVCALC, "decode context parallel ranks, of the --tp")                                      \
    X(dp_attention, flag, "--dp-attention", "", ON_KVCALC,                                                                  \
      "each of the --tp ranks runs attention whole, for requests of its own")                                               \
    X(engine, text, "--engine", "", ON_KVCALC, "also what this engine would report: vllm, sglang, trtllm, llamacpp")        \
    X(engine_version, text, "--engine-version", "", ON_KVCALC, "its version, such as 0.21; default: the newest rule")       \
    X(max_model_len, int, "--max-model-len", "0", ON_KVCALC, "longest request the engine admits; 0: --context")             \
    X(max_batched_tokens, int, "--max-batched-tokens", "8192", ON_KVCALC, "tokens of the engine's largest step")            \
    X(max_seqs, int, "--max-seqs", "256", ON_KVCALC, "requests of the engine's largest step")                               \
    X(activation_bytes, text, "--activation-bytes", "", ON_KVCALC, "activations per rank, instead of the plan's")           \
    X(requests, int, "--requests", "0", ON_KVCALC, "what reaches so many requests: ranks, KV types, the longest context")   \
    X(slo_tpot, real, "--slo-tpot", "0", ON_KVCALC, "the largest batch whose decode step can stay within so many ms")       \
    X(slo_ttft, real, "--slo-ttft", "0", ON_KVCALC, "the largest batch whose prefill can stay within so many ms")           \
    X(sweep, text, "--sweep", "", ON_KVCALC, "a table over context or batch")                                               \
    X(plot, text, "--plot", "", ON_KVCALC, "draws the table of --sweep into this .svg or .png file (gnuplot)")              \
    X(verify, flag, "--verify", "", ON_KVCALC, "allocates the cache in the engine's own block pool and compares")           \
    X(repetitions, int, "-r,--repetitions,--samples", "7", ON_MEASURE | ON_CEILINGS,                                        \
      "sweep, run: samples per point; ceilings: moments that each rate is looked at")                                       \
    X(quick, flag, "--quick", "", ON_CEILINGS | ON_BENCH,                                                                   \
      "ceilings: only what roofs are made of: reads, cache levels, peaks; bench: one model, few shapes, no fit")            \
    X(warmup, int, "--warmup", "1", ON_MEASURE, "untimed steps before the first sample")                                    \
    X(seconds, real, "--seconds", "2", ON_MEASURE, "time to spend per point, at most --repetitions samples")                \
    X(timeout, real, "--timeout", "60", ON_MEASURE, "seconds after which a point is given up")                              \
    X(budget, real, "--budget", "0", ON_MEASURE,                                                                            \
      "seconds for the whole sweep: leaves samples out to keep to it; 0: no limit")                                         \
    X(filter, text, "--filter", "", ON_SWEEP | ON_PREDICT, "only points whose key matches this regular expression")         \
    X(resume, flag, "--resume", "", ON_SWEEP, "go on with an interrupted sweep")                                            \
    X(fail_on, text, "--fail-on", "", ON_MEASURE,                                                                           \
      "exit with 4 if a point has one of these codes: noisy,contended,throttled,... (bench/README.md, Trust)")              \
    X(trace, text, "--trace", "", ON_MEASURE,                                                                               \
      "point (its key, a part of it that fits no other, or its number) to write a Chrome trace of: NAME.trace.json")        \
    X(dry_run, flag, "--dry-run", "", ON_MEASURE, "list points with memory and expected time; measure nothing")             \
    X(ops, flag, "--ops", "", ON_PREDICT, "one row per operation")                                                          \
    X(seed, int, "--seed", "1", ON_MODEL | ON_EXPORT | ON_BENCH, "of random weights, KV and sampling")                      \
    X(out, text, "-o,--out", "", ON_CEILINGS | ON_REPORT,                                                                   \
      "ceilings: JSON file; report: HTML file, default beside the result, - for standard output")                           \
    X(folder, text, "--out", "", ON_MEASURE | ON_PREDICT | ON_IMPORT | ON_BENCH,                                            \
      "predict: CSV file to write; others: folder for the results; sweep, import, bench: default results/; run: default "   \
      "none, they are printed only")                                                                                        \
    X(output, text, "-o,--output", "text", ON_ROWS, "what to print: text, md, csv, json, jsonl")                            \
    X(point, text, "--point", "", ON_EXPLAIN, "which point: its key, a part of it that fits no other, or its number")       \
    X(threshold, text, "--threshold", "5%", ON_COMPARE, "what a time may grow by: 5% or 0.05")                              \
    X(by, text, "--by", "time", ON_COMPARE, "time, or fraction: of the roof at the ceilings probed beside each sample")     \
    X(format, text, "--format", "", ON_IMPORT, "of the files (kvbench list imports); default: recognised")                  \
    X(name, text, "--name", "", ON_IMPORT, "what the results are called; default: as the first file")                       \
    X(prompt, text, "--prompt", "", ON_GENERATE, "text to continue")                                                        \
    X(max_tokens, int, "--max-tokens", "128", ON_GENERATE, "tokens to generate at most")                                    \
    X(chat, flag, "--chat", "", ON_GENERATE, "use the model's chat format; without --prompt, in turns")                     \
    X(system, text, "--system", "", ON_GENERATE, "system text for --chat; default: the model's own")                        \
    X(temperature, real, "--temperature,--temp", "0", ON_GENERATE, "0: greedy, unless the folder says otherwise")           \
    X(top_k, int, "--top-k", "0", ON_GENERATE, "0: off")                                                                    \
    X(top_p, real, "--top-p", "1", ON_GENERATE, "1: off")                                                                   \
    X(no_cache, flag, "--no-cache", "", ON_GENERATE, "recompute the whole prefix at each step")                             \
    X(speed, flag, "--speed", "", ON_TOKENIZE, "how fast standard input is encoded, on one core")                           \
    X(decode, flag, "--decode", "", ON_TOKENIZE, "ids to text")                                                             \
    X(special, flag, "--special", "", ON_TOKENIZE, "add the tokenizer's own special tokens")                                \
    X(gguf, text, "--gguf", "", ON_EXPORT, "file to write")                                                                 \
    X(type, text, "--type", "f32", ON_EXPORT, "of matrices: f32, f16, bf16, q8_0, q4_0")                                    \
    X(text, text, "--text", "", ON_PERPLEXITY, "file to predict")                                                           \
    X(window, int, "--window", "512", ON_PERPLEXITY, "tokens per window; each stands on its own")                           \
    X(windows, int, "--windows", "8", ON_PERPLEXITY, "windows from the start of the text at most; 0: all")                  \
    X(harness, flag, "--harness", "", ON_DOCTOR, "instead, what measuring and tracing themselves cost here")                \
    X(traced_model, text, "-m,--model", "smollm2-135m", ON_DOCTOR, "model that --harness traces")                           \
    X(root, text, "--root", "", ON_DOCTOR, "look at the /proc, /sys and /dev below this folder")                            \
    X(golden, text, "--golden", "", ON_VERIFY, "folder or GGUF whose reference logits to compare with")                     \
    X(supported, flag, "--supported", "", ON_LIST, "only what can be used")                                                 \
    X(json, flag, "--json", "", ~0, "machine-readable output")                                                              \
    X(quiet, flag, "-q,--quiet", "", ON_ENGINE, "no progress")                                                              \
    X(help, flag, "-h,--help", "", ~0, "this text")

typedef bool option_flag;
typedef int32_t option_int;
typedef double option_real;
typedef const char *option_text;
typedef struct int_list option_ints;
typedef struct text_list option_texts;

struct options {
#define X(field, kind, flags, fallback, commands, help) option_##kind field;
    OPTIONS(X)
#undef X
#define X(field, kind, flags, fallback, commands, help) bool has_##field; // given on the command line
    OPTIONS(X)
#undef X
    const char **arg; // positional arguments
    int32_t n_args;
};

// Parses argv[1..] for one command. Unknown options name the nearest; values are checked by kind.
bool options_parse(struct options *o, int command, int argc, char **argv, struct error *e);
void options_free(struct options *o);

// Aligned list of the command's options with defaults.
void options_help(FILE *f, int command);

// Parses "512,1024", "1-8", "1-64*2", "64-256+64" into a list the caller frees (value).
bool int_list_parse(const char *text, struct int_list *out, struct error *e);

#endif
