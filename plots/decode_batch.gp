# Decode: time of a step against batch size, a line per context length.
load 'plots/common.gp'
set title head('Decode step time by batch size', 'weights ' . weights . ', KV ' . kv)
set xlabel 'sequences per step (batch)'
set ylabel 'time of a decode step (ms)'
call 'plots/axis_list.gp' batches
call 'plots/axis.gp' 'y' (time_span > LOG_FROM)
n = words(contexts)
x(i) = is('phase', 'decode') && column('main') == 1 && is('context', word(contexts, i)) ? column('batch') : NaN
name(i) = 'context ' . short(word(contexts, i))
y = 'ms'; y_roof = 'roof'; y_bound = 'bound'
load 'plots/lines.gp'
