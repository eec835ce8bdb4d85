// The path from a file to a release: one step is shown, those before it can be gone back to.

import * as columns from "./columns.js";
import { call, make, one, pairs, say } from "./parts.js";
import * as quality from "./quality.js";

const STEPS = ["data", "columns", "unit", "price", "result"];
const DRAFT = "draft a new one";
let review = null; // the columns of the chosen file
let newLedger = true; // whether the price was of one that is not there yet
let person = null; // as the schema that was there has it

function show(step) {
  for (const name of STEPS) {
    one(name).hidden = name !== step;
    const button = document.querySelector(`[data-step=${name}]`);
    if (name === step) {
      button.disabled = false;
      button.setAttribute("aria-current", "step");
    } else button.removeAttribute("aria-current");
  }
  one(`${step}-title`).focus({ preventScroll: true });
  scrollTo(0, 0);
}

// What comes after a step is open only once it was gone through again.
function lock(step) {
  for (const name of STEPS.slice(STEPS.indexOf(step) + 1)) {
    if (name !== "result") document.querySelector(`[data-step=${name}]`).disabled = true;
  }
}

// Something that takes a while, of one button: it is not pressed twice, and what goes wrong is said.
async function during(button, work, what = "") {
  button.disabled = true;
  say(what);
  try {
    await work();
    if (one("status").textContent === what) say("");
  } catch (error) {
    say(error.message, true);
  } finally {
    button.disabled = false;
  }
}

// --- the file

async function list(chosen) {
  const found = await call("files");
  one("folder").textContent = found.folder;
  one("file").replaceChildren(...found.data.map((name) => new Option(name)));
  if (chosen) one("file").value = chosen;
  one("take").disabled = !found.data.length;
  if (!found.data.length) one("file").replaceChildren(new Option("there is no data file in this folder", ""));
  const before = one("schema").value;
  one("schema").replaceChildren(new Option(DRAFT, ""), ...found.schemas.map((name) => new Option(name)));
  if (found.schemas.includes(before)) one("schema").value = before;
  return found;
}

async function choose(place) {
  review = await call("draft", place);
  columns.show(review);
  person = review.person;
  one("person").replaceChildren(...review.header.map((name) => new Option(name)));
  document.querySelector(`[name=unit][value=${person ? "person" : "record"}]`).checked = true;
  if (person) {
    one("person").value = person.column;
    one("at-most").value = person.at_most ?? 1;
  }
  whose();
  lock("columns");
  show("columns");
}

one("pick").addEventListener("submit", (event) => {
  event.preventDefault();
  const schema = one("schema").value;
  during(one("take"), () => choose({ file: one("file").value, ...(schema ? { schema } : {}) }), "Reading the columns …");
});
one("type").addEventListener("submit", (event) => {
  event.preventDefault();
  during(event.submitter, () => choose({ path: one("path").value }), "Reading the columns …");
});
one("send").addEventListener("submit", (event) => {
  event.preventDefault();
  const [file] = one("sent").files;
  if (!file) return say("Choose a file first.", true);
  return during(event.submitter, async () => {
    const { file: name } = await call(`upload?name=${encodeURIComponent(file.name)}`, file, "application/octet-stream");
    await list(name);
    say(`${name} is in the folder now.`);
  }, "Copying …");
});

// --- the columns and the unit

let entries = [];
one("review").addEventListener("submit", (event) => {
  event.preventDefault();
  const found = columns.entries();
  if (!found) return say("Some columns are not decided.", true);
  if (!found.length) return say("Keep at least one column.", true);
  entries = found;
  // What is wrong with an entry is said here, beside the columns.
  return during(one("reviewed"), async () => {
    await call("schema", { content: content() });
    lock("unit");
    show("unit");
  });
});

function content() {
  const chosen = document.querySelector("[name=unit]:checked").value === "person";
  if (!chosen) return { attribute: entries };
  const column = one("person").value;
  const same = person?.column === column ? person : {};
  return { attribute: entries.filter((e) => e.name !== column), person: { ...same, column, at_most: Number(one("at-most").value) } };
}

function whose() {
  one("of-person").hidden = document.querySelector("[name=unit]:checked").value !== "person";
}

for (const radio of document.querySelectorAll("[name=unit]")) radio.addEventListener("change", whose);
one("whose").addEventListener("submit", (event) => {
  event.preventDefault();
  during(event.submitter, async () => {
    const { schema, cells, columns: kept } = await call("schema", { content: content(), save: true, by: one("by").value });
    show("price");
    say(`The schema is ${schema}: ${kept.length} columns, a universe of ${cells} cells.`);
    await move();
    await compare();
  });
});

// --- the price

const lines = (name) => one(name).value.split("\n").map((line) => line.trim()).filter((line) => line);

function terms() {
  const chosen = document.querySelector("[name=workload]:checked").value;
  const workload = chosen === "own" ? lines("parts") : [chosen];
  const epsilon = Number(one("epsilon").value), delta = Number(one("delta").value), total = one("total").value;
  const neighbours = document.querySelector("[name=neighbours]:checked").value;
  const numbers = lines("numbers");
  const found = { epsilon, workload, neighbours, ...(numbers.length ? { numbers } : {}), ...(delta ? { delta } : {}) };
  if (newLedger && total) Object.assign(found, { total_epsilon: Number(total), ...(delta ? { total_delta: Number((10 * delta).toPrecision(6)) } : {}) });
  return found;
}

