# call 'plots/axis.gp' AXIS   A logarithmic axis that shows `least` to `most`, with a little room and no less than a factor of 4,
# so that noise is not looked at through a magnifying glass. Fewer labels the more decades there are.
axis_room = (most / least) ** 0.06 * (most / least < 4 ? sqrt(4 / (most / least)) : 1)
axis_low = least / axis_room
axis_high = most * axis_room
axis_span = axis_high / axis_low
axis_labels = axis_span > 2e4 ? '1' : axis_span > 40 ? '1 2 5' : axis_span > 12 ? '1 2 3 5 7' : '1 1.5 2 3 4 5 6 7 8 9'
eval sprintf('set logscale %s; set %stics (); set %srange [%.12g:%.12g]', ARG1, ARG1, ARG1, axis_low, axis_high)
do for [d = floor(log10(axis_low)):ceil(log10(axis_high))] {
    do for [m = 1:9] {
        eval sprintf("set %stics add ('' %.9g 1)", ARG1, m * 10.0 ** d)
    }
    do for [m in axis_labels] {
        eval sprintf("set %stics add ('%s' %.9g 0)", ARG1, amount(m * 10.0 ** d), m * 10.0 ** d)
    }
}
