# Decode at the largest batch: time of a step against context length, a line per KV type.
load 'plots/common.gp'
largest = word(batches, words(batches))
set title head('Decode step time by KV precision', 'weights ' . weights . ', batch ' . largest)
set xlabel 'context (positions attended, the new token included)'
set ylabel 'time of a decode step (ms)'
call 'plots/axis_list.gp' contexts
call 'plots/axis.gp' 'y' (time_span > LOG_FROM)
n = words(kvs)
ramp(i, n) = kind(i)
x(i) = is('phase', 'decode') && column('in_slice') == 1 && is('batch', largest) && is('kv', word(kvs, i)) ? column('context') : NaN
name(i) = 'KV ' . word(kvs, i)
y = 'ms'; y_roof = 'roof'; y_bound = 'bound'
load 'plots/lines.gp'
