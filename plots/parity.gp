# Measured against predicted: on the diagonal a prediction is exact. Predicted is the fitted model where there is one,
# else the roof, which no machine is expected to reach.
load 'plots/common.gp'
predicted = n_pred ? 'pred' : 'roof'
what = n_pred ? 'fitted prediction' : roof_name
set title head('Measured against ' . what, n_pred ? '' : 'no fit yet')
set xlabel 'predicted by ' . what . ' (ms)'
set ylabel 'measured (ms)'
set logscale xy
phases = 'decode prefill generate'
set key inside right bottom width 2
stats points using (column(predicted)) nooutput
least = STATS_min
most = STATS_max
stats points using (column('ms')) nooutput
low = 0.999 * 10 ** floor(log10(least < STATS_min ? least : STATS_min))
high = 1.001 * 10 ** ceil(log10(most > STATS_max ? most : STATS_max))
call 'plots/axis.gp' 'x' 1
call 'plots/axis.gp' 'y' 1
set xrange [low:high]
set yrange [low:high]
set offsets 0, 0, 0, 0
set samples 100
set size ratio -1
plot '+' using 1:($1 * 0.75):($1 * 1.25) with filledcurves fc rgb '#ececec' title 'within 25 %', \
     '+' using 1:($1 * 0.9):($1 * 1.1) with filledcurves fc rgb '#cfd8e3' title 'within 10 %', \
     x with lines lw 1.5 lc rgb GREY title 'equal', \
     for [i = 1:3] points using (is('phase', word(phases, i)) ? column(predicted) : NaN):(column('ms')) \
         with points pt hollow(i) ps 1.6 lw 2 lc rgb kind(i) title word(phases, i)
