# The roofline picture: arithmetic per second against arithmetic per byte of weights and KV. Colour is the batch; shape is the
# context of decode (filled) or the tokens of prefill (hollow).
load 'plots/common.gp'
set title head('Roofline', 'weights ' . weights)
set xlabel 'arithmetic intensity (FLOP per byte of weights and KV)'
set ylabel 'arithmetic done (GFLOP/s)'
GBps(k) = word(roof_GBps, k) + 0
GFLOPps(k) = word(roof_GFLOPps, k) + 0
roof(k, x) = GBps(k) * x < GFLOPps(k) ? GBps(k) * x : GFLOPps(k)
scaled(v, unit, thousand) = v >= 1000 ? sprintf('%.4g %s', v / 1000.0, thousand) : sprintf('%.4g %s', v, unit)
dash(k) = word(roof_kinds, k) eq 'attainable' ? 1 : word(roof_kinds, k) eq 'datasheet' ? 2 : 3
roof_label(k) = (word(roof_kinds, k) eq 'attainable' ? 'attained' : word(roof_kinds, k)) . ': ' . scaled(GBps(k), 'GB/s', 'TB/s') . ', ' \
    . word(roof_types, k) . (word(roof_runs_as, k) eq word(roof_types, k) ? ' ' : ' as ' . word(roof_runs_as, k) . ' ') \
    . scaled(GFLOPps(k), 'GFLOP/s', 'TFLOP/s')

# The picture holds all points and every ridge.
stats points using (column('intensity')) nooutput
left = STATS_min / 3
right = STATS_max * 3
stats points using (column('gflops')) nooutput
bottom = STATS_min / 3
top = STATS_max * 3
do for [k = 1:n_roofs] {
    right = GFLOPps(k) / GBps(k) * 3 > right ? GFLOPps(k) / GBps(k) * 3 : right
    top = GFLOPps(k) * 2 > top ? GFLOPps(k) * 2 : top
}
call 'plots/axis.gp' 'y' 1
LABELS = right / left > 5000 ? '1' : LABELS
call 'plots/axis.gp' 'x' 1
set offsets 0, 0, 0, 0
set xrange [left:right]
set yrange [bottom:top]
set samples 500
set key samplen 2

n = words(batches)
m = words(contexts)
p = words(prompts)
all_batches = batches eq '' ? '1' : batches
colour(b) = ramp(b, words(all_batches))
of(what, b) = is('phase', what) && is('batch', item(all_batches, b)) ? column('intensity') : NaN
at(list, i) = is('context', item(list, i)) ? column('gflops') : NaN
plot for [k = 1:n_roofs] roof(k, x) lw 2.2 dt dash(k) lc rgb (k == 1 ? '#000000' : '#707070') title roof_label(k), \
     for [b = 1:n] for [c = 1:m] points using (of('decode', b)):(at(contexts, c)) with points pt filled(c) ps 1.5 lc rgb colour(b) notitle, \
     for [b = 1:words(all_batches)] for [c = 1:p] points using (of('prefill', b)):(at(prompts, c)) \
         with points pt hollow(c) ps 1.7 lw 2 lc rgb colour(b) notitle, \
     for [b = 1:n] NaN with points pt 7 ps 1.5 lc rgb colour(b) title 'batch ' . item(batches, b), \
     for [c = 1:m] NaN with points pt filled(c) ps 1.5 lc rgb GREY title 'decode, context ' . short(item(contexts, c)), \
     for [c = 1:p] NaN with points pt hollow(c) ps 1.7 lw 2 lc rgb GREY title 'prefill, ' . short(item(prompts, c)) . ' tokens'
