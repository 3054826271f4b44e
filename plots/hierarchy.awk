# usage: awk -f plots/hierarchy.awk -v dir=DIR -v machine=TEXT CEILINGS.survey.csv
# Turns the survey of `kvbench ceilings` into what hierarchy.gp reads:
#   rates.tsv   a row per size of the set: GB/s of the best loop of each kind
#   facts.gp    the ceilings, by name, and texts as gnuplot variables
# The rows it needs hold no quoted fields.
BEGIN { FS = ","; OFS = "\t" }
FNR == 1 {
    for (i = 1; i <= NF; i++) column[$i] = i
    next
}
function text(name) { return $column[name] }
text("quantity") == "memory" {
    threads = text("threads") + 0
    if (threads > all) all = threads
    key = text("what") SUBSEP threads SUBSEP text("page_KiB") SUBSEP text("set_bytes")
    if (text("value") + 0 > best[key]) best[key] = text("value") + 0
    sets[text("set_bytes")] = 1
}
text("quantity") == "ceiling" {
    name = text("what")
    if (text("unit") == "B/s") {
        levels = name " " levels # memory comes first, the innermost next
        level_GBps[name] = text("value") / 1e9
        level_bytes[name] = text("set_bytes") == "" ? 0 : text("set_bytes")
    } else {
        peaks = peaks " " name
        peak_GFLOPps[name] = text("value") / 1e9
    }
    if (text("date") > date) date = text("date")
}
function rate(what, threads, page, set,    key) {
    key = what SUBSEP threads SUBSEP page SUBSEP set
    return key in best ? best[key] / 1e9 : "NaN"
}
function list(names, value,    n, name, i, out) {
    n = split(names, name, " ")
    for (i = 1; i <= n; i++) out = out sprintf("%s%.6g", i > 1 ? " " : "", value[name[i]])
    return out
}
END {
    out = dir "/rates.tsv"
    print "set", "read", "read_1", "read_small", "copy", "triad", "memcpy" > out
    n = 0
    for (set in sets) order[++n] = set + 0
    for (i = 2; i <= n; i++) {
        x = order[i]
        for (j = i; j > 1 && order[j - 1] > x; j--) order[j] = order[j - 1]
        order[j] = x
    }
    for (i = 1; i <= n; i++)
        print order[i], rate("read", all, 2048, order[i]), rate("read", 1, 2048, order[i]), rate("read", all, 4, order[i]), \
            rate("copy", all, 2048, order[i]), rate("triad", all, 2048, order[i]), rate("memcpy", all, 2048, order[i]) > out
    out = dir "/facts.gp"
    gsub(/"/, "", machine)
    printf "machine = \"%s\"\ndate = '%s'\nall = %d\nroof_source = 'attainable'\n", machine, date, all > out
    printf "levels = '%s'\nlevel_GBps = '%s'\nlevel_bytes = '%s'\n", levels, list(levels, level_GBps), list(levels, level_bytes) > out
    printf "peaks = '%s'\npeak_GFLOPps = '%s'\n", peaks, list(peaks, peak_GFLOPps) > out
}
