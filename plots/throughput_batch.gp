# Decode: tokens per second of all sequences against batch size, a line per context length.
load 'plots/common.gp'
set title head('Decode throughput by batch size', 'weights ' . weights . ', KV ' . kv)
set xlabel 'sequences per step (batch)'
set ylabel 'tokens per second, all sequences'
call 'plots/axis_list.gp' batches
call 'plots/axis.gp' 'y' (rate_span > LOG_FROM)
n = words(contexts)
x(i) = is('phase', 'decode') && column('main') == 1 && is('context', word(contexts, i)) ? column('batch') : NaN
name(i) = 'context ' . short(word(contexts, i))
y = 'rate'; y_roof = 'rate_roof'; y_bound = 'rate_bound'
measured_name = n_measured ? 'measured' : 'not measured'
load 'plots/lines.gp'
