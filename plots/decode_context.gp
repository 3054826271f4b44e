# Decode: time of a step against context length, a line per batch size; below, the share of the bytes read that is KV.
load 'plots/common.gp'
n = words(batches)
x(i) = is('phase', 'decode') && column('main') == 1 && is('batch', word(batches, i)) ? column('context') : NaN
name(i) = 'batch ' . word(batches, i)
set multiplot
set lmargin 13
set rmargin 38
set size 1, 0.64
set origin 0, 0.36
set title head('Decode step time by context length', 'weights ' . weights . ', KV ' . kv)
set ylabel 'time of a decode step (ms)'
call 'plots/axis_list.gp' contexts
call 'plots/axis.gp' 'y' (time_span > LOG_FROM)
y = 'ms'; y_roof = 'roof'; y_bound = 'bound'
load 'plots/lines.gp'

set size 1, 0.36
set origin 0, 0
unset title
unset key
unset logscale y
set ytics auto
set xlabel 'context (positions attended, the new token included)'
set ylabel "KV share of\nbytes moved (%)"
set yrange [0:100]
set offsets 0, 0, 0, 0
plot for [i = 1:n] points using (x(i)):(column('kv_share')) smooth unique \
     with linespoints lw 2 pt filled(i) ps 1.1 lc rgb ramp(i, n) notitle
unset multiplot
