// Numbers as people read them: rates in bits and powers of ten, sizes in bytes and powers of two.

const significant = (value, digits = 3) => {
  if (value >= 10 ** (digits - 1)) return Math.round(value).toString();
  return Number(value.toPrecision(digits)).toString();
};

export function rate(bps) {
  if (bps === null || bps === undefined || !Number.isFinite(bps)) return "–";
  const units = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
  let unit = 0;
  while (bps >= 999.5 && unit < units.length - 1) { bps /= 1000; unit += 1; }
  return `${significant(bps)} ${units[unit]}`;
}

export function bytes(count) {
  if (count === null || count === undefined || !Number.isFinite(count)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0;
  while (count >= 1023.5 && unit < units.length - 1) { count /= 1024; unit += 1; }
  return `${significant(count)} ${units[unit]}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "–";
  const seconds = ms / 1000;
  if (ms === 0) return "0 s";
  if (seconds < 1) return `${Math.round(ms)} ms`;
  if (seconds < 60) return `${significant(seconds, seconds < 10 ? 2 : 3)} s`;
  const parts = [["y", 31536000], ["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = parts.findIndex(([, length]) => seconds >= length);
  const [big, length] = parts[first];
  const whole = Math.floor(seconds / length);
  const next = parts[first + 1];
  const rest = next ? Math.floor((seconds - whole * length) / next[1]) : 0;
  return rest > 0 ? `${whole} ${big} ${rest} ${next[0]}` : `${whole} ${big}`;
}

export function ago(ms, now = Date.now()) {
  if (!ms) return "–";
  const past = now - ms;
  return past < 5000 ? "just now" : `${duration(Math.floor(past / 1000) * 1000)} ago`;
}

export function clock(ms, span = 0) {
  const date = new Date(ms);
  if (span > 3 * 86400e3) return date.toLocaleDateString(undefined, { month: "short", day: "numeric" });
  const seconds = span > 0 && span < 600e3 ? { second: "2-digit" } : {};
  return date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", ...seconds });
}

export function moment(ms) {
  return ms ? new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }) : "–";
}

// The same, short: today without its date.
export function when(ms) {
  const [date, today] = [new Date(ms), new Date()];
  const time = date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
  if (date.toDateString() === today.toDateString()) return time;
  const year = date.getFullYear() === today.getFullYear() ? {} : { year: "numeric" };
  return `${date.toLocaleDateString(undefined, { month: "short", day: "numeric", ...year })}, ${time}`;
}

export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString()} ${count === 1 ? one : many}`;

// Reads "10 GiB", "250MB", "1e9": bytes, or null.
export function parseBytes(text) {
  const found = /^\s*([0-9]+(?:\.[0-9]+)?(?:e[0-9]{1,2})?)\s*([kmgtpe]?)(i?)b?\s*$/i.exec(text);
  if (!found) return null;
  const power = "kmgtpe".indexOf(found[2].toLowerCase() || "-") + 1;
  const value = Number(found[1]) * (found[3] ? 1024 : 1000) ** power;
  return Number.isFinite(value) && value <= 2 ** 63 ? Math.round(value) : null;
}

// A path's middle is what people need least.
export function shorten(text, most = 64) {
  if (!text || text.length <= most) return text ?? "";
  const tail = Math.floor(most * 0.6);
  return `${text.slice(0, most - tail - 1)}…${text.slice(-tail)}`;
}
