# Decode: tokens per second of all sequences against batch size, a line per context length.
load 'plots/common.gp'
what = 'Decode throughput by batch size'
kv_shown = kv
detail = words(context_lines) < words(contexts) ? sprintf('%d of %d context lengths', words(context_lines), words(contexts)) : ''
set xlabel 'sequences per step (batch)'
set ylabel 'tokens per second, all sequences'
call 'plots/axis_list.gp' batches
least = word(rate_range, 1) + 0
most = word(rate_range, 2) + 0
call 'plots/axis.gp' 'y'
n = words(context_lines)
x(i) = is('phase', 'decode') && column('main') == 1 && is('context', word(context_lines, i)) ? column('batch') : NaN
name(i) = 'context ' . word(context_lines, i)
n_hollow = noisy_main
y = 'rate'; y_low = 'rate_low'; y_high = 'rate_high'; y_roof = 'rate_roof'; y_bound = 'rate_bound'
load 'plots/lines.gp'
