# usage: awk -f plots/tidy.awk -v model=M -v dir=DIR [-v slice=I] NAME.csv [NAME.ops.csv] [NAME.roofs.csv]
# Turns one model's rows of a sweep into what the gnuplot scripts read, and decides which pictures the data can carry:
#   slices       a line per slice, that is per hardware, weight type, arithmetic type, ranks, threads and block size: what its
#                pictures are called, "" for the first, which has the most threads, then the most points, then the widest weights
#   points.tsv   a row per point: times in ms per step, unknown values NaN. in_slice = 1 in slice I (default 1); main = 1 where the
#                KV type is the one shown by pictures with one type, too
#   bars.tsv, segments.tsv   a row per bar of the picture of operations, and per segment of one
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
function place(list, word,    i, n, item) {
    n = split(list, item, " ")
    for (i = 1; i <= n && item[i] != word; i++);
    return i
}
function first(list,    item) { split(list, item, " "); return item[1] }
function last(list,    n, item) { n = split(list, item, " "); return item[n] }
function count(list,    item) { return split(list, item, " ") }
function plural(n, what) { return n " " what (n == 1 ? "" : "s") }

FNR == 1 {
    table = FILENAME ~ /\.roofs\.csv$/ ? "roofs" : FILENAME ~ /\.ops\.csv$/ ? "ops" : "points"
    read_header()
    next
}
{ split_csv($0, cell) }
table != "roofs" && text("model") != model { next }
# Kernels and sums of arithmetic, which imports may have, are in no picture.
table == "points" && text("phase") ~ /^(decode|prefill|generate)$/ { read_point(++n_points) }
table == "ops" { time[text("key"), family(text("op"))] += text("op_ns") / 1e6 }
table == "roofs" {
    title[text("hardware")] = text("title")
    roof[text("hardware"), text("kind"), text("resource"), text("type")] = text("value") / 1e9
    types_with_roof = add(types_with_roof, text("type"))
    if (text("resource") !~ /^(bandwidth|peak)$/) caches[text("hardware")] = caches[text("hardware")] " " text("resource")
    if (text("runs_as") != "") runs_as[text("type")] = text("runs_as")
}

function read_point(i,    k, tokens, name, short_name, value_ns) {
    key[i] = text("key"); phase[i] = text("phase"); batch[i] = text("batch"); cache[i] = text("cache")
    context[i] = phase[i] == "decode" ? text("context") : text("n_prompt")
    kv[i] = text("type_k") (text("type_v") == text("type_k") ? "" : ":" text("type_v"))
    verdict[i] = text("verdict")
    noisy[i] = verdict[i] !~ /^(ok|predicted|failed|reported)$/
    steps[i] = phase[i] == "decode" && text("n_gen") > 1 ? text("n_gen") : 1
    tokens = phase[i] == "decode" ? batch[i] : batch[i] * (text("n_prompt") + text("n_gen"))
    split("median_ns median_low_ns median_high_ns roof_ns roof_low_ns roof_high_ns bound_ns pred_ns", name, " ")
    split("ms low high roof roof_low roof_high bound pred", short_name, " ")
    for (k = 1; k <= 8; k++) value[i, short_name[k]] = ratio(number(name[k]), 1e6 * steps[i])
    split("ms high low roof bound", short_name, " ")
    split("rate rate_low rate_high rate_roof rate_bound", name, " ")
    for (k = 1; k <= 5; k++) value[i, name[k]] = ratio(1000 * tokens, value[i, short_name[k]])
    split("gflops gflops_low gflops_high gflops_roof", name, " ")
    for (k = 1; k <= 4; k++) value[i, name[k]] = ratio(number("flops") / 1e6, steps[i] * value[i, short_name[k]])
    value[i, "kv_share"] = ratio(100 * number("kv_read_bytes"), number("weight_bytes") + number("kv_read_bytes") + number("kv_write_bytes"))
    value[i, "fraction"] = number("roof_fraction")
    value[i, "intensity"] = number("intensity")
    set_slice(i)
    if (text("test_time") > date[slice_of[i]]) date[slice_of[i]] = text("test_time")
    if (text("roof_source") != "") source[slice_of[i]] = text("roof_source")
}

