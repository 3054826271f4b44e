// The commands of kvbench: one row each in bench/main.c, one file bench/cmd_NAME.c each.
#ifndef BENCH_COMMAND_H
#define BENCH_COMMAND_H

#include "engine/base/options.h"

// Returns false with *e filled; main prints the message and exits with error_exit_code(e->kind).
bool cmd_sweep(const struct options *o, struct error *e);
bool cmd_run(const struct options *o, struct error *e);
bool cmd_predict(const struct options *o, struct error *e);
bool cmd_ceilings(const struct options *o, struct error *e);
bool cmd_bench(const struct options *o, struct error *e);
bool cmd_explain(const struct options *o, struct error *e);
bool cmd_doctor(const struct options *o, struct error *e);
bool cmd_compare(const struct options *o, struct error *e);
bool cmd_generate(const struct options *o, struct error *e);
bool cmd_tokenize(const struct options *o, struct error *e);
bool cmd_verify(const struct options *o, struct error *e);
bool cmd_perplexity(const struct options *o, struct error *e);
bool cmd_export(const struct options *o, struct error *e);
bool cmd_inspect(const struct options *o, struct error *e);
bool cmd_report(const struct options *o, struct error *e);
bool cmd_import(const struct options *o, struct error *e);
bool cmd_list(const struct options *o, struct error *e);

#endif
