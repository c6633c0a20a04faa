// What is remembered: the paths known, and one path's throughput and streams over time.

import { h, say, show, table, empty } from "./dom.js";
import { get, every } from "./client.js";
import { rate, bytes, duration, ago, moment, when, clock, plural } from "./format.js";
import { chart } from "./chart.js";
import { estimateCard, modelName, remembered } from "./estimate.js";

// Rows of a table; the charts show more.
const ROWS = 15;

const address = (pair) => `#/paths/${encodeURIComponent(pair.source)}/${encodeURIComponent(pair.destination)}`;

export function pathsView({ root, complain }) {
  const body = h("div", null);
  root.append(h("div", { class: "heading" }, h("div", null, h("h1", null, "Paths"),
    h("p", { class: "muted" }, "Every source and destination that was measured or used. What is known makes the next answer free."))), body);
  return every(10_000, async () => {
    try {
      const { pairs } = await get("/history/pairs");
      if (pairs.length === 0) {
        body.replaceChildren(empty("Nothing is remembered yet.", "Estimates and transfers are remembered by themselves. What others logged can be taken in:",
          h("code", null, "tidegate history import gridftp-transfer.log")));
        return;
      }
      const focused = document.activeElement?.getAttribute?.("href");
      body.replaceChildren(h("ul", { class: "jobs" }, pairs.map((pair) => h("li", null,
        h("a", { class: "job", href: address(pair) },
          h("div", { class: "line" }, h("span", { class: "route" }, h("span", { class: "from" }, pair.source), h("span", { class: "arrow", "aria-label": "to" }, "→"), h("span", { class: "to" }, pair.destination))),
          h("div", { class: "about" }, [plural(pair.transfers, "transfer"), plural(pair.estimates, "estimate"), plural(pair.samples, "sample"), ago(pair.last_at_ms)].join(" · ")))))));
      if (focused) body.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    } catch (error) { complain(error); }
  });
}

const streamsOf = (transfer) => transfer.concurrency?.network ?? null;

export function pathView({ root, words: [source, destination], complain }) {
  const time = { format: moment, tick: clock };
  const throughput = chart({ label: "Throughput over time", left: 64, x: time, y: { format: rate } });
  const streams = chart({ label: "Streams over time", left: 64, x: time, y: { format: (n) => String(Math.round(n)), integer: true } });
  const charts = h("section", { class: "card", hidden: true, "aria-label": "Over time" }, throughput.element, streams.element);
  const latest = h("div", null);
  const tables = h("div", null);
  const none = h("div", null);
  root.append(
    h("p", { class: "crumb" }, h("a", { href: "#/paths" }, "← All paths")),
    h("div", { class: "heading" }, h("h1", { class: "route" }, h("span", { class: "from" }, source), h("span", { class: "arrow", "aria-label": "to" }, " → "), h("span", { class: "to" }, destination)),
      h("a", { class: "button", href: `#/estimate?${new URLSearchParams({ source, destination })}` }, "Estimate")),
    charts, latest, tables, none);
  let shown = "";
  return every(10_000, async () => {
    try {
      const query = { source, destination, limit: 200 };
      const kinds = ["transfers", "estimates", "decisions", "samples"];
      const [transfers, estimates, decisions, samples] = (await Promise.all(kinds.map((kind) => get(`/history/${kind}`, query)))).map((page) => page.records);
      const fresh = JSON.stringify([transfers, estimates, decisions, samples]);
      if (fresh === shown) return;
      shown = fresh;
      const byTime = (list) => [...list].sort((a, b) => a.at_ms - b.at_ms);
      const of = (list, pick) => byTime(list).filter((one) => pick(one) !== null && pick(one) !== undefined).map((one) => [one.at_ms, pick(one)]);
      show(charts, transfers.length + estimates.length > 0);
      throughput.update([
        { key: "network", name: "transfers", dots: true, points: of(transfers, (one) => one.goodput_bps) },
        { key: "sample", name: "estimates", dots: true, line: false, points: of(estimates, (one) => one.throughput_bps) }]);
      streams.update([
        { key: "network", name: "transfers", dots: true, step: true, points: of(transfers, streamsOf) },
        { key: "sample", name: "estimates", dots: true, line: false, points: of(estimates, (one) => one.streams) }]);
      const best = byTime(estimates).at(-1);
      latest.replaceChildren(...(best ? [estimateCard(remembered(best))] : []));
      const card = (title, heads, rows) => rows.length ? [h("section", { class: "card" }, h("h2", null, title), table(title, heads, rows.slice(0, ROWS)),
        rows.length > ROWS ? h("p", { class: "muted small" }, `The newest ${ROWS}; tidegate history tells all.`) : null)] : [];
      tables.replaceChildren(
        ...card("Transfers", ["When", "Size", "Goodput", "Time", "Streams", "Outcome"], transfers.map((one) => [when(one.at_ms), bytes(one.bytes), rate(one.goodput_bps), duration(one.duration_ms), streamsOf(one) === null ? "–" : String(Number(streamsOf(one).toFixed(1))), one.reason ? `${one.outcome}: ${one.reason}` : one.outcome])),
        ...card("Estimates", ["When", "Streams", "Throughput", "Model", "Cost"], estimates.map((one) => [when(one.at_ms), String(one.streams), rate(one.throughput_bps), modelName(one.model), one.cost_bytes ? bytes(one.cost_bytes) : "–"])),
        ...card("Decisions", ["When", "What", "Why"], decisions.map((one) => [when(one.at_ms), one.action, one.reason])));
      none.replaceChildren(...(transfers.length + estimates.length + decisions.length + samples.length === 0
        ? [empty("Nothing is remembered of this path.", "An estimate or a transfer will be, once there is one.")] : []));
    } catch (error) { complain(error); }
  });
}
