// Elements without a framework. Text is always set as text: nothing a job carries becomes markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Changes text only where it differs, so that a selection and a screen reader are left in peace.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function show(element, visible) {
  if (element.hidden === visible) element.hidden = !visible;
}

// Keeps one element for each key, in the order of `items`; what stays is updated and never rebuilt, so that
// the keyboard's focus stays where it is.
export function keyed(parent, make) {
  const kept = new Map();
  return (items, keyOf) => {
    const seen = new Set();
    let before = null;
    for (const item of items) {
      const key = keyOf(item);
      seen.add(key);
      let entry = kept.get(key);
      if (!entry) {
        entry = make(item);
        kept.set(key, entry);
      }
      entry.update(item);
      const next = before ? before.nextSibling : parent.firstChild;
      if (next !== entry.element) parent.insertBefore(entry.element, next);
      before = entry.element;
    }
    for (const [key, entry] of kept) {
      if (!seen.has(key)) {
        entry.element.remove();
        kept.delete(key);
      }
    }
  };
}

export function empty(title, text, ...more) {
  return h("div", { class: "empty" }, h("strong", null, title), h("p", null, text), ...more);
}

export function table(caption, heads, rows) {
  const cell = (value, i) => h(i === 0 ? "th" : "td", i === 0 ? { scope: "row" } : null, value ?? "–");
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", null,
      h("caption", { class: "hidden" }, caption),
      h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", null, rows.map((row) => h("tr", null, row.map(cell))))));
}
