#include "bench/command.h"
#include "engine/base/names.h"
#include "engine/base/output.h"
#include "engine/base/version.h"

#include <string.h>

static const struct command {
    const char *name, *arguments, *summary, *example[2];
    int bit;
    bool (*run)(const struct options *o, struct error *e);
} COMMAND[] = {
    {"sweep",
     "CONFIG.json",
     "measure every point of a scenario, with its roofline beside it",
     {"kvbench sweep configs/quick.json", "kvbench sweep configs/cpu.json --resume"},
     ON_SWEEP,
     cmd_sweep},
    {"run",
     "",
     "measure points given by flags",
     {"kvbench run --model qwen3-0.6b -p 128 -n 8 -d 64", "kvbench run --model qwen3-0.6b --context 64,1024 --batch 1,4"},
     ON_RUN,
     cmd_run},
    {"predict",
     "[CONFIG.json]",
     "the roofline alone, for any hardware of the catalogue",
     {"kvbench predict --model llama-3-70b --hardware h100-sxm --tp 4 --batch 32 --context 8192",
      "kvbench predict configs/h100.json"},
     ON_PREDICT,
     cmd_predict},
    {"ceilings",
     "",
     "measure what this machine attains: memory, caches, arithmetic and more",
     {"kvbench ceilings", "kvbench ceilings --quick --json"},
     ON_CEILINGS,
     cmd_ceilings},
    {"bench",
     "",
     "how long each kernel takes beside its floor, and the fit that pred is made of",
     {"kvbench bench --quick", "kvbench bench --model fit --weights bf16"},
     ON_BENCH,
     cmd_bench},
    {"explain",
     "RESULT",
     "where the time of measured points went, operation by operation",
     {"kvbench explain results/sample/cpu", "kvbench explain results/sample/cpu.csv --point 1 -o md"},
     ON_EXPLAIN,
     cmd_explain},
    {"doctor",
     "",
     "what this machine lets us measure, and what would make numbers better",
     {"kvbench doctor", "kvbench doctor --json"},
     ON_DOCTOR,
     cmd_doctor},
    {"compare",
     "A B",
     "two results point by point; exit status 4 when B is slower",
     {"kvbench compare results/sample/cpu results/sample/cpu.csv --threshold 3%",
      "kvbench compare results/sample/cpu results/sample/cpu --by fraction -o csv"},
     ON_COMPARE,
     cmd_compare},
    {"generate",
     "",
     "continue a text with a real model",
     {"kvbench generate --model models/SmolLM2-135M-Instruct.Q4_1.gguf --chat --prompt \"What is the capital of France?\"",
      "kvbench generate --model models/SmolLM2-135M-Instruct.Q4_1.gguf --prompt \"Once upon a time\" --max-tokens 32"},
     ON_GENERATE,
     cmd_generate},
    {"tokenize",
     "",
     "text on standard input to token ids, or back",
     {"echo 'hello world' | kvbench tokenize --model models/SmolLM2-135M-Instruct.Q4_1.gguf",
      "echo '[[28120, 905]]' | kvbench tokenize --model models/SmolLM2-135M-Instruct.Q4_1.gguf --decode --json"},
     ON_TOKENIZE,
     cmd_tokenize},
    {"verify",
     "",
     "check that cached, batched and paged decoding equal full recomputation",
     {"kvbench verify --model models/SmolLM2-135M-Instruct.Q4_1.gguf",
      "kvbench verify --model tests/golden/qwen3 --golden tests/golden/qwen3"},
     ON_VERIFY,
     cmd_verify},
    {"perplexity",
     "",
     "how well a model predicts a text",
     {"kvbench perplexity --model models/SmolLM2-135M-Instruct.Q4_1.gguf --text README.md",
      "kvbench perplexity --model models/SmolLM2-135M-Instruct.Q4_1.gguf --text README.md --windows 2 --kv int8"},
     ON_PERPLEXITY,
     cmd_perplexity},
    {"inspect",
     "FILE",
     "what a model's files hold, from their headers alone",
     {"kvbench inspect tests/golden/gemma3", "kvbench inspect tests/golden/gguf/llama-mha-q4_1.gguf --json"},
     ON_INSPECT,
     cmd_inspect},
    {"export",
     "",
     "write a model as a GGUF file, random weights included",
     {"kvbench export --model models/SmolLM2-135M-Instruct.Q4_1.gguf --gguf /tmp/smollm2-q8_0.gguf --type q8_0",
      "kvbench export --model tests/golden/qwen3 --gguf /tmp/qwen3-tiny.gguf --type bf16"},
     ON_EXPORT,
     cmd_export},
    {"report",
     "RESULT...",
     "results as one HTML page: pictures, tables, machine; several side by side",
     {"kvbench report results/sample/cpu.csv -o /tmp/cpu.html",
      "kvbench report results/sample/cpu.csv results/sample/cpu.csv -o - | wc -c"},
     ON_REPORT,
     cmd_report},
    {"import",
     "FILE...",
     "results of other engines' benchmarks, under the same roof",
     {"kvbench import tests/golden/import/llama-bench.json --hardware rtx-4090",
      "kvbench import tests/golden/import/vllm-latency.json --model llama-3-8b --hardware h100-sxm -b 8 -p 512 -n 128"},
     ON_IMPORT,
     cmd_import},
    {"list",
     "models|hardware|backends",
     "what the catalogue and this build contain",
     {"kvbench list models", "kvbench list hardware --json"},
     ON_LIST,
     cmd_list},
};
enum { N_COMMANDS = sizeof COMMAND / sizeof *COMMAND };

