// The list of jobs, and the form for a new one.

import { h, say, show, keyed, empty } from "./dom.js";
import { get, post, every } from "./client.js";
import { rate, bytes, duration, ago, plural, shorten } from "./format.js";

const PAGE = 50;
const STATES = [
  ["", "All"], ["running", "Running"], ["queued", "Queued"], ["blocked", "Blocked"], ["pausing", "Pausing"], ["paused", "Paused"],
  ["retrying", "Retrying"], ["cancelling", "Cancelling"], ["done", "Done"], ["failed", "Failed"], ["cancelled", "Cancelled"],
];

export const stateName = (state) => STATES.find(([name]) => name === state)?.[1] ?? state;

export const share = (job) => {
  if (job.state === "done") return 1;
  const { bytes: moved, total_bytes: total } = job.progress;
  return total ? Math.min(1, moved / total) : null;
};

export function badge(state) {
  return h("span", { class: `badge ${state}` }, stateName(state));
}

// A bar whose length is set through the object model, as the page allows no style attributes.
export function bar(label) {
  const inner = h("i", null);
  const element = h("div", { class: "bar", role: "progressbar", "aria-label": label, "aria-valuemin": "0", "aria-valuemax": "100" }, inner);
  return {
    element,
    update(part, state) {
      element.className = `bar ${state}`;
      inner.style.width = `${((part ?? 0) * 100).toFixed(1)}%`;
      if (part === null) element.removeAttribute("aria-valuenow");
      else element.setAttribute("aria-valuenow", Math.round(part * 100));
    },
  };
}

export function detail(job) {
  const { progress, summary } = job;
  const sizes = progress.total_bytes ? `${bytes(progress.bytes)} of ${bytes(progress.total_bytes)}` : progress.bytes ? bytes(progress.bytes) : null;
  const streams = progress.streams ? plural(progress.streams, "stream") : null;
  const left = progress.left_ms ? Math.ceil(progress.left_ms / 1000) * 1000 : null;
  const words = {
    running: [job.outage_since_ms ? job.reason : null, sizes, progress.throughput_bps ? rate(progress.throughput_bps) : null, streams, left ? `${duration(left)} left` : null],
    done: [summary ? bytes(summary.bytes) : null, summary?.goodput_bps ? rate(summary.goodput_bps) : null,
      summary?.duration_ms ? `in ${duration(summary.duration_ms)}` : null, ago(job.ended_ms)],
    queued: [`submitted ${ago(job.submitted_ms)}`, job.request.priority ? `priority ${job.request.priority}` : null],
  }[job.state] ?? [sizes, job.reason, ago(job.ended_ms ?? job.submitted_ms)];
  return words.filter((word) => word && word !== "–").join(" · ");
}

function row(first) {
  const progress = bar("Progress");
  const from = h("span", { class: "from" });
  const to = h("span", { class: "to" });
  const about = h("div", { class: "about" });
  const state = h("span", { class: "badge" });
  const number = h("span", { class: "number" });
  const element = h("li", null, h("a", { class: "job", href: `#/jobs/${encodeURIComponent(first.id)}` },
    h("div", { class: "line" }, number, h("span", { class: "route" }, from, h("span", { class: "arrow", "aria-label": "to" }, "→"), to), state),
    progress.element, about));
  return {
    element,
    update(job) {
      say(number, `#${job.id}`);
      const { sources, destination } = job.request;
      say(from, shorten(sources[0], 80) + (sources.length > 1 ? ` and ${sources.length - 1} more` : ""));
      say(to, shorten(destination, 80));
      say(about, detail(job));
      say(state, stateName(job.state));
      state.className = `badge ${job.state}`;
      progress.update(share(job), job.state);
      show(progress.element, share(job) !== null && job.state !== "done");
    },
  };
}

