// One job: what it does now, live, and what was decided for it.

import { h, say, show, table, empty } from "./dom.js";
import { get, post, every, follow } from "./client.js";
import { rate, bytes, duration, moment, plural } from "./format.js";
import { chart } from "./chart.js";
import { badge, bar, share, detail, stateName } from "./jobs.js";
import { estimateCard, remembered } from "./estimate.js";

// Half an hour of epochs of a second; older ones are left out of the charts.
const KEPT = 1800;
const STAGES = ["read", "network", "write"];
// As much as the longest rate takes, so that time runs alike in both charts.
const LEFT = 74;
const ENDED = ["done", "failed", "cancelled"];

const seconds = { format: (x) => duration(x * 1000), tick: (x) => duration(x * 1000), bases: [1, 2, 5, 10], min: 0 };

// Who moves a job of many hosts, host by host.
function moversCard(movers) {
  const byHost = [...movers].sort((a, b) => a.host.localeCompare(b.host) || a.name.localeCompare(b.name));
  const pooled = movers.some((mover) => mover.endpoint);
  const heads = ["Mover", "Host", ...(pooled ? ["By way of"] : []), "Rate", "Streams", "Shards", "Files", "Moved", "Last heard"];
  const rows = byHost.map((mover) => [mover.name, mover.host || null, ...(pooled ? [mover.endpoint] : []),
    mover.leases ? rate(mover.throughput_bps) : null, mover.leases ? String(mover.streams) : null,
    String(mover.shards), String(mover.files), bytes(mover.bytes), `${duration(mover.silent_ms)} ago`]);
  return h("section", { class: "card" }, h("h2", null, "Movers"), table("Movers", heads, rows));
}

