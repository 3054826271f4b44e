# usage: awk -f plots/tidy.awk -v model=M -v dir=DIR NAME.csv [NAME.ops.csv] [NAME.roofs.csv]
# Turns one model's rows of a sweep into what the gnuplot scripts read, and decides which pictures the data can carry:
#   points.tsv   a row per point: times in ms per step, unknown values NaN. in_slice = 1 where weights, block size and threads
#                are the ones pictures show (widest type, commonest block, most threads); main = 1 where the KV type is, too
#   ops_decode.tsv, ops_prefill.tsv   a row per bar, a column per operation
#   facts.gp     lists and texts as gnuplot variables
#   pictures     a line per picture: its name and, if it cannot be drawn, the reason
# CSV is as RFC 4180 has it, without line breaks inside a field.

function split_csv(line, cell,    n, at, c, quoted, field) {
    if (line !~ /"/)
        return split(line, cell, ",")
    for (at = 1; at <= length(line); at++) {
        c = substr(line, at, 1)
        if (c == "\"" && quoted && substr(line, at + 1, 1) == "\"") {
            field = field c
            at++
        } else if (c == "\"")
            quoted = !quoted
        else if (c == "," && !quoted) {
            cell[++n] = field
            field = ""
        } else
            field = field c
    }
    cell[++n] = field
    return n
}
function read_header(    i, n, cell) {
    split("", column)
    n = split_csv($0, cell)
    for (i = 1; i <= n; i++) column[cell[i]] = i
}
function text(name) { return name in column ? cell[column[name]] : "" }
function number(name) { return text(name) == "" ? "NaN" : text(name) + 0 }
function known(x) { return x != "NaN" }
function ratio(x, y) { return known(x) && known(y) && y > 0 ? x / y : "NaN" }

# Lists are words in order: numbers by size, types from wide to narrow.
function rank(word,    at) {
    if (word ~ /^[0-9]+$/) return word + 0
    at = index(" f32 bf16 f16 fp8 int8 ", " " word " ")
    return at ? at : 99
}
function add(list, word,    i, n, item, out, done) {
    n = split(list, item, " ")
    for (i = 1; i <= n; i++) {
        if (item[i] == word) return list
        if (!done && rank(word) < rank(item[i])) {
            out = out " " word
            done = 1
        }
        out = out " " item[i]
    }
    return substr(done ? out : out " " word, 2)
}
function has(list, word) { return index(" " list " ", " " word " ") > 0 }
function first(list,    item) { split(list, item, " "); return item[1] }
function count(list,    item) { return split(list, item, " ") }
function short(n) { return n >= 1024 && n % 1024 == 0 ? n / 1024 "k" : n "" }

FNR == 1 {
    table = FILENAME ~ /\.roofs\.csv$/ ? "roofs" : FILENAME ~ /\.ops\.csv$/ ? "ops" : "points"
    read_header()
    next
}
{ split_csv($0, cell) }
table != "roofs" && text("model") != model { next }
table == "points" { read_point(++n_points) }
table == "ops" {
    time[text("key"), text("op")] += text("op_ns") / 1e6
    op_total[text("op")] += text("op_ns")
}
table == "roofs" {
    machine = text("title")
    roof[text("kind"), text("resource"), text("type")] = text("value") / 1e9
    types_with_roof = add(types_with_roof, text("type"))
    if (text("runs_as") != "") runs_as[text("type")] = text("runs_as")
}

function read_point(i,    k, tokens, name, short_name) {
    key[i] = text("key"); phase[i] = text("phase"); batch[i] = text("batch"); context[i] = text("context")
    kv[i] = text("type_k") (text("type_v") == text("type_k") ? "" : ":" text("type_v"))
    weights[i] = text("weights"); block[i] = text("block"); threads[i] = text("threads"); cache[i] = text("cache")
    verdict[i] = text("verdict")
    steps[i] = phase[i] == "decode" && text("n_gen") > 1 ? text("n_gen") : 1
    tokens = phase[i] == "decode" ? batch[i] : batch[i] * (text("n_prompt") + text("n_gen"))
    split("median_ns median_low_ns median_high_ns roof_ns bound_ns pred_ns", name, " ")
    split("ms low high roof bound pred", short_name, " ")
    for (k = 1; k <= 6; k++) value[i, short_name[k]] = ratio(number(name[k]), 1e6 * steps[i])
    value[i, "rate"] = ratio(1000 * tokens, value[i, "ms"])
    value[i, "rate_roof"] = ratio(1000 * tokens, value[i, "roof"])
    value[i, "rate_bound"] = ratio(1000 * tokens, value[i, "bound"])
    value[i, "kv_share"] = ratio(100 * number("kv_read_bytes"), number("weight_bytes") + number("kv_read_bytes") + number("kv_write_bytes"))
    value[i, "fraction"] = number("roof_fraction")
    value[i, "gflops"] = number("effective_GFLOPps")
    value[i, "intensity"] = number("intensity")
    n_measured += known(value[i, "ms"]); n_bound += known(value[i, "bound"]); n_pred += known(value[i, "pred"])
    if (known(value[i, "gflops"]) && known(value[i, "intensity"])) computes = add(computes, text("compute"))
    all_weights = add(all_weights, weights[i])
    if (++uses[block[i]] > uses[best_block]) best_block = block[i]
    if (threads[i] > best_threads + 0) best_threads = threads[i]
    if (text("test_time") > date) date = text("test_time")
    if (text("roof_source") != "") source = text("roof_source")
    if (machine == "") machine = text("hardware")
}

function choose_slice(    i) {
    for (i = 1; i <= n_points; i++) {
        in_slice[i] = cache[i] != "0" && weights[i] == first(all_weights) && block[i] == best_block && threads[i] == best_threads
        if (!in_slice[i]) continue
        batches[phase[i]] = add(batches[phase[i]], batch[i])
        contexts[phase[i]] = add(contexts[phase[i]], context[i])
        kvs[phase[i]] = add(kvs[phase[i]], kv[i])
    }
    for (i = 1; i <= n_points; i++) main[i] = in_slice[i] && kv[i] == first(kvs[phase[i]])
}

# Largest over smallest of what the decode pictures show: decides between linear and logarithmic axes.
function span(names,    i, k, n, name, x, least, most) {
    n = split(names, name, " ")
    for (i = 1; i <= n_points; i++)
        for (k = 1; phase[i] == "decode" && in_slice[i] && k <= n; k++) {
            x = value[i, name[k]]
            if (!known(x)) continue
            if (!least || x < least) least = x
            if (x > most) most = x
        }
    return least ? most / least : 1
}

function write_points(    out, i, k, n, name, line) {
    out = dir "/points.tsv"
    n = split("ms low high roof bound pred rate rate_roof rate_bound kv_share fraction gflops intensity", name, " ")
    line = "phase\tbatch\tcontext\tkv\tverdict\tmain\tin_slice"
    for (k = 1; k <= n; k++) line = line "\t" name[k]
    print line > out
    for (i = 1; i <= n_points; i++) {
        line = phase[i] "\t" batch[i] "\t" context[i] "\t" kv[i] "\t" verdict[i] "\t" main[i] + 0 "\t" in_slice[i] + 0
        for (k = 1; k <= n; k++) line = line "\t" value[i, name[k]]
        print line > out
    }
    close(out)
}

# A roof per kind of ceiling and arithmetic type that was used: a slope of `bandwidth` up to the flat `peak`.
function choose_roofs(    kind, type, k, t) {
    split("attainable datasheet hard", kind, " ")
    for (k = 1; k <= 3; k++)
        for (t = split(types_with_roof, type, " "); t >= 1; t--)
            if (has(computes, type[t]) && roof[kind[k], "bandwidth", ""] && roof[kind[k], "peak", type[t]]) {
                n_roofs++
                roof_kinds = roof_kinds " " kind[k]
                roof_types = roof_types " " type[t]
                roof_runs_as = roof_runs_as " " (type[t] in runs_as ? runs_as[type[t]] : type[t])
                roof_GBps = roof_GBps " " roof[kind[k], "bandwidth", ""]
                roof_GFLOPps = roof_GFLOPps " " roof[kind[k], "peak", type[t]]
            }
}

# The operations that take most time and the rest together; bars in order of batch and context.
function write_ops(    k, op, best, taken, header) {
    while (n_top < 7) {
        best = ""
        for (op in op_total)
            if (!(op in taken) && (best == "" || op_total[op] > op_total[best])) best = op
        if (best == "") break
        taken[best] = 1
        top[++n_top] = best
    }
    header = "bar\ttotal"
    for (k = 1; k <= n_top; k++) header = header "\t" (length(top[k]) > 30 ? substr(top[k], 1, 28) ".." : top[k])
    n_decode_bars = write_bars("decode", header "\tother")
    n_prefill_bars = write_bars("prefill", header "\tother")
}
# Of many bars, those of the smallest, the middle and the largest batch.
function write_bars(which, header,    out, b, c, i, n, m, list_b, list_c, n_bars) {
    out = dir "/ops_" which ".tsv"
    print header > out
    n = split(batches[which], list_b, " ")
    m = split(contexts[which], list_c, " ")
    for (b = 1; b <= n; b++)
        for (c = 1; c <= m; c++)
            for (i = 1; i <= n_points; i++)
                if (main[i] && phase[i] == which && batch[i] == list_b[b] && context[i] == list_c[c] &&
                    (n * m <= 16 || b == 1 || b == int((n + 1) / 2) || b == n)) n_bars += write_bar(out, i)
    close(out)
    return n_bars + 0
}
function write_bar(out, i,    op, k, rest, line) {
    for (op in op_total) if ((key[i], op) in time) rest += time[key[i], op]
    if (!rest) return 0
    line = batch[i] " x " short(context[i]) "\t" rest / steps[i]
    for (k = 1; k <= n_top; k++) {
        line = line "\t" time[key[i], top[k]] / steps[i]
        rest -= time[key[i], top[k]]
    }
    print line "\t" (rest > 0 ? rest / steps[i] : 0) > out
    return 1
}

function quote(s) { gsub(/[\\"'`]/, "", s); return "\"" s "\"" }
function write_facts(    out, name) {
    out = dir "/facts.gp"
    name = model
    sub(/\/+$/, "", name)
    sub(/.*\//, "", name)
    print "model = " quote(name) "; machine = " quote(machine) "; date = " quote(substr(date, 1, 10)) > out
    print "weights = " quote(first(all_weights)) "; kv = " quote(first(kvs["decode"])) "; roof_source = " quote(source) > out
    print "batches = " quote(batches["decode"]) "; contexts = " quote(contexts["decode"]) "; kvs = " quote(kvs["decode"]) > out
    print "n_roofs = " n_roofs + 0 "; roof_kinds = " quote(roof_kinds) "; roof_types = " quote(roof_types) "; roof_runs_as = " quote(roof_runs_as) > out
    print "roof_GBps = " quote(roof_GBps) "; roof_GFLOPps = " quote(roof_GFLOPps) > out
    print "prompts = " quote(contexts["prefill"]) > out
    print "n_measured = " n_measured + 0 "; n_bound = " n_bound + 0 "; n_pred = " n_pred + 0 > out
    print "time_span = " span("ms roof bound") "; rate_span = " span("rate rate_roof rate_bound") > out
    print "n_decode_bars = " n_decode_bars "; n_prefill_bars = " n_prefill_bars "; n_segments = " n_top + 1 > out
    close(out)
}

function picture(name, possible, reason) { print name, possible ? "" : reason > (dir "/pictures") }

END {
    choose_slice()
    write_points()
    choose_roofs()
    write_ops()
    write_facts()
    picture("roofline", n_measured && n_roofs, n_measured ? "no ceilings beside it" : "no measured points")
    picture("decode_batch", count(batches["decode"]) > 1, "fewer than two batch sizes in decode")
    picture("throughput_batch", count(batches["decode"]) > 1, "fewer than two batch sizes in decode")
    picture("decode_context", count(contexts["decode"]) > 1, "fewer than two context lengths in decode")
    picture("ops", n_decode_bars + n_prefill_bars, "no times by operation")
    picture("parity", n_measured, "no measured points")
    picture("kv_precision", count(kvs["decode"]) > 1, "fewer than two KV types in decode")
}
