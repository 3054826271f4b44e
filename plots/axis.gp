# call 'plots/axis.gp' AXIS LOGARITHMIC   An axis that begins at 0, or a logarithmic one with labels at LABELS of each decade.
if (@ARG2) {
    eval sprintf('set logscale %s; set autoscale %sfix; set offsets %s', ARG1, ARG1, ARG1 eq 'y' ? '0, 0, graph 0.06, graph 0.06' : '0, 0, 0, 0')
    do for [d = -4:12] {
        do for [m in LABELS] {
            eval sprintf("set %stics add ('%s' %.9g)", ARG1, amount(m * 10.0 ** d), m * 10.0 ** d)
        }
    }
} else {
    eval sprintf('set %srange [0:*]; set offsets 0, 0, graph 0.06, 0', ARG1)
}
