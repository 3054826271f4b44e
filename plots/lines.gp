# The plot command of the pictures with one line per series. The caller sets n; x(i), NaN for rows not of series i; name(i);
# n_hollow, how many points are noisy; the columns y, y_low, y_high, y_roof, y_bound; and `upper`, where the lower end is, if
# another plot stands below. Without measurements the roof carries the shapes.
m = n_measured ? n : 0
put(i) = x(i) * apart(i, n)
ok(i) = column('noisy') == 1 ? NaN : put(i)
noisy(i) = column('noisy') == 1 ? put(i) : NaN
series = m ? MEASURED : ROOF
entries = n + (n_roof ? 1 : 0) + (m ? 1 : 0) + (n_hollow ? 1 : 0) + (n_bound ? 1 : 0)
columns = 3
load 'plots/below.gp'
if (exists('upper')) { set bmargin at screen upper }
load 'plots/title.gp'
plot for [i = 1:n] points using (x(i)):(column(y_roof)) smooth unique with lines lw 2 dt ROOF lc rgb ramp(i, n) notitle, \
     for [i = 1:m ? 0 : n] points using (x(i)):(column(y_roof)) with points pt filled(i) ps 1.2 * scale lc rgb ramp(i, n) notitle, \
     for [i = 1:n_bound ? n : 0] points using (x(i)):(column(y_bound)) smooth unique with lines lw 2 dt BOUND lc rgb ramp(i, n) notitle, \
     for [i = 1:m] points using (put(i)):(column(y)) smooth unique with lines lw 2.5 lc rgb ramp(i, n) notitle, \
     for [i = 1:m] points using (put(i)):(column(y)):(column(y_low)):(column(y_high)) \
         with yerrorbars lw 1.3 pt 0 lc rgb ramp(i, n) notitle, \
     for [i = 1:m] points using (ok(i)):(column(y)) with points pt filled(i) ps 1.4 * scale lc rgb ramp(i, n) notitle, \
     for [i = 1:m] points using (noisy(i)):(column(y)) with points pt filled(i) ps 1.4 * scale lc rgb 'white' notitle, \
     for [i = 1:m] points using (noisy(i)):(column(y)) with points pt hollow(i) ps 1.4 * scale lw 2 lc rgb ramp(i, n) notitle, \
     for [i = 1:n] NaN with linespoints lw 2.5 dt series pt filled(i) ps 1.4 * scale lc rgb ramp(i, n) title name(i), \
     for [i = 1:m ? 1 : 0] NaN with linespoints lw 2.5 pt 7 ps 1.4 * scale lc rgb GREY title (n_intervals ? 'measured, 95 % interval' : 'measured'), \
     for [i = 1:n_hollow ? 1 : 0] NaN with points pt 6 ps 1.4 * scale lw 2 lc rgb GREY title 'hollow: verdict not ok', \
     for [i = 1:n_roof ? 1 : 0] NaN with lines lw 2 dt ROOF lc rgb GREY title roof_name, \
     for [i = 1:n_bound ? 1 : 0] NaN with lines lw 2 dt BOUND lc rgb GREY title 'bound (physics)'
