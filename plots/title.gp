# What is drawn (`what`), of which model; what holds for all of it (with `kv_shown`, where that is one type, and `detail`); where
# and when.
set label 1 what . ': ' . model at screen 0.03, 0.962 left font (format eq 'svg' ? ',15' : ',18')
set label 2 weights_text . ', KV ' . kv_shown . (kv_shown eq '' ? '' : ' ') . block_text . team_text . (detail eq '' ? '' : ', ' . detail) \
    at screen 0.03, 0.921 left font small tc rgb '#303030'
set label 3 machine . (date eq '' ? '' : ', ' . date) . (n_measured ? '' : ', nothing measured') \
    . (n_failed ? sprintf(', %d point%s failed and not drawn', n_failed, n_failed == 1 ? '' : 's') : '') \
    at screen 0.03, 0.889 left font small tc rgb '#303030'
