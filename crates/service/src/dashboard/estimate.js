// How many streams, how fast, how long: the question, the answer and what it rests on.

import { h, say, table } from "./dom.js";
import { post } from "./client.js";
import { rate, bytes, duration, ago, plural, parseBytes } from "./format.js";
import { chart } from "./chart.js";

const streams = { log: true, min: 1, format: (n) => plural(Number(n.toFixed(2)), "stream"), tick: (n) => String(n) };
const NAMES = { full_second_order: "full second order", dynamic_order: "dynamic order", dinda: "Dinda", hacker: "Hacker", knee: "knee" };
const MODELS = ["full_second_order", "dynamic_order", "dinda", "hacker"];
export const modelName = (model) => NAMES[model] ?? model ?? "none fits";

const known = (value) => value !== null && value !== undefined;

// What was estimated once, in the shape of an answer.
export const remembered = (estimate) => ({
  ...estimate,
  bytes: null,
  origin: { kind: "history", age_ms: Date.now() - estimate.at_ms },
  reason: estimate.model ? `The ${modelName(estimate.model)} model fits the samples best.` : `No model fits: ${estimate.reason}`,
});

// What an estimate says, with its curve: used for an answer, a job and a path.
export function estimateCard(estimate) {
  const answer = h("div", { class: "answer" },
    h("div", null, h("b", null, String(estimate.streams)), h("span", null, estimate.streams === 1 ? "stream" : "streams")),
    h("div", null, h("b", null, rate(estimate.throughput_bps)), h("span", null, "throughput")),
    known(estimate.time_ms) && known(estimate.bytes)
      ? h("div", null, h("b", null, duration(estimate.time_ms)), h("span", null, `for ${bytes(estimate.bytes)}`)) : null,
    known(estimate.single_time_ms) && estimate.streams > 1
      ? h("div", null, h("b", { class: "plain" }, duration(estimate.single_time_ms)), h("span", null, "with one stream")) : null);
  const cost = estimate.cost_bytes ? `Sampling moved ${bytes(estimate.cost_bytes)} in ${duration(estimate.cost_ms)}.` : "";
  const origin = {
    history: `From history, measured ${ago(Date.now() - (estimate.origin?.age_ms ?? 0))}: it cost nothing now.`,
    not_sampled: "Nothing was measured.",
  }[estimate.origin?.kind] ?? [cost, estimate.pays === false ? "That took longer than it can save at this size." : ""].join(" ");
  const card = h("section", { class: "card", "aria-label": "Estimate" }, h("h2", null, "Estimate"), answer,
    h("p", null, estimate.reason ?? ""), h("p", { class: "muted small" }, origin),
    (estimate.notes ?? []).map((note) => h("p", { class: "why small" }, note)));
  if (estimate.samples?.length) {
    const most = Math.max(...estimate.samples.map((sample) => sample.streams), estimate.streams);
    const view = chart({ label: "Throughput by streams", x: { ...streams, max: most * 1.15 }, y: { format: rate }, quiet: true });
    const curves = (estimate.curves ?? []).map((curve, i) => ({
      key: curve.chosen ? "chosen" : `curve${i % 3}`, name: modelName(curve.model), told: false,
      points: curve.points.map((point) => [point.streams, point.throughput_bps]).filter(([n]) => n <= most * 1.15) }));
    view.update(
      [...curves, { key: "sample", name: "sampled", line: false, dots: true, points: estimate.samples.map((sample) => [sample.streams, sample.throughput_bps]) }],
      !estimate.throughput_bps ? [] : [{ x: estimate.streams, y: estimate.throughput_bps, label: `${plural(estimate.streams, "stream")}: ${rate(estimate.throughput_bps)}` }]);
    card.append(view.element, h("details", null, h("summary", null, "Samples as a table"),
      table("Samples", ["Streams", "Throughput", "Moved", "Time"],
        estimate.samples.map((sample) => [String(sample.streams), rate(sample.throughput_bps), sample.bytes ? bytes(sample.bytes) : "–", sample.spent_ms ? duration(sample.spent_ms) : "–"]))));
  }
  return card;
}

export function estimateView({ root, query, complain }) {
  const source = h("input", { id: "source", required: true, spellcheck: "false", autocomplete: "off", placeholder: "/data or tg://…@dtn1.example.org:7117/" });
  const destination = h("input", { id: "destination", required: true, spellcheck: "false", autocomplete: "off", placeholder: "tg://…@dtn2.example.org:7117/" });
  const size = h("input", { id: "bytes", required: true, value: "10 GiB", inputmode: "text", autocomplete: "off", "aria-describedby": "bytes-hint" });
  const sampler = h("select", { id: "sampler" }, [["", "whichever fits the addresses"], ["native", "Tidegate, memory to memory"], ["iperf3", "iperf3"], ["gridftp", "GridFTP"], ["ranges", "ranges of the files"]].map(([value, name]) => h("option", { value }, name)));
  const model = h("select", { id: "model" }, [["averaged", "all, averaged"], ["published", "as EOS published"], ...MODELS.map((name) => [name, NAMES[name]])].map(([value, name]) => h("option", { value }, name)));
  const history = h("input", { id: "use-history", type: "checkbox", checked: true });
  const button = h("button", { type: "submit", class: "primary" }, "Estimate");
  const result = h("div", { "aria-live": "polite" });
  if (query.get("source")) source.value = query.get("source");
  if (query.get("destination")) destination.value = query.get("destination");
  const form = h("form", { class: "card grid" },
    h("div", { class: "field wide" }, h("label", { for: "source" }, "Source"), source),
    h("div", { class: "field wide" }, h("label", { for: "destination" }, "Destination"), destination),
    h("div", { class: "field" }, h("label", { for: "bytes" }, "Size"), size, h("small", { id: "bytes-hint", class: "muted" }, "as in 500 MB or 10 GiB")),
    h("div", { class: "field" }, h("label", { for: "sampler" }, "Measured by"), sampler),
    h("div", { class: "field" }, h("label", { for: "model" }, "Told by the model"), model),
    h("div", { class: "checks" }, h("label", { class: "check" }, history, "Use what is known of this path")),
    h("div", { class: "actions" }, button));
  size.addEventListener("input", () => size.setCustomValidity(parseBytes(size.value) === null ? "Write a size, as in 10 GiB." : ""));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    say(button, "Measuring…");
    try {
      const answer = await post("/estimates", { source: source.value, destination: destination.value, bytes: parseBytes(size.value),
        use_history: history.checked, model: model.value, ...(sampler.value ? { sampler: sampler.value } : {}) });
      result.replaceChildren(estimateCard(answer));
    } catch (error) {
      complain(error);
    } finally {
      button.disabled = false;
      say(button, "Estimate");
    }
  });
  root.append(h("div", { class: "heading" }, h("div", null, h("h1", null, "Estimate"),
    h("p", { class: "muted" }, "How many streams a path wants, how fast it will be and how long it will take, before anything is moved."))), form, result);
  return () => {};
}
