'use strict';
(function () {
  const root = document.documentElement, tip = document.getElementById('tip');

  // Theme: what the reader chose last, else what the system prefers.
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const remembered = { get() { try { return localStorage.getItem('kvbench-theme'); } catch { return null; } },
                       set(v) { try { localStorage.setItem('kvbench-theme', v); } catch { /* a file without storage */ } } };
  const toggle = document.createElement('button');
  const shown = () => root.dataset.theme || (dark.matches ? 'dark' : 'light');
  const name = () => { toggle.textContent = shown() === 'dark' ? 'Light' : 'Dark'; toggle.setAttribute('aria-label', toggle.textContent + ' colours'); };
  if (['light', 'dark'].includes(remembered.get())) root.dataset.theme = remembered.get();
  toggle.addEventListener('click', () => { root.dataset.theme = shown() === 'dark' ? 'light' : 'dark'; remembered.set(root.dataset.theme); name(); });
  dark.addEventListener('change', name);
  name();
  document.querySelector('.top').append(toggle);

  // Values: what a mark's <title> says, shown beside it for pointer, touch and keyboard.
  function text(mark) {
    const title = mark.querySelector('title');
    if (title) { mark.dataset.tip = title.textContent; title.remove(); }
    return mark.dataset.tip;
  }
  let current = null;
  function hide() {
    if (current) current.classList.remove('on');
    current = null;
    tip.hidden = true;
  }
  function show(mark) {
    if (mark === current) return;
    hide();
    current = mark;
    mark.classList.add('on');
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const at = mark.getBoundingClientRect(), box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, at.left + at.width / 2 - box.width / 2), innerWidth - box.width - 8);
    const above = at.top - box.height - 10;
    tip.style.left = left + 'px';
    tip.style.top = (above > 50 ? above : at.bottom + 10) + 'px';
  }
  function nearest(marks, x, y) {
    let best = null, least = 30;
    for (const m of marks) {
      const b = m.getBoundingClientRect();
      const dx = Math.max(b.left - x, 0, x - b.right), dy = Math.max(b.top - y, 0, y - b.bottom);
      const d = Math.hypot(dx, dy);
      if (d < least) { least = d; best = m; }
    }
    return best;
  }
  for (const chart of document.querySelectorAll('svg.chart')) {
    const marks = [...chart.querySelectorAll('.p, .s')].filter(text);
    if (!marks.length) continue;
    const point = e => { const m = nearest(marks, e.clientX, e.clientY); if (m) show(m); else hide(); };
    chart.addEventListener('pointermove', point);
    chart.addEventListener('pointerdown', point);
    chart.addEventListener('pointerleave', e => { if (e.pointerType === 'mouse') hide(); });
    chart.addEventListener('blur', hide);
    chart.addEventListener('keydown', e => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
      if (e.key === 'Escape') hide();
      if (!step) return;
      e.preventDefault();
      const at = marks.indexOf(current);
      show(marks[at < 0 ? (step > 0 ? 0 : marks.length - 1) : (at + step + marks.length) % marks.length]);
    });
  }
  addEventListener('scroll', hide, { passive: true });

  // Tables: headings sort; empty cells stay last.
  function value(row, k) {
    const t = row.cells[k].textContent.trim(), n = Number(t);
    return t === '' ? null : Number.isNaN(n) ? t : n;
  }
  function compare(a, b) {
    if (typeof a === 'number' && typeof b === 'number') return a - b;
    return String(a).localeCompare(String(b), 'en', { numeric: true });
  }
  function sort(table, k, heading) {
    const up = heading.getAttribute('aria-sort') !== 'ascending', body = table.tBodies[0];
    for (const h of table.tHead.rows[0].cells) h.removeAttribute('aria-sort');
    heading.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    const rows = [...body.rows].map(row => [value(row, k), row]);
    rows.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : up ? compare(a, b) : compare(b, a));
    body.append(...rows.map(([, row]) => row));
  }
  for (const table of document.querySelectorAll('table.sort'))
    [...table.tHead.rows[0].cells].forEach((heading, k) => {
      const button = document.createElement('button');
      button.textContent = heading.textContent;
      heading.replaceChildren(button);
      button.addEventListener('click', () => sort(table, k, heading));
    });

  // Filters: words that must all occur in a row, and one choice per column of few values.
  function choices(table, k) {
    const all = new Set([...table.tBodies[0].rows].map(r => r.cells[k].textContent.trim()));
    return all.size > 1 && all.size <= 8 ? [...all] : [];
  }
  for (const table of document.querySelectorAll('table.filter')) {
    const bar = document.createElement('div'), words = document.createElement('input'), count = document.createElement('span'), selects = [];
    bar.className = 'filters';
    words.type = 'search';
    words.placeholder = 'Filter: decode 4096 int8';
    words.setAttribute('aria-label', 'Rows that contain these words');
    count.className = 'dim';
    count.setAttribute('role', 'status');
    bar.append(words);
    const rows = [...table.tBodies[0].rows];
    const apply = () => {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      let n = 0;
      for (const row of rows) {
        const t = [...row.cells].map(c => c.textContent).join(' ').toLowerCase();
        row.hidden = !(wanted.every(w => t.includes(w)) && selects.every(([s, k]) => !s.value || row.cells[k].textContent.trim() === s.value));
        n += !row.hidden;
      }
      count.textContent = n === rows.length ? `${n} rows` : `${n} of ${rows.length} rows`;
    };
    [...table.tHead.rows[0].cells].forEach((heading, k) => {
      const title = heading.textContent, list = ['phase', 'KV', 'verdict', 'weights', 'model', 'threads'].includes(title) ? choices(table, k) : [];
      if (!list.length) return;
      const select = document.createElement('select');
      select.setAttribute('aria-label', title);
      select.append(new Option('any ' + title, ''), ...list.map(v => new Option(v, v)));
      select.addEventListener('change', apply);
      selects.push([select, k]);
      bar.append(select);
    });
    words.addEventListener('input', apply);
    bar.append(count);
    table.closest('.scroll').before(bar);
    apply();
  }

  // A link to a point opens it.
  function open() {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === 'DETAILS') target.open = true;
  }
  addEventListener('hashchange', open);
  open();
})();
