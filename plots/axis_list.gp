# call 'plots/axis_list.gp' LIST   A logarithmic x axis with a tic at each number of LIST, labelled where there is room.
set logscale x 2
set xtics ()
list_low = word(ARG1, 1) / (1.0 * word(ARG1, words(ARG1)) / word(ARG1, 1)) ** 0.04
list_high = word(ARG1, words(ARG1)) * (1.0 * word(ARG1, words(ARG1)) / word(ARG1, 1)) ** 0.04
list_span = log(list_high / list_low)
list_labelled = list_low / 100
do for [v in ARG1] {
    list_room = log(v / list_labelled) / list_span > 0.05
    eval sprintf("set xtics add ('%s' %s)", list_room ? v : '', v)
    list_labelled = list_room ? v + 0.0 : list_labelled
}
set xrange [list_low:list_high]
# Series are moved apart a little, so that their intervals do not hide each other.
apart(i, n) = exp(list_span * (n > 4 ? 0.028 / n : 0.007) * (i - (n + 1) / 2.0))
