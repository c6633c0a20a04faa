// Small charts in SVG. The legend tells the values beneath the pointer or, with the arrow keys, at the cursor;
// without either it tells the latest.

import { h, svg, say } from "./dom.js";

const HEIGHT = 200;
const TOP = 10;
const BOTTOM = 26;
const RIGHT = 14;
const CHARACTER = 6.6;

// About `count` round steps from `low` to `high`.
function steps(low, high, count, bases = [1, 2, 2.5, 5, 10]) {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / count));
  const step = bases.map((base) => base * power).find((size) => span / size <= count) ?? 10 * power;
  const ticks = [];
  for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + step * 1e-9; tick += step) ticks.push(tick);
  return ticks;
}

function powers(low, high) {
  const ticks = [];
  for (let tick = 1; tick <= high * 1.0001; tick *= 2) if (tick >= low) ticks.push(tick);
  return ticks;
}

// A series: { key, name, points: [[x, y], …], step, area, dots, line: false }.
// options: { label, left: room for the names of the scale, so that charts beneath each other line up, x: { format, log, integer, min, max }, y: { format, integer }, latest: "now" }
export function chart(options) {
  const legend = h("div", { class: "legend" });
  const where = h("span", { class: "where" });
  legend.append(where);
  const drawing = svg("svg", { class: "chart", role: "img", tabindex: "0", "aria-label": options.label });
  const element = h("figure", { class: "figure" }, h("figcaption", null, h("span", { class: "title" }, options.label), legend), drawing);
  let series = [];
  let marks = [];
  let scale = null;
  let cursor = null;
  const entries = new Map();

  function entry(one) {
    let found = entries.get(one.key);
    if (!found) {
      const value = h("b", null);
      found = { value, element: h("span", { class: `key ${one.key}` }, h("i", { "aria-hidden": "true" }), h("span", null, one.name), value) };
      entries.set(one.key, found);
      legend.insertBefore(found.element, where);
    }
    return found;
  }

  const places = () => {
    const told = series.filter((one) => one.told !== false);
    return [...new Set(told.flatMap((one) => one.points.map(([x]) => x)))].sort((a, b) => a - b);
  };

  function tell() {
    const xs = places();
    const x = cursor === null ? xs[xs.length - 1] : xs[Math.min(cursor, xs.length - 1)];
    for (const one of series) {
      const { value } = entry(one);
      const exact = one.points.filter(([at]) => at === x);
      const near = exact.length ? exact[0] : null;
      say(value, near && one.told !== false && !(cursor === null && options.quiet) ? options.y.format(near[1]) : "");
    }
    for (const [key, found] of entries) found.element.hidden = !series.some((one) => one.key === key);
    say(where, x === undefined || (cursor === null && options.quiet) ? "" : options.x.format(x));
    const line = drawing.querySelector(".cursor");
    if (line && scale) {
      line.setAttribute("visibility", cursor === null || x === undefined ? "hidden" : "visible");
      if (x !== undefined) {
        line.setAttribute("x1", scale.x(x));
        line.setAttribute("x2", scale.x(x));
      }
    }
  }

  function path(one) {
    const at = ([x, y]) => `${scale.x(x).toFixed(1)},${scale.y(y).toFixed(1)}`;
    let d = "";
    one.points.forEach((point, i) => {
      if (i === 0) d = `M${at(point)}`;
      else if (one.step) d += `H${scale.x(point[0]).toFixed(1)}V${scale.y(point[1]).toFixed(1)}`;
      else d += `L${at(point)}`;
    });
    return d;
  }

  function draw() {
    const width = drawing.clientWidth || 600;
    drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    drawing.replaceChildren();
    const points = series.flatMap((one) => one.points).concat(marks.map((mark) => [mark.x, mark.y]));
    if (points.length === 0) {
      scale = null;
      drawing.append(svg("text", { class: "none", x: width / 2, y: HEIGHT / 2 }, options.none ?? "Nothing measured yet"));
      tell();
      return;
    }
    const xs = points.map(([x]) => x);
    let low = options.x.min ?? Math.min(...xs);
    let high = options.x.max ?? Math.max(...xs);
    if (high <= low) { low -= options.x.log ? low / 2 : 0.5; high += options.x.log ? high : 0.5; }
    const most = Math.max(...points.map(([, y]) => y), options.y.integer ? 1 : 0) * (marks.length ? 1.2 : 1.08) || 1;
    let rows = steps(0, most, 4);
    if (options.y.integer) rows = [...new Set(rows.map(Math.round))];
    const names = rows.map(options.y.format);
    const left = Math.ceil(Math.max(...names.map((name) => name.length * CHARACTER), options.left ?? 0)) + 12;
    const place = options.x.log ? Math.log2 : (x) => x;
    scale = {
      x: (x) => left + ((place(x) - place(low)) / (place(high) - place(low))) * (width - left - RIGHT),
      y: (y) => HEIGHT - BOTTOM - (y / most) * (HEIGHT - TOP - BOTTOM),
    };
    rows.forEach((row, i) => {
      const y = scale.y(row);
      drawing.append(svg("line", { class: i === 0 ? "axis" : "grid", x1: left, x2: width - RIGHT, y1: y, y2: y }));
      drawing.append(svg("text", { class: "tick y", x: left - 8, y: y + 4 }, names[i]));
    });
    const columns = options.x.log ? powers(low, high) : steps(low, high, Math.max(2, Math.floor(width / 110)), options.x.bases);
    let free = -Infinity;
    let before = null;
    for (const column of columns) {
      const x = scale.x(column);
      const name = options.x.tick ? options.x.tick(column, high - low) : options.x.format(column);
      const half = (name.length * CHARACTER) / 2;
      if (x - half < free || x + half > width || name === before) continue;
      before = name;
      free = x + half + 8;
      drawing.append(svg("text", { class: "tick x", x, y: HEIGHT - 6 }, name));
    }
    for (const one of series) {
      if (one.points.length === 0) continue;
      const line = path(one);
      if (one.area && one.points.length > 1) {
        const base = scale.y(0).toFixed(1);
        const last = scale.x(one.points[one.points.length - 1][0]).toFixed(1);
        const first = scale.x(one.points[0][0]).toFixed(1);
        drawing.append(svg("path", { class: `area ${one.key}`, d: `${line}L${last},${base}L${first},${base}Z` }));
      }
      if (one.line !== false) drawing.append(svg("path", { class: `line ${one.key}`, d: line }));
      if (one.dots || one.points.length === 1) {
        for (const [x, y] of one.points) {
          drawing.append(svg("circle", { class: `dot ${one.key}`, cx: scale.x(x), cy: scale.y(y), r: 3.5 }));
        }
      }
    }
    for (const mark of marks) {
      const x = scale.x(mark.x);
      const y = scale.y(mark.y);
      drawing.append(svg("line", { class: "mark", x1: x, x2: x, y1: y, y2: HEIGHT - BOTTOM }));
      drawing.append(svg("circle", { class: "mark", cx: x, cy: y, r: 6 }));
      // Beside the mark where there is room, and never over the scale.
      const long = mark.label.length * CHARACTER * 1.1;
      const end = x + long + 14 > width && x - long - 10 > left;
      const from = end ? x - 10 : Math.max(left + 4, Math.min(x + 10, width - long - 4));
      drawing.append(svg("text", { class: `mark${end ? " end" : ""}`, x: from, y: y < TOP + 22 ? y + 20 : y - 10 }, mark.label));
    }
    drawing.append(svg("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" }));
    tell();
  }

  drawing.addEventListener("pointermove", (event) => {
    const xs = places();
    if (!scale || xs.length === 0) return;
    const at = event.clientX - drawing.getBoundingClientRect().left;
    let best = 0;
    xs.forEach((x, i) => { if (Math.abs(scale.x(x) - at) < Math.abs(scale.x(xs[best]) - at)) best = i; });
    cursor = best;
    tell();
  });
  drawing.addEventListener("pointerleave", () => { cursor = null; tell(); });
  drawing.addEventListener("blur", () => { cursor = null; tell(); });
  drawing.addEventListener("keydown", (event) => {
    const last = places().length - 1;
    const from = cursor ?? last;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    cursor = Math.max(0, Math.min(last, to));
    tell();
  });
  new ResizeObserver(() => draw()).observe(drawing);

  return {
    element,
    update(next, nextMarks = []) {
      series = next;
      marks = nextMarks;
      series.forEach(entry);
      draw();
    },
  };
}
