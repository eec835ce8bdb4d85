// One card a column: what the draft read off the data, and beside it what shall be public.

import { make, one } from "./parts.js";

const EMPTY = "(empty)"; // how the empty text is written in a list of marks
const KINDS = { category: "categories", number: "numbers, in bins", date: "dates, in bins" };
const UNITS = ["day", "month", "year"];
const EDITED = ["name", "kind", "categories", "bins", "within", "step", "integer", "ordered", "missing", "outside", "reviewed", "decimal", "thousands", "unit", "format"];
const WRITTEN = { number: ["decimal", "thousands", "unit"], date: ["format"] }; // how the data write values, as the entry says
let cards = [];

const listed = (marks) => marks.map((m) => m || EMPTY).join(", ");
const parsed = (text) => text.split(",").map((m) => m.trim()).filter((m) => m).map((m) => (m === EMPTY ? "" : m));

// Bins as one line: "0 to 100 by 10", "2020-01-01 to 2025-01-01 by 1 month", or all edges.
function spelled(bins) {
  if (Array.isArray(bins)) return bins.join(", ");
  if (typeof bins === "number") return String(bins);
  if (typeof bins !== "object" || bins.start === undefined) return null;
  const unit = UNITS.find((u) => bins[`${u}s`] !== undefined);
  return `${bins.start} to ${bins.stop} by ${unit ? `${bins[`${unit}s`]} ${unit}${bins[`${unit}s`] > 1 ? "s" : ""}` : bins.width}`;
}

function number(text) {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value)) throw new Error(`“${text.trim()}” is no number`);
  return value;
}

// Exact values as one line, "0 to 6000 by 1", and what they are in a schema.
const exactly = ({ within, step }) => (within === undefined ? "" : `${within[0]} to ${within[1]} by ${step}`);

function grid(text) {
  const found = /^(.+?)\s+to\s+(.+?)\s+by\s+(.+)$/.exec(text.trim());
  if (!found) throw new Error("exact values are as 0 to 6000 by 1");
  return { within: [number(found[1]), number(found[2])], step: number(found[3]) };
}

function read(text, kind, exact) {
  if (exact && /^\d+$/.test(text.trim())) return Number(text);
  const even = /^(.+?)\s+to\s+(.+?)\s+by\s+(.+)$/.exec(text.trim());
  const point = kind === "date" ? (t) => t.trim() : number;
  if (!even) return text.split(",").map(point);
  const [start, stop] = [even[1], even[2]].map(point);
  if (kind !== "date") return { start, stop, width: number(even[3]) };
  const step = /^(\d+)\s+(day|month|year)s?$/.exec(even[3].trim());
  if (!step) throw new Error("steps of dates are as 1 day, 3 months, 1 year");
  return { start, stop, [`${step[2]}s`]: Number(step[1]) };
}

// What of an entry this page does not edit, such as a grid or a list in a file: it is kept as the schema has it.
const kept = (entry) => Object.keys(entry).some((key) => !EDITED.includes(key)) ||
  (entry.categories !== undefined && !Array.isArray(entry.categories)) || (entry.bins !== undefined && spelled(entry.bins) === null) || (entry.kind === "date" && entry.within !== undefined);

