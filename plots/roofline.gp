# The roofline picture: arithmetic per second against arithmetic per byte of weights and KV. Colour is the batch, shape the phase
# and the KV type, size the context of decode or the tokens of prefill. What was not measured stands at its roof.
load 'plots/common.gp'
what = 'Roofline'
detail = n_measured ? '' : 'points stand at their roof'
GBps(k) = word(roof_GBps, k) + 0.0
GFLOPps(k) = word(roof_GFLOPps, k) + 0.0
done = n_measured ? 'gflops' : 'gflops_roof'

# The picture holds all points and the ridges of the lowest and the highest roof.
stats points using (column('kind') > 0 ? column('intensity') : NaN) name 'X' nooutput
stats points using (column('kind') > 0 ? column(done) : NaN) name 'Y' nooutput
left = X_min / (n_roofs > 1 ? 4 : 2.2)
right = X_max * 1.6
bottom = Y_min / (n_roofs > 1 ? 4 : 1.8)
top = Y_max
do for [k = 1:n_roofs] {
    ridge = GFLOPps(k) / GBps(k)
    right = ridge * 5 > right ? ridge * 5 : right
    top = GFLOPps(k) > top ? GFLOPps(k) : top
}
top = top * 1.6
thousand = top > 2e4 ? 1000.0 : 1.0
set xlabel 'arithmetic intensity (FLOP per byte of weights and KV)'
set ylabel thousand > 1 ? 'arithmetic done (TFLOP/s)' : 'arithmetic done (GFLOP/s)'
least = bottom / thousand
most = top / thousand
call 'plots/axis.gp' 'y'
set yrange [least:most]
least = left
most = right
call 'plots/axis.gp' 'x'
set xrange [left:right]

n = words(all_batches)
columns = 4
entries = n_kinds + n + words(sizes) + (n_intervals ? 1 : 0) + (n_noisy ? 1 : 0)
load 'plots/below.gp'
load 'plots/title.gp'

# A roof is a slope of bandwidth up to the flat of its arithmetic, each with its name along it. The highest is named above its
# line, together with those that are about as high; what is attained, between the lines where there is room, else below its own.
roof(k, x) = (GBps(k) * x < GFLOPps(k) ? GBps(k) * x : GFLOPps(k)) / thousand
scaled(v, unit, unit_1000) = v >= 1000 ? sprintf('%.4g %s', v / 1000.0, unit_1000) : sprintf('%.4g %s', v, unit)
title_of(k) = word(roof_kinds, k) eq 'attainable' ? 'attained' : word(roof_kinds, k)
dash(k) = word(roof_kinds, k) eq 'attainable' ? 1 : word(roof_kinds, k) eq 'datasheet' ? 2 : 3
type(k) = word(roof_types, k) . (word(roof_runs_as, k) eq word(roof_types, k) ? '' : ' as ' . word(roof_runs_as, k))
flat_text(k) = title_of(k) . ' ' . type(k) . ' ' . scaled(GFLOPps(k), 'GFLOP/s', 'TFLOP/s')
slope_text(k) = title_of(k) . ' ' . scaled(GBps(k), 'GB/s', 'TB/s')
decade_wide = WIDTH * (0.975 - 0.085) / log10(right / left) # in units of the canvas
decade_high = HEIGHT * (0.845 - below) / log10(top / bottom)
turn = atan(decade_high / decade_wide)
lowest = 1
highest = n_roofs
flat(k, k_text, off) = sprintf("set label %d \"%s\" at %.9g, %.9g right font small", 10 + k, k_text, \
    right * 10 ** (-8 / decade_wide), GFLOPps(k) / thousand * 10 ** (off / decade_high))
slope(k, k_text, x, off) = sprintf("set label %d \"%s\" at %.9g, %.9g center rotate by %g font small", 20 + k, k_text, \
    x * 10 ** (-sin(turn) * off / decade_wide), GBps(k) * x / thousand * 10 ** (cos(turn) * off / decade_high), turn * 180 / pi)