# Slices: points that one picture can show together.
function set_slice(i,    id, k, n, name) {
    n = split("hardware weights compute tp threads block backend", name, " ")
    for (k = 1; k <= n; k++) id = id SUBSEP text(name[k])
    if (!(id in slice_with)) {
        slice_with[id] = ++n_slices
        for (k = 1; k <= n; k++) part[n_slices, name[k]] = text(name[k])
    }
    slice_of[i] = slice_with[id]
    uses[slice_of[i]]++
}
function before(s, t) {
    if (part[s, "threads"] + 0 != part[t, "threads"] + 0) return part[s, "threads"] + 0 > part[t, "threads"] + 0
    if (uses[s] != uses[t]) return uses[s] > uses[t]
    return rank(part[s, "weights"]) < rank(part[t, "weights"])
}
function order_slices(    i, j, s) {
    for (i = 1; i <= n_slices; i++) {
        for (j = i; j > 1 && before(i, order[j - 1]); j--) order[j] = order[j - 1]
        order[j] = i
    }
}
function varies(what,    s) {
    for (s = 2; s <= n_slices; s++) if (part[s, what] != part[1, what]) return 1
    return 0
}
function computes_vary(s,    t) { # among slices of the same weights
    for (t = 1; t <= n_slices; t++)
        if (part[s, "weights"] == part[t, "weights"] && part[s, "compute"] != part[t, "compute"]) return 1
    return 0
}
# The parts of a slice's name that tell it from others; this machine's hardware is named after its threads.
function slice_name(s,    name) {
    if (varies("hardware") && part[s, "hardware"] !~ /^cpu-[0-9]+t$/) name = name "-" part[s, "hardware"]
    if (varies("backend")) name = name "-" part[s, "backend"]
    if (varies("weights")) name = name "-" part[s, "weights"]
    if (computes_vary(s)) name = name "-as-" part[s, "compute"]
    if (varies("tp")) name = name "-tp" part[s, "tp"]
    if (varies("threads")) name = name "-t" part[s, "threads"]
    if (varies("block")) name = name "-blk" part[s, "block"]
    gsub(/[^A-Za-z0-9._-]/, "_", name)
    return name
}
function write_slices(    i, out) {
    out = dir "/slices"
    print "" > out
    for (i = 2; i <= n_slices; i++) print slice_name(order[i]) > out
    close(out)
}

function choose_slice(    i) {
    shown = order[slice ? slice : 1]
    for (i = 1; i <= n_points; i++) {
        in_slice[i] = cache[i] != "0" && slice_of[i] == shown
        if (slice_of[i] != shown) continue
        if (!known(value[i, "ms"]) && verdict[i] != "predicted") n_failed++
        if (!known(value[i, "ms"]) && !known(value[i, "roof"])) continue
        n_measured += known(value[i, "ms"]); n_roof += known(value[i, "roof"]); n_bound += known(value[i, "bound"]); n_pred += known(value[i, "pred"])
        n_noisy += noisy[i]; n_intervals += known(value[i, "low"])
        batches["all"] = add(batches["all"], batch[i])
        lengths = add(lengths, context[i])
        if (!in_slice[i]) continue
        batches[phase[i]] = add(batches[phase[i]], batch[i])
        contexts[phase[i]] = add(contexts[phase[i]], context[i])
        kvs[phase[i]] = add(kvs[phase[i]], kv[i])
    }
    for (i = 1; i <= n_points; i++) {
        main[i] = in_slice[i] && kv[i] == first(kvs[phase[i]])
        if (in_slice[i] && seen[phase[i], batch[i], context[i], kv[i]]++) main[i] = in_slice[i] = 0 # other numbers of steps, other depths
        noisy_main += phase[i] == "decode" && main[i] && noisy[i]
    }
}

# The picture of KV types shows the batch with most points of them; the largest of several.
function choose_kv_batch(    i, b, n, item, points) {
    for (i = 1; i <= n_points; i++)
        if (phase[i] == "decode" && in_slice[i] && known(value[i, n_measured ? "ms" : "roof"])) points[batch[i]]++
    n = split(batches["decode"], item, " ")
    for (b = 1; b <= n; b++) if (points[item[b]] >= points[kv_batch] + 0) kv_batch = item[b]
    for (i = 1; i <= n_points; i++) {
        of_kv_batch[i] = in_slice[i] && phase[i] == "decode" && batch[i] == kv_batch
        noisy_kv_batch += of_kv_batch[i] && noisy[i]
    }
}

