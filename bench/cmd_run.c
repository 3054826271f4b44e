#include "bench/cmd_measure.h"
#include "bench/command.h"

bool cmd_run(const struct options *o, struct error *e)
{
    struct scenario s;
    if (o->n_args)
        return error_set(e, ERROR_USAGE, "unexpected argument '%.60s': run takes flags only", o->arg[0]);
    return scenario_from_options(&s, o, e) && cmd_measure(&s, o, o->has_folder ? o->folder : NULL, e);
}
