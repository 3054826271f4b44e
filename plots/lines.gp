# The plot command of the pictures with one line per series. The caller sets n; x(i), NaN for rows not of series i; name(i);
# and the columns y, y_roof, y_bound. Intervals are drawn where y is a time.
m = n_measured ? n : 0
plot for [i = 1:n] points using (x(i)):(column(y_roof)) smooth unique with lines lw 2 dt ROOF lc rgb ramp(i, n) notitle, \
     for [i = 1:n_bound ? n : 0] points using (x(i)):(column(y_bound)) smooth unique with lines lw 2 dt BOUND lc rgb ramp(i, n) notitle, \
     for [i = 1:y eq 'ms' ? m : 0] points using (x(i)):(column(y)):(column('low')):(column('high')) \
         with yerrorbars lw 1.5 pt filled(i) ps 0 lc rgb ramp(i, n) notitle, \
     for [i = 1:m] points using (x(i)):(column(y)) smooth unique \
         with linespoints lw 2.5 pt filled(i) ps 1.3 lc rgb ramp(i, n) notitle, \
     for [i = 1:n] NaN with linespoints lw 2.5 pt filled(i) ps 1.3 lc rgb ramp(i, n) title name(i), \
     NaN with linespoints lw 2.5 pt filled(1) lc rgb GREY title measured_name, \
     NaN with lines lw 2 dt ROOF lc rgb GREY title roof_name, \
     NaN with lines lw 2 dt BOUND lc rgb GREY title bound_name
