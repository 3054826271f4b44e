# Measured against predicted: on the diagonal a prediction is exact, in the bands about it within 10 or 25 %. Predicted is the
# fitted model where there is one; else the roof, which no machine is expected to reach, with multiples of it.
WIDTH = 900.0
load 'plots/common.gp'
predicted = n_pred ? 'pred' : 'roof'
what = n_pred ? 'Measured against fitted prediction' : 'Measured time against roof'
set xlabel n_pred ? 'fitted prediction (ms)' : roof_name . ' (ms)'
set ylabel 'measured (ms)'
shown(name) = column('kind') > 0 ? column(name) : NaN
stats points using (shown(predicted)) name 'X' nooutput
end_of(name) = shown(name) == shown(name) ? shown(name) : shown('ms') # of an interval; NaN is not itself
stats points using (end_of('low')) name 'L' nooutput
stats points using (end_of('high')) name 'H' nooutput
least = X_min < L_min ? X_min : L_min
most = X_max > H_max ? X_max : H_max
call 'plots/axis.gp' 'x'
call 'plots/axis.gp' 'y'
set bmargin at screen 0.115
set lmargin at screen 0.11
set rmargin at screen 0.11 + (0.845 - 0.115) * HEIGHT / WIDTH
set key at screen 0.67, screen 0.845 left top Left reverse samplen 2.2 spacing 1.25
load 'plots/title.gp'

n = words(all_batches)
X(k, b, noise) = column('kind') == k && column('batch_rank') == b && (noise < 0 || column('noisy') == noise) ? column(predicted) : NaN
TIMES = '2 5 10 20 50'
end(t) = axis_high / t # where the line of t times the roof leaves the picture, at its top
do for [i = 1:n_pred ? 0 : words(TIMES)] {
    if (word(TIMES, i) < 0.5 * axis_span) {
        set label 20 + i word(TIMES, i) . ' x roof' at end(word(TIMES, i)) / axis_span ** 0.01, axis_high / axis_span ** 0.01 \
            rotate by 45 right font small tc rgb '#707070' offset 0, 0.6
    }
}
band(i, part) = sprintf("set object %d polygon from %.9g,%.9g to %.9g,%.9g to %.9g,%.9g to %.9g,%.9g to %.9g,%.9g back fs solid noborder fc rgb word(BAND, %d)", i, \
    axis_low, axis_low * (1 - part), axis_high, axis_high * (1 - part), axis_high, axis_high * (1 + part), axis_low, axis_low * (1 + part), axis_low, axis_low * (1 - part), i)
BAND = '#ececec #cfd8e3'
eval band(1, 0.25)
eval band(2, 0.10)
plot NaN with boxes fc rgb word(BAND, 1) title 'within 25 %', \
     NaN with boxes fc rgb word(BAND, 2) title 'within 10 %', \
     for [i = 1:n_pred ? 0 : words(TIMES)] x * word(TIMES, i) with lines lw 1 lc rgb '#c0c0c0' notitle, \
     x with lines lw 1.8 lc rgb GREY title (n_pred ? 'equal' : 'measured = roof'), \
     for [k = 1:n_kinds] for [b = 1:n] points using (X(k, b, -1)):(column('ms')):(column('low')):(column('high')) \
         with yerrorbars lw 1.1 pt 0 lc rgb ramp(b, n) notitle, \
     for [k = 1:n_kinds] for [b = 1:n] points using (X(k, b, 0)):(column('ms')) with points pt filled(k) ps 1.4 * scale lc rgb ramp(b, n) notitle, \
     for [k = 1:n_kinds] for [b = 1:n] points using (X(k, b, 1)):(column('ms')) with points pt filled(k) ps 1.4 * scale lc rgb 'white' notitle, \
     for [k = 1:n_kinds] for [b = 1:n] points using (X(k, b, 1)):(column('ms')) with points pt hollow(k) ps 1.4 * scale lw 2 lc rgb ramp(b, n) notitle, \
     for [k = 1:n_kinds] NaN with points pt filled(k) ps 1.4 * scale lc rgb GREY title KIND[k], \
     for [b = 1:n] NaN with points pt 7 ps 1.4 * scale lc rgb ramp(b, n) title 'batch ' . word(all_batches, b), \
     for [i = 1:n_intervals ? 1 : 0] NaN with lines lw 1.1 lc rgb GREY title '95 % interval', \
     for [i = 1:n_noisy ? 1 : 0] NaN with points pt 6 ps 1.4 * scale lw 2 lc rgb GREY title 'hollow: verdict not ok'
