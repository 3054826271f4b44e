// The commands of kvcalc beside its main question. Each prints to standard output and sets the exit code of the process
// (0, or 1 where what was checked disagrees); false: an error to report.
#ifndef ROOFLINE_KVCALC_COMMANDS_H
#define ROOFLINE_KVCALC_COMMANDS_H

#include "engine/base/json.h"
#include "roofline/reach.h"

bool kvcalc_check(const struct options *o, int *exit_code, struct error *e);   // CASES.csv
bool kvcalc_explain(const struct options *o, int *exit_code, struct error *e); // LOG
bool kvcalc_compare(const struct options *o, int *exit_code, struct error *e); // MODEL...

// Beside the main question, after its answer.
bool kvcalc_verify(const struct question *q, const struct answer *a, int *exit_code, struct error *e);
bool kvcalc_check_goals(const struct options *o, struct error *e); // --requests, --slo-tpot, --slo-ttft
void kvcalc_print_goals(const struct options *o, const struct question *q, const struct reach *r);
void kvcalc_goals_json(const struct options *o, const struct reach *r, cJSON *json);
bool kvcalc_sweep(const struct options *o, struct question *q, struct error *e); // --sweep, --plot

#endif
