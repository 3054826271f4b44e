// The commands of kvcalc beside its main question. Each prints to standard output and sets the exit code of the process
// (0, or 1 where what was checked disagrees); false: an error to report.
#ifndef ROOFLINE_KVCALC_COMMANDS_H
#define ROOFLINE_KVCALC_COMMANDS_H

#include "engine/base/options.h"

bool kvcalc_check(const struct options *o, int *exit_code, struct error *e);   // CASES.csv
bool kvcalc_explain(const struct options *o, int *exit_code, struct error *e); // LOG
bool kvcalc_compare(const struct options *o, int *exit_code, struct error *e); // MODEL...

#endif
