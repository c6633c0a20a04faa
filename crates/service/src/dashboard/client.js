// Talks to the service. Every answer that is no success becomes one Error that says what to do.

const BASE = "/api/v1";
const PATIENCE_MS = 320_000;

export class Refused extends Error {
  constructor(status, detail, advice) {
    super(detail);
    this.status = status;
    this.advice = advice;
  }
}

const listeners = new Set();
export const onSignal = (listener) => listeners.add(listener);
const signal = (online) => listeners.forEach((listener) => listener(online));

async function ask(method, path, body) {
  const options = { method, headers: { accept: "application/json" }, signal: AbortSignal.timeout(PATIENCE_MS) };
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(BASE + path, options);
  } catch {
    signal(false);
    throw new Refused(0, "The service does not answer.", "Start it again with: tidegate serve");
  }
  signal(true);
  if (response.status === 401) {
    location.assign("/login");
    throw new Refused(401, "You are signed out.", "Sign in again.");
  }
  const text = await response.text();
  let value = null;
  try { value = text ? JSON.parse(text) : null; } catch { /* told below */ }
  if (!response.ok) {
    throw new Refused(response.status, value?.detail ?? `The service answered ${response.status}.`, value?.advice ?? "");
  }
  return value;
}

export const get = (path, query = {}) => {
  const entries = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(entries).toString();
  return ask("GET", text ? `${path}?${text}` : path);
};
export const post = (path, body) => ask("POST", path, body);

// Follows a job's epochs until it ends; gives a function that stops.
export function follow(id, { epoch, job, end }) {
  const source = new EventSource(`${BASE}/jobs/${encodeURIComponent(id)}/epochs`);
  const parsed = (take) => (event) => {
    let value;
    try { value = JSON.parse(event.data); } catch { return; }
    take(value);
  };
  source.addEventListener("epoch", parsed(epoch));
  source.addEventListener("job", parsed(job));
  source.addEventListener("end", parsed((value) => { source.close(); end(value); }));
  source.onopen = () => signal(true);
  source.onerror = () => { if (source.readyState === EventSource.CONNECTING) signal(false); };
  return () => source.close();
}

// Calls `work` every `ms` while the page is seen; gives a function that stops.
export function every(ms, work) {
  let timer = null;
  let stopped = false;
  let busy = false;
  const turn = async () => {
    clearTimeout(timer);
    if (stopped || busy) return;
    busy = true;
    try { if (!document.hidden) await work(); } finally { busy = false; }
    if (!stopped) timer = setTimeout(turn, ms);
  };
  const woken = () => { if (!document.hidden) turn(); };
  document.addEventListener("visibilitychange", woken);
  turn();
  return () => {
    stopped = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", woken);
  };
}