class Card {
  constructor(entry, reviewed, id, doubts = []) {
    this.entry = entry;
    this.fixed = kept(entry);
    const field = (name, label, input, help) => {
      input.id = `${id}-${name}`;
      this[name] = input;
      const line = make("p", {}, make("label", { for: input.id, textContent: label }), input);
      if (help) line.append(make("span", { className: "help", textContent: help, id: `${input.id}-help` }));
      if (help) input.setAttribute("aria-describedby", `${input.id}-help`);
      return line;
    };
    const box = (name, label) => {
      this[name] = make("input", { type: "checkbox", id: `${id}-${name}` });
      return make("label", { className: "choice" }, this[name], make("span", { textContent: label }));
    };
    const kinds = Object.entries(KINDS).map(([kind, text]) => new Option(text, kind));
    const publicly = make("div", { className: "public" }, make("h2", { textContent: "Publicly known" }));
    if (this.fixed) publicly.append(make("p", { textContent: "Kept as the schema has it: this page does not edit its values." }));
    else {
      this.lines = {
        kind: field("kind", "Kind", make("select")),
        categories: field("categories", "Every category there may be, one a line", make("textarea", { rows: 4, spellcheck: false })),
        exact: field("exact", "Exact values, for sums and means; or none", make("input", { spellcheck: false, autocomplete: "off" }), "As 0 to 6000 by 1: the first, the last, and the distance between two. Bins may then be a number of even ones, as 10."),
        bins: field("bins", "Bins", make("input", { spellcheck: false, autocomplete: "off" })),
        ordered: make("p", {}, box("ordered", "they have an order")),
        integer: make("p", {}, box("integer", "whole numbers")),
        missing: field("missing", "Marks of a missing value", make("input", { spellcheck: false, autocomplete: "off" }), `Separated by commas; ${EMPTY} is an empty cell. Without any, nothing may be missing.`),
        outside: field("outside", "A value that is not listed", make("select")),
      };
      this.kind.append(...kinds);
      this.binsHelp = make("span", { className: "help" });
      this.lines.bins.append(this.binsHelp);
      publicly.append(...Object.values(this.lines));
      this.kind.value = KINDS[entry.kind] ? entry.kind : "category";
      this.shape();
      this.kind.addEventListener("change", () => this.shape());
      this.missing.addEventListener("input", () => this.offer());
      this.categories.addEventListener("change", () => this.offer());
      if (reviewed) this.start();
    }
    const read = make("div", { className: "read" }, make("h2", {}, make("span", { className: "mark", textContent: reviewed ? "as the schema says" : "read off the data" })), ...this.seen(doubts));
    if (!reviewed && !this.fixed) read.append(make("p", {}, this.copy = make("button", { type: "button", textContent: "Start from this", "aria-label": `Start ${entry.name} from what was read off the data` })));
    const decide = make("p", { className: "decide" }, box("agreed", "Reviewed: this is public knowledge"), box("dropped", "Leave this column out"));
    this.agreed.checked = reviewed;
    this.problem = make("p", { className: "problem", role: "alert" });
    this.body = make("div", { className: "pair" }, read, publicly);
    this.element = make("fieldset", { className: "card" }, make("legend", { textContent: entry.name }), this.body, decide, this.problem);
    this.copy?.addEventListener("click", () => { this.start(); told(); });
    this.dropped.addEventListener("change", () => { this.body.hidden = this.dropped.checked; told(); });
    this.agreed.addEventListener("change", told);
    publicly.addEventListener("input", (event) => { if (event.target !== this.agreed) this.problem.textContent = ""; });
  }

  // What the draft says, as lines.
  seen(doubts) {
    const { kind, categories, bins, missing, ordered, integer } = this.entry;
    const lines = [];
    if (Array.isArray(categories)) lines.push(["Values that occur", make("span", { className: "chips" }, ...categories.map((c) => make("span", { textContent: c || EMPTY })))]);
    if (bins !== undefined && spelled(bins) !== null) lines.push([Array.isArray(bins) ? "Bins, by the values that occur" : "Around the extremes that occur", spelled(bins)]);
    if (missing?.length) lines.push(["Taken for missing", listed(missing)]);
    if (doubts.length) lines.push(["Taken for values: do these mean missing?", listed(doubts)]);
    const written = (WRITTEN[kind] ?? []).filter((key) => this.entry[key] !== undefined).map((key) => `${key} “${this.entry[key]}”`);
    if (written.length) lines.push(["Written with", written.join(", ")]);
    const about = [KINDS[kind] ?? kind, integer ? "whole" : "", ordered ? "ordered" : ""].filter((t) => t).join(", ");
    return [make("dl", { className: "pairs" }, ...[["Kind", about], ...lines].map(([term, value]) => make("div", {}, make("dt", { textContent: term }), make("dd", {}, value))))];
  }

  // Fill the public side with the draft: a beginning, that is to be changed.
  start() {
    if (this.fixed) return;
    const { kind, categories = [], bins, missing = [], ordered = false, integer = false, outside = "error" } = this.entry;
    this.kind.value = KINDS[kind] ? kind : "category";
    this.shape();
    this.categories.value = Array.isArray(categories) ? categories.join("\n") : "";
    this.bins.value = bins === undefined ? "" : spelled(bins);
    this.missing.value = listed(missing);
    this.ordered.checked = ordered;
    this.exact.value = kind === "number" ? exactly(this.entry) : "";
    this.integer.checked = integer;
    this.offer();
    this.outside.value = outside;
    if (!this.outside.value) this.outside.value = "error";
  }

