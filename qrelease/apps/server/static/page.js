// The analyst's page: no framework, no build step, nothing from anywhere else. All text goes in as text, never as HTML.

import { chart, plain, spread } from "./chart.js";

const SHOWN = 20; // answers in the chart
const one = (id) => document.getElementById(id);
let token = sessionStorage.getItem("token") ?? "";
let columns = [];
let answers = [];
let pending = null; // the request that was sent last and not answered: asked again, it keeps its key

async function call(path, body, key) {
  const headers = { Authorization: `Bearer ${token}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  const options = { method: body === undefined ? "GET" : "POST", headers, body: body && JSON.stringify(body) };
  const response = await fetch(path, options);
  if (response.ok) return response;
  const problem = await response.json();
  throw Object.assign(new Error(problem.detail), { status: response.status });
}

const json = async (...request) => (await call(...request)).json();

function say(text, bad = false) {
  one("status").textContent = text;
  one("status").className = bad ? "problem" : "";
}

function failed(error) {
  say(error.message, true);
  if (error.status === 401) leave();
}

function make(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

const priced = (cost) =>
  cost ? Object.entries(cost).map(([name, value]) => `${name} ${Number(value.toPrecision(3))}`).join(", ") : "free";

// What is spent, or left, of a total.
const amount = (cost) => (Object.values(cost).some(Boolean) ? priced(cost) : "nothing");

// What an answer took of the budget, and its own cost where that is in other terms: rho, with a budget in epsilon.
const paid = (a) => (a.takes && priced(a.takes) !== priced(a.cost) ? `${priced(a.takes)} (${priced(a.cost)})` : priced(a.cost));

function row(...cells) {
  const made = make("tr");
  made.append(...cells);
  return made;
}

async function enter() {
  const schema = await json("v1/schema");
  columns = schema.columns;
  one("dataset").firstChild.textContent =
    `${schema.dataset}: ${schema.cells.toLocaleString("en")} cells, neighbours ${schema.neighbours}. `;
  one("schema").tBodies[0].replaceChildren(...columns.map(described));
  const ordered = columns.filter((c) => c.ordered);
  one("term-column").replaceChildren(...columns.map((c) => new Option(c.name)));
  one("range-column").replaceChildren(...ordered.map((c) => new Option(c.name)));
  const boxes = () => columns.map((c) => {
    const label = make("label"), box = make("input");
    Object.assign(box, { type: "checkbox", value: c.name });
    label.append(box, ` ${c.name}`);
    return label;
  });
  one("form-marginal").replaceChildren(make("legend", "Columns"), ...boxes());
  one("measure-by").replaceChildren(make("legend", "By"), ...boxes());
  const numeric = columns.filter((c) => ["number", "coded"].includes(c.kind));
  one("measure-column").replaceChildren(...numeric.map((c) => new Option(c.name)));
  measured();
  offerCells();
  one("entry").hidden = true;
  one("desk").hidden = false;
  const { requests } = await budget();
  await remember(requests);
  one("where").focus();
}

function described(column) {
  const list = make("details");
  list.append(make("summary", column.conditions.slice(0, 3).join("; ")), make("p", column.conditions.join("; ")));
  const cell = make("td");
  cell.append(list);
  return row(make("td", column.name), make("td", column.kind), make("td", column.cells, "number"), cell);
}

function offerCells() {
  const column = columns.find((c) => c.name === one("term-column").value);
  one("term-cell").replaceChildren(...(column?.conditions ?? []).map((c) => new Option(c)));
}

async function budget() {
  const found = await json("v1/budget");
  const lines = [[`Yours (${found.name})`, found.analyst], ["The server's", found.server]].flatMap(([name, account]) => {
    const [unit, total] = Object.entries(account.total)[0];
    const bar = Object.assign(make("progress"), { max: total, value: account.spent[unit] });
    bar.setAttribute("aria-label", `${name}, spent`);
    const value = make("dd");
    const left = amount(account.left);
    const answers = `about ${account.answers.toLocaleString("en")} more counts that have to be paid for`;
    value.append(bar, ` spent ${amount(account.spent)} of ${priced(account.total)}, left ${left}: ${answers}`);
    return [make("dt", name), value];
  });
  one("budget").replaceChildren(...lines);
  return found;
}

async function remember(requests) {
  const first = Math.max(1, requests - 4);
  for (let number = first; number <= requests; number++) show(await json(`v1/history/${number}`));
}

// The fields of the chosen form, and no others.
function form() {
  for (const name of ["where", "range", "marginal", "numbers"]) one(`form-${name}`).hidden = name !== formed();
}

const formed = () => document.querySelector("input[name=form]:checked").value;

function query() {
  const form = formed();
  if (form === "where") return one("where").value.trim() ? { where: one("where").value } : null;
  if (form === "range") {
    const [column, low, high] = ["range-column", "range-low", "range-high"].map((id) => one(id).value);
    return column && low && high ? { range: { column, low, high } } : null;
  }
  if (form === "numbers") return numbers();
  const chosen = [...one("form-marginal").querySelectorAll("input:checked")].map((box) => box.value);
  return chosen.length ? { marginal: chosen } : null;
}

// A question about numbers, as the server reads it: the measure, its column, the groups and the condition.
function numbers() {
  const measure = one("measure").value, column = one("measure-column").value;
  const by = [...one("measure-by").querySelectorAll("input:checked")].map((box) => name(box.value));
  const met = one("measure-met").value.trim(), where = one("measure-where").value.trim();
  if (measure === "ratio" && !met) return null;
  if (!["ratio", "count"].includes(measure) && !column) return null;
  const asked = measure === "ratio" ? `:${met}` : measure === "count" ? "" : `:${name(column)}`;
  const groups = by.length ? ` by ${by.join("*")}` : "";
  return { numbers: `${measure}${asked}${groups}${where ? ` where ${where}` : ""}` };
}

const name = (column) => `"${column.replaceAll('"', '""')}"`;

function measured() {
  const measure = one("measure").value;
  one("measure-of").hidden = ["ratio", "count"].includes(measure);
  one("measure-if").hidden = measure !== "ratio";
}

// A price is said in its own line, and below it why a question has none: it comes when it comes, and may not wipe what the last act said.
let waiting = 0;
let agreed = null; // the price that is shown: what for, and the most that it takes of the budget
function price() {
  clearTimeout(waiting);
  one("price").textContent = "–";
  one("refused").textContent = "";
  waiting = setTimeout(async () => {
    const asked = query();
    if (!asked) return;
    const { told, refused, most } = await quoted(asked);
    const text = JSON.stringify(asked);
    if (text !== JSON.stringify(query())) return;
    agreed = { text, most };
    one("price").textContent = told ?? "–";
    one("refused").textContent = refused ?? "";
  }, 250);
}

async function quoted(asked) {
  try {
    const [quote] = (await json("v1/quote", { queries: [asked] })).quotes;
    const other = quote.takes && priced(quote.takes) !== priced(quote.cost); // a price in rho, a budget in epsilon
    const source = quote.source === "synopsis" ? "synopsis: more than this answer by itself, others like it are free then" : quote.source;
    const cost = other ? `${priced(quote.takes)} of your budget (${priced(quote.cost)}; ${source})` : `${priced(quote.cost)} (${source})`;
    const price = quote.error === undefined ? cost : `${cost}; off by up to ${asked.numbers ? "about " : ""}${plain(quote.error)}`;
    const noted = quote.note ? `${price}; ${quote.note}` : price;
    if (!quote.affordable) return { told: `${price}: more than the budget has left`, most: null };
    return { told: noted, most: Object.values(quote.takes ?? { free: 0 })[0] };
  } catch (error) {
    if (error.status === 401) failed(error);
    return { refused: error.message, most: null };
  }
}

const fresh = () => [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");

async function ask(event) {
  event.preventDefault();
  const asked = query();
  if (!asked) return say("Say first what to count.", true);
  const text = JSON.stringify(asked);
  if (pending?.text !== text) pending = { text, key: fresh() };
  one("ask").disabled = true;
  const whose = token;
  try {
    const most = agreed?.text === text && agreed.most !== null ? `?most=${agreed.most}` : "";
    const reply = await json(`v1/query${most}`, asked, pending.key);
    if (whose !== token) return; // has left meanwhile
    show(reply);
    pending = null;
    say("Answered.");
    await budget();
    price();
  } catch (error) {
    failed(error);
    if (error.status === 402) price(); // others' questions may have changed it
  } finally {
    one("ask").disabled = false;
  }
}

function show(reply) {
  answers = [...reply.answers, ...answers];
  // Numbers of one question have an axis of their own; counts share one.
  const drawn = reply.answers[0]?.low === undefined ? answers.filter((a) => a.low === undefined) : reply.answers;
  one("chart").replaceChildren(chart(drawn.slice(0, SHOWN)));
  one("answers").tBodies[0].replaceChildren(
    ...answers.slice(0, 200).map((a) =>
      row(answered(a), make("td", plain(a.value), "number"), make("td", spread(a), "number"),
        make("td", a.source), make("td", paid(a)))),
  );
}

// The question, and below it what has to be known of its answer.
function answered(a) {
  const cell = make("td", a.query);
  if (a.note) cell.append(make("p", a.note, "help"));
  return cell;
}

async function synthetic() {
  const response = await call("v1/synthetic?format=csv&rows=1000");
  const link = make("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = "synthetic.csv";
  link.click();
  URL.revokeObjectURL(link.href);
  say("1000 synthetic records: free, made of the answers so far.");
}

// Whoever enters next, in the same tab, sees nothing of what was asked here.
function leave() {
  sessionStorage.removeItem("token");
  token = "";
  pending = null;
  show({ answers: (answers = []) });
  one("compose").reset();
  form();
  measured();
  price();
  one("desk").hidden = true;
  one("entry").hidden = false;
  one("token").value = "";
  one("token").focus();
}

one("entry").addEventListener("submit", (event) => {
  event.preventDefault();
  token = one("token").value.trim();
  say("");
  enter().then(() => sessionStorage.setItem("token", token), failed);
});
one("leave").addEventListener("click", leave);
one("compose").addEventListener("submit", ask);
one("compose").addEventListener("input", () => {
  say("");
  price();
});
for (const radio of document.querySelectorAll("input[name=form]")) {
  radio.addEventListener("change", () => {
    form();
    price();
  });
}
one("term-column").addEventListener("change", offerCells);
one("measure").addEventListener("change", measured);
one("term-add").addEventListener("click", () => {
  const text = one("where").value.trim(), term = one("term-cell").value;
  one("where").value = text ? `${text} and ${term}` : term;
  price();
});
one("synthetic").addEventListener("click", () => synthetic().catch(failed));
if (token) enter().catch(failed);
