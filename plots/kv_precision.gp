# Decode at one batch size, kv_batch: time of a step against context length, a line per KV type.
load 'plots/common.gp'
what = 'Decode step time by KV precision'
detail = 'batch ' . kv_batch
set xlabel 'context (positions attended, the new token included)'
set ylabel 'time of a decode step (ms)'
call 'plots/axis_list.gp' contexts
least = word(kv_range, 1) + 0
most = word(kv_range, 2) + 0
call 'plots/axis.gp' 'y'
n = words(kvs)
ramp(i, n) = kind(i)
x(i) = is('phase', 'decode') && column('in_slice') == 1 && is('batch', kv_batch) && is('kv', word(kvs, i)) ? column('context') : NaN
name(i) = 'KV ' . word(kvs, i)
n_hollow = noisy_kv_batch
y = 'ms'; y_low = 'low'; y_high = 'high'; y_roof = 'roof'; y_bound = 'bound'
load 'plots/lines.gp'
