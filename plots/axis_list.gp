# call 'plots/axis_list.gp' LIST   A logarithmic x axis with a tic at each number of LIST.
set logscale x 2
set xtics ()
do for [v in ARG1] {
    eval sprintf("set xtics add ('%s' %s)", short(v), v)
}
set xrange [word(ARG1, 1) / 1.3 : word(ARG1, words(ARG1)) * 1.3]
