// The price and what is predicted for it, drawn: figures, the curve of error against ε, the ledger.

import { make, one, pairs, percent, plain, svg } from "./parts.js";

const WIDTH = 460, HEIGHT = 200, LEFT = 64, RIGHT = 12, TOP = 12, FOOT = 34;
let curve = [];

export function figures(price, { epsilon, neighbours }, records) {
  const { predicted, chance, promised } = price;
  const found = [["charge", `ε = ${plain(epsilon)}`]];
  if (predicted.off !== null) found.push(["tables are off by", percent(predicted.off)]);
  if (predicted.error !== null) found.push(["a typical count is off by", `± ${plain(predicted.error)} of ${records.toLocaleString("en")}`]);
  if (predicted.off === null) {
    const best = Math.min(...Object.values(promised).filter((p) => p !== null));
    if (Number.isFinite(best)) found.push(["at worst, by theorem", best > 1 ? "nothing is promised" : percent(best)]);
  }
  if (predicted.mechanism) found.push(["mechanism", predicted.mechanism], ["synthetic table", predicted.table ? "yes" : "no: answers alone"]);
  one("figures").replaceChildren(...pairs(found));
  const doubt = neighbours === "add-remove" ? "whether somebody is in the table" : "which of two things somebody says";
  one("odds").textContent = `Who holds it for a toss-up ${doubt} will be right with probability ${Math.ceil(1000 * chance) / 10} % at most.`;
}

export function blank() {
  one("figures").replaceChildren();
  one("curve").replaceChildren();
  one("ledger").replaceChildren();
  one("odds").textContent = "";
}

export function remember(found) {
  curve = found;
}

// Predicted error against ε, both on a scale of powers, and where this release is.
export function draw(epsilon, off) {
  if (curve.length < 2) return one("curve").replaceChildren();
  const points = curve.filter((p) => p.off > 0);
  const xs = [...points.map((p) => p.epsilon), epsilon].map(Math.log10), ys = [...points.map((p) => p.off), ...(off ? [off] : [])].map(Math.log10);
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.floor(Math.min(...ys)), Math.ceil(Math.max(...ys))];
  const x = (e) => LEFT + ((Math.log10(e) - left) / (right - left || 1)) * (WIDTH - LEFT - RIGHT);
  const y = (o) => TOP + ((high - Math.log10(o)) / (high - low || 1)) * (HEIGHT - TOP - FOOT);
  const made = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "How far tables are off, against ε" });
  for (let power = low; power <= high; power++) {
    made.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(10 ** power), y2: y(10 ** power) }));
    made.append(svg("text", { x: LEFT - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, percent(10 ** power)));
  }
  for (const p of points.filter((_, i) => i % 2 === 1 || points.length < 5)) made.append(svg("text", { x: x(p.epsilon), y: HEIGHT - FOOT + 16, "text-anchor": "middle" }, plain(p.epsilon)));
  made.append(svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 3, "text-anchor": "middle" }, "ε"));
  made.append(svg("path", { class: "line", d: points.map((p, i) => `${i ? "L" : "M"}${x(p.epsilon).toFixed(1)} ${y(p.off).toFixed(1)}`).join("") }));
  if (off) {
    made.append(svg("line", { class: "here", x1: x(epsilon), x2: x(epsilon), y1: y(off), y2: HEIGHT - FOOT }));
    made.append(svg("circle", { class: "dot", cx: x(epsilon), cy: y(off), r: 5 }));
  }
  return one("curve").replaceChildren(made, make("figcaption", { textContent: "How much of a table is in a wrong cell, predicted, against ε" }));
}

// Where a ledger stands.
export function standing(account, target, wide = false) {
  if (!account) return target.replaceChildren();
  const rows = account.new
    ? [["file", account.place], ["stands", "new: this would be its first charge"]]
    : [["file", account.place], ["total", account.total], ["spent", account.spent], ["left", account.left]];
  const found = [make("dl", { className: wide ? "facts" : "pairs" }, ...pairs(rows))];
  if (!account.new) found.unshift(make("progress", { max: 1, value: account.share, "aria-label": "Spent, of the total" }));
  return target.replaceChildren(...found);
}
