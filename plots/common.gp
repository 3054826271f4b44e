# What all pictures share: terminal, colours, shapes, words. tools/plots.sh sets format, out and dir; facts.gp has the lists.
load dir . '/facts.gp'
# The canvas is `WIDTH` by `HEIGHT`, which a picture may set before.
WIDTH = exists('WIDTH') ? WIDTH : 1000.0
HEIGHT = 660.0
if (format eq 'svg') {
    set terminal svg size WIDTH, HEIGHT font 'DejaVu Sans,Verdana,sans-serif' linewidth 0.8 background 'white' noenhanced
} else {
    set terminal pngcairo size 1.5 * WIDTH, 1.5 * HEIGHT font 'DejaVu Sans,14.5' background 'white' noenhanced
}
small = format eq 'svg' ? ',10.5' : ',12.5'
scale = format eq 'svg' ? 0.6 : 1 # of points
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
filled(i) = int(word('7 5 9 11 13 15', 1 + (i - 1) % 6)) # point shapes
hollow(i) = filled(i) - 1                                # of noisy points
kv_shown = ''
detail = ''
GREY = '#606060'
MEASURED = 1 # dash types
ROOF = 2
BOUND = 3

roof_name = 'roof (' . (roof_source eq '' ? 'ceilings' : roof_source . ' ceilings') . ')'
is(name, value) = strcol(name) eq value
amount(v) = sprintf('%.10g', v) # a number on an axis, with all its digits

set border 3 lc rgb '#404040'
set tics nomirror out textcolor rgb '#202020'
set grid lc rgb '#e4e4e4' lt 1 lw 0.8
set errorbars 0.5
set style fill solid 0.9 noborder
set tmargin at screen 0.845
set lmargin at screen 0.085
set rmargin at screen 0.975