# Kinds of points, a shape each: phases, and KV types within a phase.
function kind_of(i) { return phase[i] (cache[i] == "0" ? " without KV cache" : phase[i] == "decode" || count(kvs[phase[i]]) > 1 ? ", KV " kv[i] : "") }
function choose_kinds(    i, p, t, n, m, name, type, what) {
    n = split("decode prefill generate", name, " ")
    for (p = 1; p <= n; p++) {
        m = split(kvs[name[p]], type, " ")
        for (t = 1; t <= m; t++) {
            what = name[p] (name[p] == "decode" || m > 1 ? ", KV " type[t] : "")
            kind[n_kinds + 1] = what
            kind_at[what] = ++n_kinds
        }
    }
    for (i = 1; i <= n_points; i++)
        if (slice_of[i] == shown && cache[i] == "0" && !(kind_of(i) in kind_at)) {
            kind[n_kinds + 1] = kind_of(i)
            kind_at[kind_of(i)] = ++n_kinds
        }
}

# Of more than six series, every second one and the last: more lines than that hide each other.
function few(list,    i, n, item, out) {
    n = split(list, item, " ")
    for (i = 1; i <= n; i++) if (n <= 6 || i % 2 || i == n) out = add(out, item[i])
    return out
}
# The range of what a decode picture shows, as two words.
function range(names, shows,    i, k, n, name, x, least, most) {
    n = split(names, name, " ")
    for (i = 1; i <= n_points; i++)
        for (k = 1; phase[i] == "decode" && shows[i] && k <= n; k++) {
            x = value[i, name[k]]
            if (!known(x)) continue
            if (!least || x < least) least = x
            if (x > most) most = x
        }
    return (least ? least : 1) " " (most ? most : 1)
}

function write_points(    out, i, k, n, name, line, least, most) {
    out = dir "/points.tsv"
    least = log(first(lengths) + 1); most = log(last(lengths) + 1)
    sizes_differ = last(lengths) > 1.5 * first(lengths)
    n = split("ms low high roof roof_low roof_high bound pred rate rate_low rate_high rate_roof rate_bound kv_share fraction" \
        " gflops gflops_low gflops_high gflops_roof intensity", name, " ")
    line = "phase\tbatch\tcontext\tkv\tverdict\tmain\tin_slice\tkind\tbatch_rank\tnoisy\tsize"
    for (k = 1; k <= n; k++) line = line "\t" name[k]
    print line > out
    for (i = 1; i <= n_points; i++) {
        line = phase[i] "\t" batch[i] "\t" context[i] "\t" kv[i] "\t" verdict[i] "\t" main[i] + 0 "\t" in_slice[i] + 0
        line = line "\t" (slice_of[i] == shown ? kind_at[kind_of(i)] + 0 : 0) "\t" place(batches["all"], batch[i]) "\t" noisy[i] + 0
        line = line "\t" (sizes_differ ? (log(context[i] + 1) - least) / (most - least) : 0.5)
        for (k = 1; k <= n; k++) line = line "\t" value[i, name[k]]
        print line > out
    }
    close(out)
}

# A roof per kind of ceiling: a slope of `bandwidth` up to the flat `peak` of the slice's arithmetic.
function choose_roofs(    hw, kind, type, k, v, n, name) {
    split("attainable datasheet hard", kind, " ")
    hw = part[shown, "hardware"]
    type = part[shown, "compute"]
    for (k = 1; k <= 3; k++) {
        if (!roof[hw, kind[k], "bandwidth", ""] || !roof[hw, kind[k], "peak", type]) continue
        n_roofs++
        roof_kinds = roof_kinds " " kind[k]
        roof_types = roof_types " " type
        roof_runs_as = roof_runs_as " " (type in runs_as ? runs_as[type] : type)
        roof_GBps = roof_GBps " " roof[hw, kind[k], "bandwidth", ""]
        roof_GFLOPps = roof_GFLOPps " " roof[hw, kind[k], "peak", type]
    }
    n = split(caches[hw], name, " ")
    for (k = 1; k <= n; k++) cache_GBps = cache_GBps " " roof[hw, "attainable", name[k], ""]
    cache_names = caches[hw]
}