static void print_help(FILE *f)
{
    fprintf(f, "kvbench %s: how fast an LLM should run here, how fast it does, and where the rest went\n\n",
            kvbench_version);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(f, "  kvbench %-10s %-25s %s\n", COMMAND[i].name, COMMAND[i].arguments, COMMAND[i].summary);
    fprintf(f,
            "\nkvbench COMMAND --help shows a command's options with their defaults; kvbench --version what was built. The\n"
            "program kvcalc beside it computes KV bytes, requests that fit and the least time of a step.\n");
}

static void print_command_help(FILE *f, const struct command *c)
{
    fprintf(f, "usage: kvbench %s %s%s[options]\n%s\n\n", c->name, c->arguments, *c->arguments ? " " : "", c->summary);
    options_help(f, c->bit);
    fprintf(f, "\nexamples:\n  %s\n  %s\n", c->example[0], c->example[1]);
}

static int fail(const struct error *e)
{
    fprintf(stderr, "kvbench: %s\n", e->message);
    return error_exit_code(e->kind);
}

static int unknown_command(const char *name)
{
    const char *names[N_COMMANDS];
    struct error e;
    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = COMMAND[i].name;
    const char *near = names_nearest(name, names, N_COMMANDS);
    error_set(&e, ERROR_USAGE, "unknown command '%.60s'%s%s%s", name, near ? ", did you mean '" : "", near ? near : "",
              near ? "'?" : " (see kvbench --help)");
    return fail(&e);
}

static int run_command(const struct command *c, int argc, char **argv)
{
    struct options o;
    struct error e = {0};
    bool ok = options_parse(&o, c->bit, argc, argv, &e);
    if (ok && o.help)
        print_command_help(stdout, c);
    else if (ok)
        ok = c->run(&o, &e);
    options_free(&o);
    ok = ok && output_written(&e);
    return ok ? 0 : fail(&e);
}

static int said(void)
{
    struct error e;
    return output_written(&e) ? 0 : fail(&e);
}

static const struct command *find_command(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(name, COMMAND[i].name))
            return &COMMAND[i];
    return NULL;
}

// name NULL: of all commands.
static int help(const char *name)
{
    const struct command *c = name ? find_command(name) : NULL;
    if (name && !c)
        return unknown_command(name);
    if (c)
        print_command_help(stdout, c);
    else
        print_help(stdout);
    return said();
}

int main(int argc, char **argv)
{
    keep_standard_files();
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return help(argc > 2 ? argv[2] : NULL);
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "version")) {
        printf("kvbench %s\n", kvbench_version);
        return said();
    }
    const struct command *c = find_command(argv[1]);
    return c ? run_command(c, argc - 1, argv + 1) : unknown_command(argv[1]);
}
