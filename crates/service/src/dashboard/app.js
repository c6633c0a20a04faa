// The page: which view is shown, whether the service answers, light or dark.

import { h, say, show, empty } from "./dom.js";
import { onSignal } from "./client.js";
import { jobsView } from "./jobs.js";
import { jobView } from "./job.js";
import { estimateView } from "./estimate.js";
import { pathsView, pathView } from "./paths.js";

const main = document.getElementById("main");
const signal = document.getElementById("signal");
const notice = document.getElementById("notice");
let leave = null;

// Tells of a failure, until the next view or eight seconds.
let forget = null;
export function complain(error) {
  say(notice, [error.message, error.advice].filter(Boolean).join(" — "));
  show(notice, true);
  clearTimeout(forget);
  forget = setTimeout(() => show(notice, false), 8000);
}

const routes = [
  [/^\/jobs$/, "Jobs", jobsView],
  [/^\/jobs\/([^/]+)$/, "Job", jobView],
  [/^\/estimate$/, "Estimate", estimateView],
  [/^\/paths$/, "Paths", pathsView],
  [/^\/paths\/([^/]+)\/([^/]+)$/, "Path", pathView],
];

function open(first) {
  const [path, query = ""] = (location.hash.slice(1) || "/jobs").split("?");
  // The link that skips to the content is no view.
  if (!path.startsWith("/")) return;
  leave?.();
  leave = null;
  show(notice, false);
  const route = routes.find(([pattern]) => pattern.test(path));
  main.replaceChildren();
  if (!route) {
    main.append(empty("There is nothing here.", "This address names no view.", h("a", { href: "#/jobs" }, "Go to the jobs")));
    return;
  }
  const [pattern, title, view] = route;
  let words;
  try {
    words = pattern.exec(path).slice(1).map(decodeURIComponent);
  } catch {
    words = [];
  }
  document.title = `${title} · Tidegate`;
  for (const link of document.querySelectorAll("nav a")) {
    const here = path.startsWith(link.getAttribute("href").slice(1));
    if (here) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  leave = view({ root: main, words, query: new URLSearchParams(query), complain });
  if (!first) main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

onSignal((online) => {
  say(signal, online ? "live" : "no answer");
  signal.classList.toggle("lost", !online);
});

const theme = document.getElementById("theme");
const chosen = localStorage.getItem("theme");
if (chosen) document.documentElement.dataset.theme = chosen;
theme.addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
});

window.addEventListener("hashchange", () => open(false));
open(true);
