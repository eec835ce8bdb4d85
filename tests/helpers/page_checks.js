// What a browser is asked of a page that it shows. Each function returns a list of what is wrong, or of what is there.

const isSeen = (e) => e.checkVisibility({ visibilityProperty: true });

// Controls that Tab has to come to, each with a name in data-tab; a group of radio buttons is one. How each looks without
// the focus is kept, with what is around and inside it, which may be what is marked instead.
function controls() {
  const found = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
    .filter((e) => !e.disabled && e.getClientRects().length && isSeen(e));
  document.activeElement.blur();
  getSelection().removeAllRanges();
  found.forEach((e, i) => {
    e.dataset.tab = e.type === "radio" ? `radio ${e.name}` : `${i} ${e.id || spoken(e)}`;
    e.unfocused = look(e);
  });
  return [...new Set(found.map((e) => e.dataset.tab))];
}

function look(e) {
  const marked = [e, e.parentElement, e.closest("label"), ...e.children].filter((at) => at).map((at) => getComputedStyle(at));
  return [...marked, getComputedStyle(e, "::after")].map((s) => {
    const line = s.outlineStyle === "none" ? "" : `${s.outlineStyle} ${s.outlineWidth} ${s.outlineColor}`;
    return [line, s.boxShadow, s.backgroundColor, s.borderColor, s.borderWidth, s.textDecoration, s.left, s.top];
  }).join();
}

// The control that has the focus, and whether it looks as it does without.
function focused() {
  const e = document.activeElement;
  return e?.dataset.tab ? [e.dataset.tab, e.unfocused === look(e)] : [null, false];
}

// Texts whose contrast is below AA of WCAG 2.2 (success criterion 1.4.3): 4.5, or 3 where they are large.
async function faint() {
  const frame = () => new Promise(requestAnimationFrame);
  await frame(); // what the page does when it turns dark
  await frame();
  document.getAnimations().filter((a) => a instanceof CSSTransition).forEach((a) => a.finish());
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !isSeen(e) || e.disabled || e.closest("option, iframe, [aria-hidden=true]")) continue;
    const style = getComputedStyle(e), colour = e.closest("svg") ? style.fill : style.color;
    if (colour === "none") continue;
    const text = rgba(colour), below = behind(e), size = parseFloat(style.fontSize);
    const shown = over([...text.slice(0, 3), text[3] * opacity(e)], below);
    const [low, high] = [luminance(shown), luminance(below)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(2)}: ${e.textContent.trim().slice(0, 40)}`);
  }
  return [...new Set(found)];
}

function rgba(text) {
  const [r, g, b, a = 1] = text.match(/-?[\d.]+(e-?\d+)?/g).map(Number);
  const unit = text.startsWith("color(") ? 255 : 1; // color(srgb 0.1 0.2 0.3 / 0.4), of color-mix
  return [r * unit, g * unit, b * unit, a];
}

function over([r, g, b, a], below) {
  return [r, g, b].map((v, i) => a * v + (1 - a) * below[i]);
}

function luminance(colour) {
  const linear = colour.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

function behind(e) {
  if (!e) {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const follows = getComputedStyle(document.documentElement).colorScheme.includes("dark");
    return dark && follows ? [18, 18, 18] : [255, 255, 255]; // the browser's own canvas
  }
  const colour = rgba(getComputedStyle(e).backgroundColor);
  return colour[3] > 0.99 ? colour.slice(0, 3) : over(colour, behind(e.parentElement));
}

function opacity(e) {
  return e ? Number(getComputedStyle(e).opacity) * opacity(e.parentElement) : 1;
}

// What somebody who hears the page, or zooms it, misses.
function unnamed() {
  const found = [], all = (selector) => [...document.querySelectorAll(selector)];
  const say = (what, e) => found.push(`${what}: ${e.outerHTML.slice(0, 90)}`);
  if (!document.documentElement.lang) found.push("no language");
  if (!document.title.trim()) found.push("no title");
  if (!document.querySelector("meta[name=viewport]")) found.push("no viewport");
  if (all("main, [role=main]").length !== 1) found.push("not one main part");
  all("img").filter((e) => !e.hasAttribute("alt")).forEach((e) => say("no alternative text", e));
  all("[role=img], iframe, dialog[open]").filter((e) => !e.closest("[aria-hidden=true]") && !label(e)).forEach((e) => say("no name", e));
  all("a[href], button, summary").filter((e) => isSeen(e) && !spoken(e)).forEach((e) => say("no name", e));
  all("input:not([type=hidden]), select, textarea").filter((e) => isSeen(e) && !e.labels.length && !label(e))
    .forEach((e) => say("no label", e));
  const ids = all("[id]").map((e) => e.id);
  [...new Set(ids.filter((id, i) => ids.indexOf(id) !== i))].forEach((id) => found.push(`twice the id ${id}`));
  const headings = all("h1, h2, h3, h4, h5, h6").filter(isSeen);
  if (headings.filter((e) => e.tagName === "H1").length !== 1) found.push("not one h1");
  headings.reduce((last, e) => {
    const level = Number(e.tagName[1]);
    if (level > last + 1) say("a level of headings is left out", e);
    return level;
  }, 0);
  if (document.documentElement.scrollWidth > innerWidth + 1) found.push("wider than the window");
  return found;
}

function label(e) {
  const elsewhere = (e.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent);
  return (e.getAttribute("aria-label") || elsewhere.join("") || e.title || e.querySelector("title")?.textContent || "").trim();
}

function spoken(e) {
  return [e.textContent.trim(), label(e), ...[...e.querySelectorAll("img, svg")].map((i) => i.alt || label(i))].join("");
}
