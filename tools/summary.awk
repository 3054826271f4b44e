# usage: awk -f tools/summary.awk facts.gp points.tsv   What a sweep found, on one screen. Input as plots/tidy.awk writes it.
FNR == 1 { file++ }
file == 1 {
    n = split($0, part, "; ")
    for (i = 1; i <= n; i++) {
        at = index(part[i], " = ")
        text = substr(part[i], at + 3)
        gsub(/^"|"$/, "", text)
        fact[substr(part[i], 1, at - 1)] = text
    }
    next
}
FNR == 1 {
    for (i = 1; i <= split($0, name, "\t"); i++) column[name[i]] = i
    next
}
function get(name) { return cell[column[name]] }
function known(x) { return x != "" && x != "NaN" }
{
    split($0, cell, "\t")
    n_points++
    verdicts[get("verdict")]++
    if (!known(get("ms")) || !get("in_slice")) next
    id = get("phase") SUBSEP get("batch") SUBSEP get("context") SUBSEP get("kv")
    low[id] = get("low"); high[id] = get("high")
    mark[id] = get("verdict") == "ok" ? "" : get("verdict")
    ms[id] = get("ms"); rate[id] = get("rate"); fraction[id] = get("fraction"); share[id] = get("kv_share")
}
function line(what, id,    of_roof) {
    if (!(id in ms)) return
    of_roof = known(fraction[id]) ? sprintf("%3.0f %% of roof", 100 * fraction[id]) : ""
    if (mark[id]) of_roof = sprintf("%-15s %s", of_roof, mark[id])
    printf "  %-40s %8.4g ms %8.4g tokens/s  %s\n", what, ms[id], rate[id], of_roof
}
# The ratio of two times; where one of them is noisy, between which values the ends of their 95 % intervals put it.
function ratio(a, b,    text) {
    text = sprintf("%.2f times", ms[a] / ms[b])
    if (!mark[a] && !mark[b]) return text
    if (!known(low[a]) || !known(low[b])) return text " (uncertain)"
    return text sprintf(" (uncertain: %.2f to %.2f)", low[a] / high[b], high[a] / low[b])
}
function decode_line(b, c, kv,    id) {
    id = "decode" SUBSEP b SUBSEP c SUBSEP kv
    line(sprintf("decode, batch %d, context %d, KV %s", b, c, kv), id)
    return id in ms ? id : ""
}
END {
    n_b = split(fact["batches"], b, " "); n_c = split(fact["contexts"], c, " "); n_k = split(fact["kvs"], k, " ")
    n_p = split(fact["prompts"], p, " ")
    printf "\n%s, weights %s, on %s, %s\n", fact["model"], fact["weights"], fact["machine"], fact["date"]
    n_r = split(fact["roof_kinds"], kind, " ")
    split(fact["roof_types"], type, " "); split(fact["roof_GBps"], GBps, " "); split(fact["roof_GFLOPps"], GFLOPps, " ")
    for (i = 1; i <= n_r; i++)
        if (kind[i] == "attainable") printf "  the machine reads %.4g GB/s and computes %.4g GFLOP/s in %s\n", GBps[i], GFLOPps[i], type[i]
    print ""
    for (i = 1; i <= n_p; i++) line(sprintf("prefill, %d tokens", p[i]), "prefill" SUBSEP 1 SUBSEP p[i] SUBSEP k[1])
    small = decode_line(b[1], c[1], k[1])
    if (n_b > 1) wide = decode_line(b[n_b], c[1], k[1])
    if (n_c > 1) long = decode_line(b[1], c[n_c], k[1])
    if (n_b > 1 && n_c > 1) full = decode_line(b[n_b], c[n_c], k[1])
    for (i = 2; i <= n_k; i++) narrow = decode_line(b[n_b], c[n_c], k[i])
    print ""
    if (wide && small && ms[small])
        printf "  a step of batch %d takes %s that of batch %d for %d times its tokens (context %d)\n", b[n_b], ratio(wide, small), b[1], b[n_b] / b[1], c[1]
    if (full && wide && ms[wide])
        printf "  context %d takes %s the step time of context %d (batch %d); KV is %.0f %% of its bytes\n", c[n_c], ratio(full, wide), c[1], b[n_b], share[full]
    if (narrow && full && ms[full])
        printf "  KV in %s takes %s the step time of %s (batch %d, context %d)\n", k[n_k], ratio(narrow, full), k[1], b[n_b], c[n_c]
    printf "  %d points:", n_points
    for (v in verdicts) printf " %d %s", verdicts[v], v
    printf "%s\n", fact["n_bound"] == 0 ? "; no bound, since nobody printed this machine's hard peaks" : ""
}
