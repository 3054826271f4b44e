#!/bin/bash
# The pictures from the outside, of results made up here: one thread count, block size and weight type in each, noisy points
# told from others, no line or legend for what is not known.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

# rows THREADS VERDICT   A row per batch, context and KV type; times only where they were measured.
rows() {
    awk -v threads="$1" -v verdict="$2" 'BEGIN {
        for (b = 1; b <= 4; b *= 4) for (c = 64; c <= 1024; c *= 16) for (k = 1; k <= 2; k++) {
            kv = k == 1 ? "bf16" : "int8"
            ms = 10 + b * c / 100 / k / threads
            times = verdict == "predicted" ? ",," : sprintf("%ge6,%ge6,%ge6", ms, 0.9 * ms, 1.2 * ms)
            printf "decode/b%d/c%d/%s/t%d,m,decode,cpu,cpu-%dt,%d,%d,0,1,1,bf16,bf16,%s,%s,16,%d,%s,%s,%ge6,attainable,%g,%g\n", \
                b, c, kv, threads, threads, b, c, kv, kv, threads, b == 4 ? verdict : verdict == "noisy" ? "ok" : verdict, times, ms / 2, 1e9 * b, b
        }
    }'
}
header=key,model,phase,backend,hardware,batch,context,n_prompt,n_gen,cache,weights,compute,type_k,type_v,block,threads,verdict
header=$header,median_ns,median_low_ns,median_high_ns,roof_ns,roof_source,flops,intensity
roofs=hardware,title,kind,resource,type,runs_as,value,method,date
roof() { # THREADS
    printf '%s,"A machine, %s threads",attainable,%s,measured,\n' "cpu-$1t" "$1" bandwidth,,,2e10 "cpu-$1t" "$1" peak,bf16,,1e12
}
drawn() { find "$WORK/$1/plots" -name "$2" -size +2k 2>/dev/null | wc -l; }
says() { grep -q -- "$3" "$WORK/$1/plots/$2.svg" && echo yes || echo no; }

mkdir "$WORK/two" "$WORK/predicted"
{ echo "$header"; rows 1 ok; rows 2 noisy; } >"$WORK/two/s.csv"
{ echo "$roofs"; roof 2; } >"$WORK/two/s.roofs.csv"
run 0 'pictures of a sweep over threads' tools/plots.sh "$WORK/two"
out 'skipped s-t1-roofline: no ceilings of cpu-1t'
is 'six of most threads, five of one' "$(drawn two 's-*.svg')" 11
is 'which are called so' "$(drawn two 's-t1-*.svg')" 5
is 'the roofline names its slope' "$(says two s-roofline 'attained 20 GB/s')" yes
is 'and its flat' "$(says two s-roofline 'attained bf16 1 TFLOP/s')" yes
is 'and tells KV types apart' "$(says two s-roofline 'decode, KV int8')" yes
is 'noisy points are marked' "$(says two s-decode_context 'hollow: verdict not ok')" yes
is 'only where there are some' "$(says two s-t1-decode_context 'hollow: verdict not ok')" no
is 'contexts have all their digits' "$(says two s-decode_context '>1024<')" yes
is 'an unknown bound is not in the legend' "$(says two s-decode_context 'bound')" no
is 'without a fit parity is with the roof' "$(says two s-parity 'Measured time against roof')" yes

{ echo "$header"; rows 2 predicted; } >"$WORK/predicted/s.csv"
cp "$WORK/two/s.roofs.csv" "$WORK/predicted"
run 0 'pictures of a prediction' tools/plots.sh "$WORK/predicted"
out 'skipped s-parity: no measured points'
is 'say so' "$(says predicted s-roofline 'nothing measured')" yes
is 'and name no measured line' "$(says predicted s-decode_batch 'measured, 95')" no

mkdir "$WORK/survey"
survey=quantity,what,how,threads,bits,page_KiB,set_bytes,value,unit,n,median,spread,date,note
for set in 65536 131072 262144 524288; do
    for what in read copy triad memcpy; do
        for t in 1 2; do
            for page in 4 2048; do
                echo "memory,$what,,$t,,$page,$set,$((set > 200000 ? 50 : 400))e9,B/s,6,40e9,0.1,2026-01-02,"
            done
        done
    done
done >"$WORK/survey/rows"
{
    echo "$survey"
    cat "$WORK/survey/rows"
    echo 'ceiling,memory,measured,2,,,,5e10,B/s,7,4e10,0.1,2026-01-02,'
    echo 'ceiling,L2,measured,2,,,131072,4e11,B/s,7,4e11,0.1,2026-01-02,'
    echo 'ceiling,bf16,measured,2,,,,1e12,FLOP/s,7,9e11,0.1,2026-01-02,'
} >"$WORK/survey/ceilings.survey.csv"
printf '{\n\t"title":\t"A machine, 2 threads",\n}\n' >"$WORK/survey/ceilings.json"
run 0 'the picture of a survey' tools/plots.sh "$WORK/survey"
is 'is drawn' "$(drawn survey 'ceilings-hierarchy.*')" 2
is 'with its machine' "$(says survey ceilings-hierarchy 'Memory hierarchy: A machine, 2 threads')" yes
is 'and a roof for each level' "$(says survey ceilings-hierarchy 'L2 400 GB/s')" yes
is 'which holds so much' "$(says survey ceilings-hierarchy 'L2: 128 KiB')" yes
finish