export function jobView({ root, words: [id], complain }) {
  const title = h("h1", null, `Job #${id}`);
  const state = h("span", null);
  const route = h("p", { class: "route big" });
  const progress = bar("Progress");
  const about = h("p", { class: "about" });
  const why = h("p", { class: "why", hidden: true });
  const facts = h("dl", { class: "facts" });
  const estimate = h("div", null);
  const movers = h("div", null);
  const log = h("div", null);
  const failedList = h("ul", { class: "small" });
  const failed = h("section", { class: "card", hidden: true }, h("h2", null, "Files that did not arrive"), failedList);
  const live = h("section", { class: "card", hidden: true, "aria-label": "Live" });
  const throughput = chart({ label: "Throughput", left: LEFT, x: seconds, y: { format: rate }, none: "Waiting for the first epoch" });
  const workers = chart({ label: "Concurrency", left: LEFT, x: seconds, y: { format: (n) => String(Math.round(n)), integer: true }, none: "Waiting for the first epoch" });
  const path = h("p", { class: "muted small" });
  live.append(throughput.element, workers.element, path);

  const actions = ["pause", "resume", "retry", "cancel"].map((name) => {
    const words = { pause: "Pause", resume: "Resume", retry: "Try again", cancel: "Cancel" };
    const button = h("button", { type: "button", class: name === "cancel" ? "danger" : "", hidden: true }, words[name]);
    button.addEventListener("click", async () => {
      button.disabled = true;
      try { render(await post(`/jobs/${encodeURIComponent(id)}/${name}`)); } catch (error) { complain(error); } finally { button.disabled = false; }
    });
    return { name, button };
  });
  const alike = h("button", { type: "button", hidden: true }, "Try all with this cause again");
  const retried = h("p", { class: "muted", role: "status", hidden: true });
  alike.addEventListener("click", async () => {
    alike.disabled = true;
    try {
      const job = await post(`/jobs/${encodeURIComponent(id)}/retry?alike=true`);
      render(job);
      say(retried, `${plural(job.retried, "job")} will be tried again.`);
      show(retried, true);
    } catch (error) { complain(error); } finally { alike.disabled = false; }
  });

  root.append(
    h("p", { class: "crumb" }, h("a", { href: "#/jobs" }, "← All jobs")),
    h("div", { class: "heading" }, h("div", { class: "line" }, title, state), h("div", { class: "actions" }, actions.map(({ button }) => button), alike)),
    retried, route, progress.element, about, why, live, movers, estimate, h("section", { class: "card" }, h("h2", null, "About"), facts), failed, log);

  let stop = null;
  let shownEstimate = null;
  const epochs = [];
  let scheduled = false;
  let asked = false;
  let heard = false;
  let spread = null;

  function charts() {
    scheduled = false;
    show(live, true);
    const of = (pick, more) => STAGES.map((stage) => ({ key: stage, name: stage, ...more(stage), points: epochs.map((epoch) => [epoch.t_ms / 1000, pick(epoch)[stage]]) }));
    throughput.update(of((epoch) => epoch.throughput_bps, (stage) => ({ area: stage === "network" })));
    workers.update(of((epoch) => epoch.concurrency, () => ({ step: true })));
    const last = epochs[epochs.length - 1];
    const told = [last.rtt_us !== null && last.rtt_us !== undefined ? `round trip ${duration(last.rtt_us / 1000)}` : null,
      last.loss !== null && last.loss !== undefined ? `loss ${(last.loss * 100).toFixed(2)} %` : null, last.notice].filter(Boolean);
    say(path, told.join(" · "));
  }

  function take(epoch) {
    epochs.push(epoch);
    if (epochs.length > KEPT) epochs.splice(0, epochs.length - KEPT);
    if (!scheduled) { scheduled = true; requestAnimationFrame(charts); }
  }

  function listen() {
    if (stop) return;
    heard = true;
    epochs.length = 0;
    // After a lost connection the service tells everything anew.
    stop = follow(id, {
      epoch: (epoch) => { if (epochs.length && epoch.t_ms <= epochs[epochs.length - 1].t_ms) epochs.length = 0; take(epoch); },
      job: render,
      end: () => { stop = null; refresh().catch(complain); },
    });
  }

  // What is known of the job's path: the streams it began with come from there.
  async function askEstimate(request) {
    asked = true;
    try {
      const query = { source: request.sources[0], destination: request.destination, limit: 1 };
      const [found] = (await get("/history/estimates", query)).records;
      if (found) estimate.replaceChildren(estimateCard(remembered(found)));
    } catch { /* The job is shown without. */ }
  }

  function render(job) {
    document.title = `#${job.id} ${stateName(job.state)} · Tidegate`;
    state.replaceChildren(badge(job.state));
    const { request, summary } = job;
    route.replaceChildren(h("span", { class: "from" }, request.sources[0] + (request.sources.length > 1 ? ` and ${request.sources.length - 1} more` : "")), h("span", { class: "arrow", "aria-label": "to" }, " → "), h("span", { class: "to" }, request.destination));
    progress.update(share(job), job.state);
    show(progress.element, share(job) !== null);
    // The reason has a place of its own here.
    say(about, detail({ ...job, reason: null }));
    say(why, job.reason ?? "");
    why.className = `why ${job.state}`;
    show(why, Boolean(job.reason) && (job.state !== "running" || job.reason !== "begun"));
    for (const { name, button } of actions) show(button, (job.actions ?? []).includes(name));
    show(alike, (job.actions ?? []).includes("retry"));
    // What is told live of a job's state says nothing of its shards.
    spread = job.spread ?? spread;
    const rows = [
      ["Kind", request.kind], ["Name", request.name],
      ["Priority", String(request.priority)], ["Optimized", request.optimization ? "yes" : "no"],
      ["Attempts", job.attempts ? String(job.attempts) : null],
      ["After", request.after?.length ? request.after.map((other) => typeof other === "number" ? `#${other}` : other).join(", ") : null],
      ["Again at", job.state === "retrying" && job.not_before_ms ? moment(job.not_before_ms) : null],
      ["Submitted", moment(job.submitted_ms)], ["Started", job.started_ms ? moment(job.started_ms) : null],
      ["Ended", job.ended_ms ? moment(job.ended_ms) : null],
      ["Files", summary?.files.total ? `${summary.files.ok} moved, ${summary.files.skipped} there already, ${summary.files.failed} failed` : null],
      ["Moved", summary ? bytes(summary.bytes) : null],
      ["Sent again", summary?.resent_bytes ? bytes(summary.resent_bytes) : null],
      ["Goodput", summary?.goodput_bps ? rate(summary.goodput_bps) : null],
      ["Streams", summary?.streams_mean ? `${Number(summary.streams_mean.toFixed(1))} on average` : null],
      ["Shards", spread ? `${spread.ended_shards} of ${spread.shards}${spread.state === "listing" ? ", listing goes on" : ""}` : null],
      ["Rule", summary?.optimizer],
      ["Verified", summary && job.state === "done" && request.kind === "transfer" ? (summary.verified ? "yes, end to end" : "no") : null],
    ].filter(([, value]) => value);
    facts.replaceChildren(...rows.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
    const failures = summary?.failures ?? [];
    show(failed, failures.length > 0);
    failedList.replaceChildren(...failures.slice(0, 20).map((failure) => h("li", null, failure.message)));
    if (summary?.estimate && JSON.stringify(summary.estimate) !== shownEstimate) {
      shownEstimate = JSON.stringify(summary.estimate);
      estimate.replaceChildren(estimateCard(summary.estimate));
    }
    if (spread?.movers.length) movers.replaceChildren(moversCard(spread.movers));
    if (job.decisions?.length) {
      const base = job.submitted_ms;
      log.replaceChildren(h("section", { class: "card" }, h("h2", null, "Decisions"),
        table("Decisions", ["After", "What", "Why"], job.decisions.map((one) => [duration(Math.max(0, one.at_ms - base)), one.action, one.reason]))));
    }
    if (!ENDED.includes(job.state) || !heard) listen();
    if (request.kind === "transfer" && request.optimization && !asked) askEstimate(request);
  }

  async function refresh() {
    try {
      render(await get(`/jobs/${encodeURIComponent(id)}`));
    } catch (error) {
      if (error.status !== 404 && error.status !== 400) throw error;
      root.replaceChildren(empty("There is no such job.", error.message, h("a", { href: "#/jobs" }, "Go to the jobs")));
      halt();
    }
  }

  const halt = every(2000, () => refresh().catch(complain));
  return () => { halt(); stop?.(); };
}
