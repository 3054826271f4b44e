# Where the time of a step goes: a bar per point, the traced time by operation in percent of the untraced median, so that a bar
# that is not about as high as 100 shows how far its one traced sample lies from the median. An operation's colour is its own.
load 'plots/common.gp'
what = 'Time by operation'
kv_shown = kv
detail = 'one traced sample per bar' . (n_noisy ? ', * verdict not ok' : '')
FAMILY = '"attention" "Q, K, V projections" "output projection" "FFN gate, up" "FFN down" "vocabulary" "RoPE, KV write, Q/K norm" "norms" "embedding and others"'
COLOUR = '#0072b2 #009e73 #56b4e9 #e69f00 #d55e00 #cc79a7 #666666 #8c6bb1 #c4c4c4'
columns = 4
entries = words(families) + 2
load 'plots/below.gp'
last_x = word(bar_ends, words(bar_ends)) + 0
many = last_x > 20 # then what is at a bar stands upright
below = below + (many ? 0.085 : 0.03)
set bmargin at screen below
load 'plots/title.gp'
bars = dir . '/bars.tsv'
segments = dir . '/segments.tsv'
top = bar_top > 100 ? bar_top : 100
left = 1 - 0.6 - last_x * 0.012
right = last_x + 0.6
set xrange [left:right]
set yrange [0:top * 1.13]
set grid noxtics ytics
set xtics scale 0 font small
set ytics 0, top > 300 ? 100 : 25, top
if (many) { set xtics rotate by 90 right }
under(b, l) = many ? b . ' x ' . l : b . "\n" . l
set ylabel 'traced time (% of the untraced median)'
set style fill solid 1 noborder
row(k) = below - 0.028 * k
screen_x(x) = 0.085 + 0.89 * (x - left) / (right - left)
do for [p = 1:words(bar_phases)] {
    set label 30 + p word(bar_phases, p) at screen screen_x(((word(bar_begins, p) + word(bar_ends, p)) / 2.0)), screen row(many ? 4.8 : 2.7) center
}
set label 40 (many ? 'batch x' : 'batch') at screen 0.075, screen row(0.8) right font small
set label 41 'tokens' at screen 0.075, screen row(1.6) right font small
set label 42 'median, ms' at screen 0.075, first top * 1.08 right font small
digits(t) = t >= 100 ? sprintf('%.0f', t) : t >= 1 ? sprintf('%.3g', t) : sprintf('%.2g', t)
plot for [f in families] segments using (column('family') == f ? column('x') : NaN):(column('low')):(column('x') - 0.39):(column('x') + 0.39):(column('low')):(column('high')) \
         with boxxyerror lc rgb word(COLOUR, f + 0) title word(FAMILY, f + 0), \
     bars using (column('x')):(column('low')):(0):(column('high') - column('low')) with vectors nohead lw 4 lc rgb 'white' notitle, \
     100 with lines lw 1.6 dt ROOF lc rgb '#404040' title 'untraced median', \
     bars using (column('x')):(column('low')):(0):(column('high') - column('low')) with vectors heads size screen 0.004,90 lw 1.6 lc rgb '#404040' title 'its 95 % interval', \
     bars using (column('x')):(top * 1.08):(digits(column('label')) . (column('noisy') == 1 ? '*' : '')):xtic(under(strcol('batch'), strcol('length'))) \
         with labels font small rotate by (many ? 90 : 0) notitle