enter = bottom / GBps(lowest) > left ? bottom / GBps(lowest) : left # where the lowest slope comes into the picture
ridge = GFLOPps(highest) / GBps(highest)
flat_names = flat_text(highest)
slope_names = slope_text(highest)
do for [k = highest - 1:1:-1] {
    gap = log10(GFLOPps(highest) / GFLOPps(k)) * decade_high
    if (k > 1 && gap < 12) { flat_names = flat_text(k) . ', ' . flat_names } else { eval flat(k, flat_text(k), gap > 26 ? 10 : gap > 15 ? gap / 2 : -10) }
    gap = log10(GBps(highest) / GBps(k)) * decade_high * cos(turn)
    if (k > 1 && gap < 12) { slope_names = slope_text(k) . ', ' . slope_names } else { eval slope(k, slope_text(k), enter * 10 ** (75 * cos(turn) / decade_wide), -10) }
}
eval flat(highest, flat_names, 10)
eval slope(highest, slope_names, enter * (ridge / enter) ** 0.55, 10)
# Caches, for what stays in them between steps: thin, up to what is attained, each with its name where it reaches half of that.
rate(k) = k <= words(cache_GBps) ? real(word(cache_GBps, k)) : NaN # an empty loop still looks at its first
cache(k, x) = rate(k) * x < GFLOPps(1) ? rate(k) * x / thousand : NaN
do for [k = 1:words(cache_names)] {
    x = 0.5 * GFLOPps(1) / word(cache_GBps, k)
    if (x > left * 1.5 && cache(k, x) > bottom / thousand * 1.5) {
        set label 30 + k sprintf('%s %.4g GB/s', word(cache_names, k), word(cache_GBps, k) + 0.0) center rotate by turn * 180 / pi font small tc rgb '#8a8a8a' \
            at x * 10 ** (sin(turn) * 9 / decade_wide), cache(k, x) * 10 ** (-cos(turn) * 9 / decade_high)
    }
}
set samples 500
smallest = 1.0 * scale # of the points
largest = 2.2 * scale

X(k, b, noise) = column('kind') == k && column('batch_rank') == b && (noise < 0 || column('noisy') == noise) ? column('intensity') : NaN
Y(name) = column(name) / thousand
size(name) = smallest + (largest - smallest) * column(name)
plot for [k = 1:words(cache_names)] cache(k, x) lw 1.2 lc rgb '#a8a8a8' notitle, \
     for [k = 1:n_roofs] roof(k, x) lw 2.2 dt dash(k) lc rgb (k == 1 ? '#000000' : '#707070') notitle, \
     for [k = 1:n_kinds] for [b = 1:n] points using (X(k, b, -1)):(Y('gflops')):(Y('gflops_low')):(Y('gflops_high')) \
         with yerrorbars lw 1.1 pt 0 lc rgb ramp(b, n) notitle, \
     for [k = 1:n_kinds] for [b = 1:n] points using (X(k, b, 0)):(Y(done)):(size('size')) with points pt filled(k) ps variable lc rgb ramp(b, n) notitle, \
     for [k = 1:n_kinds] for [b = 1:n] points using (X(k, b, 1)):(Y(done)):(size('size')) with points pt filled(k) ps variable lc rgb 'white' notitle, \
     for [k = 1:n_kinds] for [b = 1:n] points using (X(k, b, 1)):(Y(done)):(size('size')) with points pt hollow(k) ps variable lw 2 lc rgb ramp(b, n) notitle, \
     for [k = 1:n_kinds] NaN with points pt filled(k) ps 1.4 * scale lc rgb GREY title KIND[k], \
     for [b = 1:n] NaN with points pt 7 ps 1.4 * scale lc rgb ramp(b, n) title 'batch ' . word(all_batches, b), \
     for [c = 1:words(sizes)] NaN with points pt 7 ps (c == 1 ? smallest : largest) lc rgb GREY title 'context or prompt ' . word(sizes, c), \
     for [i = 1:n_intervals ? 1 : 0] NaN with lines lw 1.1 lc rgb GREY title '95 % interval', \
     for [i = 1:n_noisy ? 1 : 0] NaN with points pt 6 ps 1.4 * scale lw 2 lc rgb GREY title 'hollow: verdict not ok'