# Operations in families, whose order and colours are the same in every picture. A span of several belongs to the first family
# that one of them is of.
function family(op) {
    op = "+" op "+"
    if (op ~ /\+attn\+/) return 1
    if (op ~ /\+attn_(q|k|v|qkv)\+/) return 2
    if (op ~ /\+attn_o\+/) return 3
    if (op ~ /\+ffn_(gate|up|gate_up)\+/) return 4
    if (op ~ /\+ffn_down\+/) return 5
    if (op ~ /\+output\+/) return 6
    if (op ~ /\+(rope|kv_write)\+/) return 7
    if (op ~ /norm\+/) return 8
    return 9
}

# Bars in order of phase, batch and context; of many, those of the smallest, the middle and the largest batch.
function write_ops(    p, b, c, i, n, m, name, list_b, list_c, before_phase) {
    print "x\tfamily\tlow\thigh" > (dir "/segments.tsv")
    print "x\tbatch\tlength\tmiddle\tlow\thigh\ttop\tlabel\tnoisy" > (dir "/bars.tsv")
    split("decode prefill generate", name, " ")
    for (p = 1; p <= 3; p++) {
        n = split(batches[name[p]], list_b, " ")
        m = split(contexts[name[p]], list_c, " ")
        before_phase = n_bars
        for (b = 1; b <= n; b++)
            for (c = 1; c <= m; c++)
                for (i = 1; i <= n_points; i++)
                    if (main[i] && phase[i] == name[p] && batch[i] == list_b[b] && context[i] == list_c[c] &&
                        (n * m <= 16 || b == 1 || b == int((n + 1) / 2) || b == n)) write_bar(i)
        if (n_bars > before_phase) {
            bar_phases = bar_phases " " name[p]
            bar_begins = bar_begins " " bar_x - (n_bars - before_phase) + 1
            bar_ends = bar_ends " " bar_x
            bar_x++ # a gap
        }
    }
    close(dir "/segments.tsv")
    close(dir "/bars.tsv")
}
# A bar is in percent of the untraced median, or of itself where there is none.
function write_bar(i,    f, total, whole, low) {
    for (f = 1; f <= 9; f++) total += time[key[i], f]
    if (!total) return
    n_bars++
    bar_x = n_bars == 1 ? 1 : bar_x + 1
    whole = known(value[i, "ms"]) ? value[i, "ms"] * steps[i] : total
    for (f = 1; f <= 9; f++) {
        if (!time[key[i], f]) continue
        families = add(families, f)
        print bar_x "\t" f "\t" low + 0 "\t" low + 100 * time[key[i], f] / whole > (dir "/segments.tsv")
        low += 100 * time[key[i], f] / whole
    }
    if (low > bar_top) bar_top = low
    print bar_x "\t" batch[i] "\t" context[i] "\t" (known(value[i, "ms"]) ? 100 : "NaN") "\t" percent(i, "low") "\t" percent(i, "high") "\t" low "\t" \
        (known(value[i, "ms"]) ? value[i, "ms"] : total / steps[i]) "\t" noisy[i] + 0 > (dir "/bars.tsv")
    whole = known(value[i, "high"]) ? percent(i, "high") : 0
    if (whole > 200) whole = 200 # an interval beyond is cut off
    if (whole > bar_top) bar_top = whole
}
function percent(i, what) { return known(value[i, what]) ? 100 * value[i, what] / value[i, "ms"] : "NaN" }

