# Decode: time of a step against batch size, a line per context length.
load 'plots/common.gp'
what = 'Decode step time by batch size'
kv_shown = kv
detail = words(context_lines) < words(contexts) ? sprintf('%d of %d context lengths', words(context_lines), words(contexts)) : ''
set xlabel 'sequences per step (batch)'
set ylabel 'time of a decode step (ms)'
call 'plots/axis_list.gp' batches
least = word(time_range, 1) + 0
most = word(time_range, 2) + 0
call 'plots/axis.gp' 'y'
n = words(context_lines)
x(i) = is('phase', 'decode') && column('main') == 1 && is('context', word(context_lines, i)) ? column('batch') : NaN
name(i) = 'context ' . word(context_lines, i)
n_hollow = noisy_main
y = 'ms'; y_low = 'low'; y_high = 'high'; y_roof = 'roof'; y_bound = 'bound'
load 'plots/lines.gp'
