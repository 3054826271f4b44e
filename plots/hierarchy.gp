# What `kvbench ceilings` found: on the left the rates of loops that go over a set again and again, by its size, and where
# that shows caches; on the right the roof that each of them and the main memory makes.
WIDTH = 1240.0
load 'plots/common.gp'
set label 1 'Memory hierarchy: ' . machine at screen 0.03, 0.962 left font (format eq 'svg' ? ',15' : ',18')
set label 2 'attained by loops that do nothing else, ' . date at screen 0.03, 0.921 left font small tc rgb '#303030'
rates = dir . '/rates.tsv'
n = words(levels)
GBps(k) = word(level_GBps, k) + 0.0
bytes(k) = word(level_bytes, k) + 0.0
place(k) = word(levels, k) eq 'memory' ? 'main memory' : word(levels, k)
size(b) = b < 2 ** 20 ? sprintf('%.0f KiB', b / 1024.0) : sprintf('%.3g MiB', b / 2.0 ** 20)
threads(t) = t == 1 ? '1 thread' : sprintf('%d threads', t)

set multiplot
set tmargin at screen 0.86
set bmargin at screen 0.2

# Rates.
set lmargin at screen 0.062
set rmargin at screen 0.5
set logscale x 2
stats rates using 1 name 'S' nooutput
stats rates using 2 name 'R' nooutput
stats rates using 3 name 'O' nooutput
stats rates using 6 name 'T' nooutput
set xrange [S_min / 1.2:S_max * 1.2]
set xtics ()
do for [k = 14:40:2] {
    set xtics add (size(2.0 ** k) 2.0 ** k)
}
least = O_min / 1.2
most = (T_max > R_max ? T_max : R_max) * 1.25
call 'plots/axis.gp' 'y'
set yrange [least:most]
set xlabel 'gone over again and again (all threads together)'
set ylabel 'GB/s (read and written)' offset 1
do for [k = 1:n] {
    if (bytes(k) > 0) {
        set arrow 10 + k from bytes(k), graph 0 to bytes(k), graph 1 nohead dt 3 lw 1.4 lc rgb ramp(k, n)
        set label 10 + k place(k) . ': ' . size(bytes(k)) . ' ' at bytes(k), graph 0.015 left rotate by 90 font small tc rgb ramp(k, n) offset -0.7, 0
    }
}
set key at screen 0.28, screen 0.012 bottom center horizontal Left reverse maxcols 3 samplen 2.2 spacing 1.15 font small
plot rates using 1:3 with lines lw 1.6 dt 2 lc rgb '#000000' title 'read, ' . threads(1), \
     rates using 1:(all > 1 ? column(2) : NaN) with linespoints lw 2.4 pt 7 ps 0.7 * scale lc rgb '#000000' title 'read, ' . threads(all), \
     rates using 1:4 with lines lw 1.4 dt 3 lc rgb '#000000' title 'the same, 4 KiB pages', \
     rates using 1:5 with lines lw 2 lc rgb kind(1) title 'copy', \
     rates using 1:6 with lines lw 2 lc rgb kind(2) title 'triad', \
     rates using 1:7 with lines lw 2 lc rgb kind(3) title 'memcpy'

# Roofs.
do for [k = 1:n] {
    unset arrow 10 + k
    unset label 10 + k
}
unset label 1
unset label 2
unset logscale
m = words(peaks)
GFLOPps(k) = word(peak_GFLOPps, k) + 0.0
top = 0
do for [k = 1:m] { top = GFLOPps(k) > top ? GFLOPps(k) : top }
fastest = GBps(n)
slowest = GBps(1)
do for [k = 1:n] {
    fastest = GBps(k) > fastest ? GBps(k) : fastest
    slowest = GBps(k) < slowest ? GBps(k) : slowest
}
set lmargin at screen 0.575
set rmargin at screen 0.985
least = 0.1
most = top / slowest * 4
call 'plots/axis.gp' 'x'
left = 0.1
right = most
set xrange [left:right]
least = slowest * left / 1.3
most = top * 1.7
call 'plots/axis.gp' 'y'
bottom = least
set yrange [bottom:most]
set xlabel 'arithmetic intensity (FLOP per byte)'
set ylabel 'GFLOP/s (GOP/s), ' . threads(all) offset 1
wide = WIDTH * (0.985 - 0.575) / log10(right / left)
high = HEIGHT * (0.86 - 0.2) / log10(most / bottom)
turn = atan(high / wide)
do for [k = 1:n] {
    x = left * 10 ** (95 * cos(turn) / wide)
    set label 20 + k sprintf('%s %.4g GB/s', place(k), GBps(k)) at x * 10 ** (-sin(turn) * 9 / wide), GBps(k) * x * 10 ** (cos(turn) * 9 / high) \
        center rotate by turn * 180 / pi font small tc rgb ramp(k, n)
}
do for [k = 1:m] {
    set label 30 + k sprintf('%s %.4g', word(peaks, k), GFLOPps(k)) at right * 10 ** (-6 / wide), GFLOPps(k) * 10 ** (9 / high) right font small
}
roof(k, x) = GBps(k) * x < top ? GBps(k) * x : NaN
flat(k, x) = x >= GFLOPps(k) / fastest ? GFLOPps(k) : NaN
set samples 600
unset key
plot for [k = 1:n] roof(k, x) lw 2.4 lc rgb ramp(k, n) notitle, for [k = 1:m] flat(k, x) lw 2.2 lc rgb '#404040' notitle
unset multiplot
