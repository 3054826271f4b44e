# Where the time of a step goes: a bar per point, each operation's share of the traced time, the whole in ms above it.
load 'plots/common.gp'
set title head('Traced time by operation', 'weights ' . weights . ', KV ' . kv)
set ylabel 'share of the traced time (%); all of it in ms above'
set style data histograms
set style histogram rowstacked title offset 0, -2.4
set boxwidth 0.78
set xtics rotate by -45 nomirror
set grid noxtics ytics
set yrange [0:109]
set ytics 0, 20, 100
set bmargin 6.5
set key invert samplen 1.2
decode = dir . '/ops_decode.tsv'
prefill = dir . '/ops_prefill.tsv'
gap = n_decode_bars && n_prefill_bars ? 1 : 0
begin = n_decode_bars + gap # where prefill's bars stand
set xrange [-0.7 : begin + n_prefill_bars - 0.3]
share(i) = 100.0 * column(i) / column('total')
whole = "with labels font ',11' textcolor rgb '#202020' notitle"
colour(i) = i == n_segments ? '#999999' : kind(i)
bars_of = "using (share(i + 2)):xtic(1) lc rgb colour(i) title"
decode_bars = "newhistogram 'decode: batch x context' at 0, for [i = 1:n_segments] decode @bars_of columnheader(i + 2), \
    decode using ($0):(103):(ms(column('total'))) @whole"
prefill_bars = "newhistogram 'prefill: batch x tokens' at begin, for [i = 1:n_segments] prefill @bars_of (n_decode_bars ? '' : columnheader(i + 2)), \
    prefill using ($0 + begin):(103):(ms(column('total'))) @whole"
ms(t) = t >= 100 ? sprintf('%.0f', t) : t >= 1 ? sprintf('%.3g', t) : sprintf('%.2g', t)
set macros
if (gap) { plot @decode_bars, @prefill_bars } else { if (n_decode_bars) { plot @decode_bars } else { plot @prefill_bars } }