let resumable = false; // whether a release was charged and not finished: the same one goes on for free
let asked = 0;
let price = null;
async function move() {
  const mine = ++asked;
  const records = Number(one("records").value);
  price = null;
  one("go").disabled = true;
  if (!records) {
    quality.blank();
    one("refusal").textContent = "Say about how many records there are.";
    return;
  }
  try {
    const given = terms();
    const found = await call("price", { terms: given, records });
    if (mine !== asked) return;
    price = { ...found, terms: given };
    newLedger = found.ledger.new;
    one("of-total").hidden = !newLedger;
    one("refusal").textContent = found.ledger.why ?? "";
    one("go").disabled = found.ledger.why !== null && !resumable;
    quality.figures(found, given, records);
    quality.draw(given.epsilon, found.predicted.off);
    quality.standing(found.ledger, one("ledger"));
  } catch (error) {
    if (mine !== asked) return;
    quality.blank();
    one("refusal").textContent = error.message;
  }
}

let compared = "";
// The curve, anew where something else than ε has changed.
async function compare() {
  const records = Number(one("records").value), given = terms();
  const about = JSON.stringify([{ ...given, epsilon: 1 }, records, entries, content().person]);
  if (!records || about === compared) return;
  compared = about;
  quality.remember([]);
  try {
    const { curve } = await call("curve", { terms: { ...given, epsilon: 1, total_epsilon: null, total_delta: null }, records });
    if (about !== compared) return;
    quality.remember(curve);
    if (price) quality.draw(price.terms.epsilon, price.predicted.off);
  } catch {
    compared = ""; // the price says why
  }
}

let waiting = 0;
function changed() {
  one("own").hidden = document.querySelector("[name=workload]:checked").value !== "own";
  one("go").disabled = true;
  clearTimeout(waiting);
  waiting = setTimeout(() => move().then(compare), 120);
}

one("terms").addEventListener("input", (event) => {
  if (event.target === one("slider")) one("epsilon").value = Number((10 ** Number(one("slider").value)).toPrecision(2));
  if (event.target === one("epsilon")) one("slider").value = Math.log10(Number(one("epsilon").value) || 1);
  say("");
  changed();
});

// --- the release

one("terms").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!price || one("go").disabled) return;
  const { ledger, cost, folder } = price;
  const stands = ledger.new ? `new, with a total of ε = ${price.terms.total_epsilon ?? price.terms.epsilon}` : `${ledger.spent} spent of ${ledger.total}`;
  one("summary").replaceChildren(...pairs([["charge", cost], ["ledger", ledger.place], ["stands", stands], ["writes", folder]]));
  one("confirm").showModal();
});
one("not-yet").addEventListener("click", () => one("confirm").close());
one("charge").addEventListener("click", () => {
  one("confirm").close();
  during(one("charge"), async () => {
    await call("release", { offer: price.offer, confirmed: true });
    one("done").hidden = one("log").hidden = true;
    one("account").replaceChildren();
    show("result");
    await follow();
    await move(); // a price is confirmed once
  });
});

async function follow() {
  for (;;) {
    const state = await call("made");
    await tell(state);
    if (state.state !== "running") return;
    await new Promise((then) => setTimeout(then, 400));
  }
}

async function tell(state) {
  const told = { running: `Releasing: ${state.seconds.toFixed(0)} s …`, done: `Released into ${state.folder}, in ${state.seconds} s.`, failed: state.error };
  one("progress").textContent = told[state.state];
  one("progress").className = state.state === "failed" ? "lead problem" : "lead";
  one("log").hidden = !state.said.length;
  one("said").textContent = state.said.join("\n");
  if (state.state === "running") return;
  resumable = state.charged ?? false;
  quality.standing(state.ledger, one("account"), true);
  if (state.state !== "done") return;
  const at = (name) => `api/made/${encodeURIComponent(state.folder)}/${encodeURIComponent(name)}`;
  one("files").replaceChildren(...state.files.map((name) => make("li", {}, make("a", { href: at(name), textContent: name, download: name === "report.html" ? "report.html" : name }))));
  one("report").src = one("whole").href = at("report.html");
  one("code").textContent = await call("script/release.sh");
  one("done").hidden = false;
}

for (const button of document.querySelectorAll("[data-back]")) button.addEventListener("click", () => { say(""); show(button.dataset.back); });
for (const button of document.querySelectorAll("[data-step]")) button.addEventListener("click", () => {
  say("");
  show(button.dataset.step);
  if (button.dataset.step === "price") move();
});
one("schema").addEventListener("change", () => say(""));
show("data");
list().then(({ release }) => {
  if (!release) return undefined;
  show("result"); // the page was loaded again
  return release.state === "running" ? follow() : tell(release);
}).catch((error) => say(error.message, true));
