#!/bin/bash
# The page of kvbench report from the outside, and in a browser where Chromium is installed: nothing on its console, no request,
# tables that sort and filter, values under the pointer and the arrow keys, two themes, no sideways scrolling on a phone.
# shellcheck source-path=SCRIPTDIR
source tests/cli/lib.sh

sample=tests/golden/sample/cpu.csv
run 0 'a report' "$KVBENCH" report "$sample" -o "$WORK/page.html"
out 'page.html'
[ "$(wc -c <"$WORK/page.html")" -lt 600000 ] || complain 'the page is large'
"$KVBENCH" report "$sample" -o - >"$WORK/again.html"
is 'is the same each time, and on standard output' "$(cksum <"$WORK/again.html")" "$(cksum <"$WORK/page.html")"
cp tests/golden/sample/cpu.* "$WORK"
run 0 'by the name of a sweep' "$KVBENCH" report "$WORK/cpu"
[ -s "$WORK/cpu.html" ] || complain 'it is not beside the result'
run 0 'two results' "$KVBENCH" report "$sample" "$WORK/cpu.csv" -o "$WORK/two.html"
is 'have a section each' "$(grep -c '<article id=' "$WORK/two.html")" 2

run 2 'nothing to report' "$KVBENCH" report
one_err
run 2 'a result that is not there' "$KVBENCH" report "$WORK/none"
err "none': no such result"
run 2 'a file that is no result' "$KVBENCH" report README.md
one_err
printf 'key,phase,batch\na,decode,many\n' >"$WORK/bad.csv"
run 2 'a table with a word where a number is due' "$KVBENCH" report "$WORK/bad.csv"
err "line 2: 'batch' is 'many'"
run 1 'a place that cannot be written' "$KVBENCH" report "$sample" -o /nonexistent/page.html
one_err

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if [ -z "$browser" ]; then
    skip 'the page in a browser' 'no Chromium here'
    finish
fi

# dom FILE WIDTH: the document after its scripts have run, in a frame of that width (a window cannot be as narrow as a phone).
# What the frame found comes to the outer page as a message.
dom() {
    cat >"$WORK/frame.html" <<END
<iframe src="file://$1" style="width:$2px;height:900px;border:0"></iframe><pre></pre>
<script>addEventListener('message', e => { document.querySelector('pre').textContent += e.data + '\n'; });</script>
END
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-background-networking --user-data-dir="$WORK/profile" \
        --window-size=1400,1000 --virtual-time-budget=8000 --enable-logging=stderr --v=0 --dump-dom "file://$WORK/frame.html" \
        >"$WORK/dom" 2>"$WORK/log"
    sed -n '/<pre>/,/<\/pre>/p' "$WORK/dom" | sed 's/<[^>]*>//g'
}

# The page with a visitor: it does what a reader would and says what it saw.
{
    sed 's#</body>##; s#</html>##' "$WORK/page.html"
    cat <<'END'
<script>
addEventListener('error', e => parent.postMessage('error ' + e.message, '*'));
const say = (what, value) => parent.postMessage(what + ' ' + value, '*');
const text = (row, k) => row.cells[k].textContent.trim();
addEventListener('load', () => setTimeout(() => {
  const table = document.querySelector('#A-points table'), heads = [...table.tHead.rows[0].cells].map(h => h.textContent);
  const ms = heads.indexOf('ms'), button = table.tHead.rows[0].cells[ms].querySelector('button');
  const column = () => [...table.tBodies[0].rows].filter(r => !r.hidden).map(r => Number(text(r, ms)));
  const ordered = (list, up) => list.every((v, i) => !i || (up ? list[i - 1] <= v : list[i - 1] >= v));
  button.click();
  say('ascending', ordered(column(), true));
  button.click();
  say('descending', ordered(column(), false));
  say('aria-sort', table.tHead.rows[0].cells[ms].getAttribute('aria-sort'));
  const filter = document.querySelector('#A-points input');
  filter.value = 'int8 4096';
  filter.dispatchEvent(new Event('input'));
  say('filtered', column().length);
  filter.value = '';
  filter.dispatchEvent(new Event('input'));
  const chart = document.querySelector('svg.chart[aria-label^="Decode step by batch"]'), mark = chart.querySelector('.p'), tip = document.getElementById('tip');
  chart.scrollIntoView({ behavior: 'instant' });
  setTimeout(() => {
    const b = mark.getBoundingClientRect();
    chart.dispatchEvent(new PointerEvent('pointermove', { clientX: b.left + 2, clientY: b.top + 2, bubbles: true }));
    say('pointer', !tip.hidden && tip.textContent.split('\n')[0]);
    chart.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
    say('arrow', tip.textContent.split('\n')[0]);
    chart.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
    say('escape', tip.hidden);
    const toggle = document.querySelector('.top button'), colour = () => getComputedStyle(document.body).backgroundColor, before = colour();
    toggle.click();
    say('theme', before !== colour());
    location.hash = '#A3';
    setTimeout(() => {
      say('opened', document.getElementById('A3').open);
      say('requests', performance.getEntriesByType('resource').length);
      say('sideways', Math.max(0, document.documentElement.scrollWidth - innerWidth));
      say('nameless', [...document.querySelectorAll('svg.chart, input, select, .scroll')].filter(e => !e.getAttribute('aria-label')).length);
    }, 100);
  }, 300);
}, 300));
</script></body></html>
END
} >"$WORK/visit.html"

for width in 1280 360; do
    found=$(dom "$WORK/visit.html" "$width")
    if ! grep -q '^nameless' <<<"$found"; then
        skip "the page at $width pixels" 'Chromium does not start here'
        continue
    fi
    what() { sed -n "s/^$1 //p" <<<"$found"; }
    is "no script fails at $width pixels" "$(what error)" ''
    is 'and nothing is on the console' "$(grep -c 'CONSOLE' "$WORK/log")" 0
    is 'a heading sorts' "$(what ascending) $(what descending) $(what aria-sort)" 'true true descending'
    is 'words filter' "$(what filtered)" 4
    is 'a point says its values' "$(what pointer)" 'decode, batch 1, context 64, KV bf16'
    is 'and the arrow key the next one' "$(what arrow)" 'decode, batch 2, context 64, KV bf16'
    is 'Escape hides them' "$(what escape)" true
    is 'the theme changes' "$(what theme)" true
    is 'a link opens a point' "$(what opened)" true
    is 'nothing is requested' "$(what requests)" 0
    is "nothing is wider than $width pixels" "$(what sideways)" 0
    is 'everything has a name' "$(what nameless)" 0
done
finish