function form(complain, sent) {
  const source = h("input", { id: "source", name: "source", required: true, placeholder: "/data/run7, tg://host/run7 or SRR15852393", spellcheck: "false", autocomplete: "off" });
  const destination = h("input", { id: "destination", name: "destination", required: true, placeholder: "tg://…@dtn2.example.org:7117/in", spellcheck: "false", autocomplete: "off" });
  const priority = h("input", { id: "priority", name: "priority", type: "number", min: "-100", max: "100", step: "1", value: "0" });
  const optimize = h("input", { id: "optimize", name: "optimize", type: "checkbox", checked: true });
  const history = h("input", { id: "history", name: "history", type: "checkbox", checked: true });
  const button = h("button", { type: "submit", class: "primary" }, "Submit");
  const element = h("form", { class: "card grid", hidden: true, id: "new-job" },
    h("div", { class: "field wide" }, h("label", { for: "source" }, "Source"), source),
    h("div", { class: "field wide" }, h("label", { for: "destination" }, "Destination"), destination),
    h("div", { class: "field" }, h("label", { for: "priority" }, "Priority"), priority),
    h("div", { class: "checks" },
      h("label", { class: "check" }, optimize, "Find the best concurrency"),
      h("label", { class: "check" }, history, "Use what is known of this path")),
    h("div", { class: "actions" }, button));
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await post("/jobs", { source: source.value, destination: destination.value, priority: Number(priority.value),
        optimization: optimize.checked, use_history: history.checked });
      source.value = "";
      await sent();
    } catch (error) { complain(error); } finally { button.disabled = false; }
  });
  return { element, focus: () => source.focus() };
}

export function jobsView({ root, query, complain }) {
  let state = query.get("state") ?? "";
  let shown = PAGE;
  const filters = h("div", { class: "filters", role: "group", "aria-label": "Which jobs" });
  const list = h("ul", { class: "jobs" });
  const more = h("button", { type: "button", class: "more", hidden: true }, "Show more");
  const none = h("div", null);
  let lacked = "";
  const totals = h("p", { class: "totals muted", role: "status" });
  const update = keyed(list, row);
  const chips = STATES.map(([name, title]) => {
    const count = h("span", { class: "count" });
    const button = h("button", { type: "button", "aria-pressed": String(name === state) }, title, count);
    button.addEventListener("click", () => {
      state = name;
      shown = PAGE;
      chips.forEach((chip) => chip.button.setAttribute("aria-pressed", String(chip.name === state)));
      history.replaceState(null, "", state ? `#/jobs?state=${state}` : "#/jobs");
      refresh().catch(complain);
    });
    filters.append(button);
    return { name, button, count };
  });

  async function refresh() {
    let page = await get("/jobs", { state, limit: Math.min(shown, 100) });
    const jobs = page.jobs;
    while (page.next && jobs.length < shown) {
      page = { ...(await get("/jobs", { state, limit: 100, cursor: page.next })), counts: page.counts };
      jobs.push(...page.jobs);
    }
    update(jobs, (job) => job.id);
    show(more, Boolean(page.next));
    const counts = page.counts ?? {};
    const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
    for (const { name, button, count } of chips) {
      const number = name === "" ? all : counts[name] ?? 0;
      say(count, number ? number.toLocaleString() : "");
      show(button, name === "" || name === state || number > 0 || ["running", "queued", "done", "failed"].includes(name));
    }
    const running = jobs.filter((job) => job.state === "running");
    const sum = running.reduce((total, job) => total + (job.progress.throughput_bps), 0);
    say(totals, running.length ? `${plural(running.length, "job")} moving ${rate(sum)}` : all ? `${plural(all, "job")}, none running` : "");
    const lacks = jobs.length > 0 ? "" : all === 0 ? "any" : "state";
    if (lacks !== lacked) {
      lacked = lacks;
      none.replaceChildren(...({
        any: [empty("No jobs yet.", "Submit one here, or from a terminal:", h("code", null, "tidegate submit /data/run7 tg://…@dtn2.example.org:7117/in"))],
        state: [empty("No jobs in this state.", "Choose another state above.")],
      }[lacks] ?? []));
    }
  }

  more.addEventListener("click", () => { shown += PAGE; refresh().catch(complain); });
  const add = form(complain, async () => { opener.click(); await refresh(); });
  const opener = h("button", { type: "button", class: "primary", "aria-expanded": "false", "aria-controls": "new-job" }, "New job");
  opener.addEventListener("click", () => {
    const open = add.element.hidden;
    add.element.hidden = !open;
    opener.setAttribute("aria-expanded", String(open));
    say(opener, open ? "Close" : "New job");
    opener.classList.toggle("primary", !open);
    if (open) add.focus(); else opener.focus();
  });
  root.append(h("div", { class: "heading" }, h("div", null, h("h1", null, "Jobs"), totals), opener), add.element, filters, list, none, more);
  return every(2000, () => refresh().catch(complain));
}
