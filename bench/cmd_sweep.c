#include "bench/cmd_measure.h"
#include "bench/command.h"

bool cmd_sweep(const struct options *o, struct error *e)
{
    struct scenario s;
    if (o->n_args != 1)
        return error_set(e, ERROR_USAGE, "sweep takes one scenario file, such as configs/quick.json");
    return scenario_load(&s, o->arg[0], e) && scenario_override(&s, o, e) && scenario_check_names(&s, e) &&
           cmd_measure(&s, o, o->has_folder ? o->folder : "results", e);
}
