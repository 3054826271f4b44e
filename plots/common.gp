# What all pictures share: terminal, colours, axes. tools/plots.sh sets format, out and dir; facts.gp has the lists.
load dir . '/facts.gp'
if (format eq 'svg') {
    set terminal svg size 1000,660 font 'DejaVu Sans,Verdana,sans-serif' background 'white' noenhanced
} else {
    set terminal pngcairo size 1500,990 font 'DejaVu Sans,15' background 'white' noenhanced
}
set output out
set datafile separator tab
set datafile columnheaders
set datafile missing NaN
points = dir . '/points.tsv'

# Ordered quantities (batch, context) run from dark to light; kinds take colours that colour-blind readers tell apart.
RAMP2 = '#440154 #21918c'
RAMP3 = '#440154 #2c728e #5ec962'
RAMP4 = '#440154 #31688e #35b779 #d8b500'
RAMP5 = '#440154 #3b528b #21918c #5ec962 #d8b500'
RAMP9 = '#440154 #472d7b #3b528b #2c728e #21918c #28ae80 #5ec962 #a5b800 #d8b500'
ramp(i, n) = word(n <= 2 ? RAMP2 : n == 3 ? RAMP3 : n == 4 ? RAMP4 : n == 5 ? RAMP5 : RAMP9, 1 + (i - 1) % 9)
KINDS = '#0072b2 #e69f00 #009e73 #d55e00 #56b4e9 #cc79a7 #000000 #b8a800 #999999'
kind(i) = word(KINDS, 1 + (i - 1) % 9)
filled(i) = int(word('7 5 9 11 13 15 2 1 3', 1 + (i - 1) % 9)) # point shapes
hollow(i) = int(word('6 4 8 10 12 14 2 1 3', 1 + (i - 1) % 9))
GREY = '#606060'
MEASURED = 1 # dash types
ROOF = 2
BOUND = 3

short(n) = int(n) >= 1024 && int(n) % 1024 == 0 ? sprintf('%dk', int(n) / 1024) : sprintf('%d', int(n)) # 4096 -> 4k
head(what, detail) = what . ': ' . model . (detail eq '' ? '' : ', ' . detail) . "\n" . machine . (date eq '' ? '' : ', ' . date)
roof_name = 'roof (' . (roof_source eq '' ? 'ceilings' : roof_source . ' ceilings') . ')'
bound_name = n_bound ? 'bound (physics)' : 'no bound: hard peaks unknown'
measured_name = n_measured ? 'measured, 95 % interval' : 'not measured'
item(list, i) = i <= words(list) ? word(list, i) : '0'
is(name, value) = strcol(name) eq value

# Numbers on an axis, and the ratio above which an axis is logarithmic.
amount(v) = v >= 1e6 ? sprintf('%gM', v / 1e6) : v >= 1e4 ? sprintf('%gk', v / 1e3) : sprintf('%g', v)
LOG_FROM = 8
LABELS = '1 2 5' # of each decade

set border 3 lc rgb '#404040'
set tics nomirror out textcolor rgb '#202020'
set grid lc rgb '#e4e4e4' lt 1 lw 0.8
set key outside right top Left reverse samplen 2.5 spacing 1.15
set style fill solid 0.9 noborder