function quote(s) { gsub(/[\\"'`;]/, "", s); return "\"" s "\"" }
# What holds for all points of the slice, in words.
function weights_text(    type) {
    type = part[shown, "compute"]
    return "weights " part[shown, "weights"] (type == part[shown, "weights"] || type == "" ? "" : " computed in " type)
}
function block_text() {
    return part[shown, "block"] == "" ? "" : part[shown, "block"] == 0 ? "contiguous" : "in blocks of " part[shown, "block"]
}
function team_text() {
    return (part[shown, "tp"] > 1 ? ", " part[shown, "tp"] " tensor-parallel ranks" : "") \
        (part[shown, "threads"] > 0 && machine_name() !~ /thread/ ? ", " plural(part[shown, "threads"], "thread") : "")
}
function machine_name(    hw) {
    hw = part[shown, "hardware"]
    if (hw == "") return "run by the " part[shown, "backend"] " backend"
    hw = hw in title && title[hw] != "" ? title[hw] : hw
    return part[shown, "backend"] ~ /^(cpu|null)$/ && part[shown, "hardware"] !~ /^cpu-/ ? "run by the " part[shown, "backend"] " backend, roof of " hw : hw
}
function write_facts(    out, name, k) {
    out = dir "/facts.gp"
    name = model
    sub(/\/+$/, "", name)
    sub(/.*\//, "", name)
    print "model = " quote(name) "; machine = " quote(machine_name()) "; date = " quote(substr(date[shown], 1, 10)) > out
    print "weights = " quote(part[shown, "weights"]) "; kv = " quote(first(kvs["decode"])) "; roof_source = " quote(source[shown]) > out
    print "weights_text = " quote(weights_text()) "; block_text = " quote(block_text()) "; team_text = " quote(team_text()) > out
    print "batches = " quote(batches["decode"]) "; contexts = " quote(contexts["decode"]) "; kvs = " quote(kvs["decode"]) > out
    print "batch_lines = " quote(few(batches["decode"])) "; context_lines = " quote(few(contexts["decode"])) > out
    print "all_batches = " quote(batches["all"]) "; sizes = " quote(sizes_differ ? first(lengths) " " last(lengths) : "") "; prompts = " quote(contexts["prefill"]) > out
    print "n_roofs = " n_roofs + 0 "; roof_kinds = " quote(roof_kinds) "; roof_types = " quote(roof_types) "; roof_runs_as = " quote(roof_runs_as) > out
    print "cache_names = " quote(cache_names) "; cache_GBps = " quote(cache_GBps) > out
    print "roof_GBps = " quote(roof_GBps) "; roof_GFLOPps = " quote(roof_GFLOPps) > out
    print "n_measured = " n_measured + 0 "; n_roof = " n_roof + 0 "; n_bound = " n_bound + 0 "; n_pred = " n_pred + 0 > out
    print "n_intervals = " n_intervals + 0 "; n_noisy = " n_noisy + 0 "; noisy_main = " noisy_main + 0 "; noisy_kv_batch = " noisy_kv_batch + 0 "; kv_batch = " quote(kv_batch) "; n_failed = " n_failed + 0 > out
    print "time_range = " quote(range("ms low high roof bound", main)) "; rate_range = " quote(range("rate rate_low rate_high rate_roof rate_bound", main)) > out
    print "kv_range = " quote(range("ms low high roof bound", of_kv_batch)) > out
    print "bar_phases = " quote(bar_phases) "; bar_begins = " quote(bar_begins) "; bar_ends = " quote(bar_ends) > out
    print "bar_top = " bar_top + 0 "; families = " quote(families) > out
    printf "n_kinds = %d\narray KIND[%d]\n", n_kinds, n_kinds + 1 > out
    for (k = 1; k <= n_kinds; k++) print "KIND[" k "] = " quote(kind[k]) > out
    close(out)
}

function picture(name, possible, reason) { print name, possible ? "" : reason > (dir "/pictures") }

END {
    order_slices()
    write_slices()
    choose_slice()
    choose_kinds()
    choose_kv_batch()
    write_points()
    choose_roofs()
    write_ops()
    write_facts()
    picture("roofline", lengths != "" && n_roofs, lengths != "" ? "no ceilings of " (part[shown, "hardware"] == "" ? "its hardware" : part[shown, "hardware"]) " beside it" : "no points")
    picture("decode_batch", count(batches["decode"]) > 1, "fewer than two batch sizes in decode")
    picture("throughput_batch", count(batches["decode"]) > 1, "fewer than two batch sizes in decode")
    picture("decode_context", count(contexts["decode"]) > 1, "fewer than two context lengths in decode")
    picture("ops", n_bars, "no times by operation")
    picture("parity", n_measured && n_roof + n_pred, n_measured ? "neither roof nor prediction" : "no measured points")
    picture("kv_precision", count(kvs["decode"]) > 1 && count(contexts["decode"]) > 1,
        count(kvs["decode"]) > 1 ? "fewer than two context lengths in decode" : "fewer than two KV types in decode")
}