  // The fields of the kind, and no others.
  shape() {
    const kind = this.kind.value;
    this.lines.categories.hidden = this.lines.ordered.hidden = kind !== "category";
    this.lines.bins.hidden = kind === "category";
    this.lines.integer.hidden = this.lines.exact.hidden = kind !== "number";
    this.binsHelp.textContent = kind === "date" ? "As 2020-01-01 to 2025-01-01 by 1 month, or all edges." : "As 0 to 100 by 10, or all edges: 0, 18, 65, 100. A bin ends before the next begins.";
    this.offer();
  }

  offer() {
    const before = this.outside.value;
    const found = [["error", "is an error"]];
    if (parsed(this.missing.value).length) found.push(["missing", "counts as missing"]);
    if (this.kind.value !== "category") found.push(["clip", "counts as the nearest bin"]);
    else found.push(...this.labels().map((label) => [label, `counts as ${label}`]));
    this.outside.replaceChildren(...found.map(([value, text]) => new Option(text, value)));
    this.outside.value = found.some(([value]) => value === before) ? before : "error";
  }

  labels() {
    return this.categories.value.split("\n").map((c) => c.trim()).filter((c) => c);
  }

  // The entry of a schema; an error that says what is missing.
  result() {
    const kind = this.kind?.value, name = this.entry.name;
    if (this.fixed) return { ...this.entry, reviewed: true };
    const found = { name, kind };
    if (kind === "category") {
      found.categories = this.labels();
      if (!found.categories.length) throw new Error("Which categories may there be?");
      if (this.ordered.checked) found.ordered = true;
    } else {
      if (!this.bins.value.trim()) throw new Error("Which bins?");
      const exact = kind === "number" && this.exact.value.trim() !== "";
      if (exact) Object.assign(found, grid(this.exact.value));
      found.bins = read(this.bins.value, kind, exact);
      if (kind === "number" && this.integer.checked) found.integer = true;
    }
    const missing = parsed(this.missing.value);
    if (missing.length) found.missing = missing;
    if (this.outside.value !== "error") found.outside = this.outside.value;
    for (const key of WRITTEN[kind] ?? []) if (this.entry[key] !== undefined) found[key] = this.entry[key];
    return { ...found, reviewed: true };
  }

  get decided() {
    return this.dropped.checked || this.agreed.checked;
  }
}

function told() {
  one("decided").textContent = `${cards.filter((c) => c.decided).length} of ${cards.length} columns decided`;
}

// The cards of a file.
export function show(review) {
  cards = review.columns.map((entry, i) => new Card(entry, review.reviewed, `column-${i}`, Object.hasOwn(review.doubts, entry.name) ? review.doubts[entry.name] : []));
  one("cards").replaceChildren(...cards.map((c) => c.element));
  one("warning").hidden = review.reviewed;
  one("start-all").hidden = review.reviewed;
  one("first-line").hidden = !review.doubted;
  one("doubted").textContent = review.doubted;
  const out = review.left_out.map(({ name, why }) => make("li", {}, make("strong", { textContent: name }), `: ${why}`));
  one("left-out").replaceChildren(...(out.length ? [make("h2", { textContent: "Left out by the draft" }), make("ul", {}, ...out)] : []));
  told();
}

// The entries that were reviewed; null where one is not decided, which is said and shown.
export function entries() {
  const found = [];
  let first = null;
  for (const card of cards) {
    card.problem.textContent = "";
    if (card.dropped.checked) continue;
    try {
      if (!card.agreed.checked) throw new Error("Tick “Reviewed”, or leave the column out.");
      found.push(card.result());
    } catch (error) {
      card.problem.textContent = error.message;
      first ??= card;
    }
  }
  first?.agreed.focus();
  return first ? null : found;
}

one("start-all").addEventListener("click", () => {
  for (const card of cards) card.start();
  told();
});
