# Decode: time of a step against context length, a line per batch size; below, the share of the bytes read that is KV.
load 'plots/common.gp'
what = 'Decode step time by context length'
kv_shown = kv
detail = words(batch_lines) < words(batches) ? sprintf('%d of %d batch sizes', words(batch_lines), words(batches)) : ''
n = words(batch_lines)
x(i) = is('phase', 'decode') && column('main') == 1 && is('batch', word(batch_lines, i)) ? column('context') : NaN
name(i) = 'batch ' . word(batch_lines, i)
call 'plots/axis_list.gp' contexts

set multiplot
set ylabel 'time of a decode step (ms)'
least = word(time_range, 1) + 0
most = word(time_range, 2) + 0
call 'plots/axis.gp' 'y'
n_hollow = noisy_main
y = 'ms'; y_low = 'low'; y_high = 'high'; y_roof = 'roof'; y_bound = 'bound'
upper = 0.48
load 'plots/lines.gp'

unset label 1
unset label 2
unset label 3
unset key
unset logscale y
set tmargin at screen 0.41
set bmargin at screen below
set ytics ('0' 0, '' 25, '50' 50, '' 75, '100' 100)
set xlabel 'context (positions attended, the new token included)'
set ylabel "KV share of\nbytes moved (%)"
set yrange [0:100]
plot for [i = 1:n] points using (x(i)):(column('kv_share')) smooth unique with linespoints lw 2 pt filled(i) ps 1.1 * scale lc rgb ramp(i, n) notitle
unset multiplot
