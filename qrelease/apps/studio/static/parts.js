// What the modules of the page share: no framework, no build step, nothing from anywhere else. All text goes in as text.

export const one = (id) => document.getElementById(id);

export function make(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes("-") || key === "for" || key === "role") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children);
  return made;
}

export function svg(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// The answer of the studio; an error whose message is the problem's one line.
export async function call(path, body, type = "application/json") {
  const options = body === undefined ? {} : { method: "POST", headers: { "Content-Type": type }, body: type === "application/json" ? JSON.stringify(body) : body };
  let response;
  try {
    response = await fetch(`api/${path}`, options);
  } catch {
    throw new Error("The studio does not answer: was it stopped?");
  }
  if (response.ok) return (response.headers.get("content-type") ?? "").startsWith("application/json") ? response.json() : response.text();
  const problem = await response.json();
  throw Object.assign(new Error(problem.detail), { status: response.status });
}

export function say(text, bad = false) {
  one("status").textContent = text;
  one("status").className = bad ? "problem" : "";
}

// A number as people read it, to so many digits.
export const plain = (number, digits = 3) => Number(number.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });

// A share as per cent.
export const percent = (share) => `${plain(100 * share, 2)} %`;

export const pairs = (entries) => entries.map(([term, value]) => make("div", {}, make("dt", { textContent: term }), make("dd", { textContent: value })));
