// Answers as bars with their error bars, one a row, on one axis. The table below it says the same in words.

const SPACE = "http://www.w3.org/2000/svg";
const WIDTH = 800, LEFT = 260, RIGHT = 20, ROW = 22, FOOT = 24;

function element(name, attributes, text) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function ticks(low, high) {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let t = Math.ceil(low / step) * step; t <= high; t += step) found.push(Math.round(t / step) * step);
  return found;
}

const short = (text) => (text.length > 36 ? text.slice(0, 35) + "…" : text);

export const plain = (number) => Number(number.toPrecision(6)).toLocaleString("en");

// How far off an answer may be: of numbers the ends that it lies between.
export const spread = (a) => (a.low === undefined ? `± ${plain(a.error)}` : `${plain(a.low)} to ${plain(a.high)}`);

export function chart(answers) {
  const height = answers.length * ROW + FOOT;
  const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": "Answers with their error bars" });
  const from = (a) => a.low ?? a.value - a.error, upTo = (a) => a.high ?? a.value + a.error;
  const low = Math.min(0, ...answers.map(from)), high = Math.max(1, ...answers.map(upTo));
  const x = (value) => LEFT + ((value - low) / (high - low)) * (WIDTH - LEFT - RIGHT);
  for (const tick of ticks(low, high)) {
    svg.append(element("line", { class: "axis", x1: x(tick), x2: x(tick), y1: 0, y2: height - FOOT + 4, "stroke-opacity": 0.4 }));
    svg.append(element("text", { x: x(tick), y: height - 6, "text-anchor": "middle" }, plain(tick)));
  }
  answers.forEach((a, i) => {
    const y = i * ROW + ROW / 2;
    const row = element("g", {});
    row.append(element("title", {}, `${a.query}: ${plain(a.value)}, ${spread(a)}${a.note ? `; ${a.note}` : ""}`));
    row.append(element("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, short(a.query)));
    const start = Math.min(x(0), x(a.value));
    row.append(element("rect", { class: "column", x: start, width: Math.abs(x(a.value) - x(0)), y: y - 6, height: 12 }));
    row.append(element("line", { class: "bar", x1: x(from(a)), x2: x(upTo(a)), y1: y, y2: y }));
    row.append(element("circle", { class: "dot", cx: x(a.value), cy: y, r: 4 }));
    svg.append(row);
  });
  return svg;
}
