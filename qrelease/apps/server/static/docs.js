// The OpenAPI document, for people.

const made = (name, text) => Object.assign(document.createElement(name), { textContent: text ?? "" });
// The names of the shapes that a schema has: one, or one of several.
const shapes = (schema) => schema?.$ref?.split("/").pop() ?? (schema?.anyOf ?? []).map(shapes).join(" or ");
const spec = await (await fetch("openapi.json")).json();

// The document is the same for everybody; who has entered a token sees examples of the columns that it is for.
const entered = sessionStorage.getItem("token");
const own = entered && await fetch("v1/examples", { headers: { Authorization: `Bearer ${entered}` } });
const asked = own && own.ok ? await own.json() : null;
const fitting = (shape, example) => (asked ? { Query: asked.queries[0], Queries: asked }[shape] ?? example : example);

for (const [path, operations] of Object.entries(spec.paths)) {
  for (const [method, operation] of Object.entries(operations)) {
    const section = made("section");
    section.append(made("h2", `${method.toUpperCase()} ${path}`), made("p", operation.summary));
    const list = made("dl");
    for (const p of operation.parameters) {
      list.append(made("dt", `${p.name} (${p.in}${p.required ? ", required" : ""})`), made("dd", p.description ?? JSON.stringify(p.schema)));
    }
    const body = shapes(operation.requestBody?.content["application/json"].schema);
    if (body) list.append(made("dt", "body"), made("dd", body));
    const example = body && fitting(body, operation.requestBody.content["application/json"].example);
    const key = operation.parameters.some((p) => p.name === "Idempotency-Key") ? ' -H "Idempotency-Key: any-name-1"' : "";
    const json = example ? ` -H "Content-Type: application/json" \\\n  --data-binary @- <<'END'\n${JSON.stringify(example, null, 1)}\nEND` : "";
    const token = operation.security.length ? ' -H "Authorization: Bearer $TOKEN"' : "";
    const method_ = method === "get" ? "" : ` -X ${method.toUpperCase()}`;
    section.append(made("pre", `curl${method_} ${location.origin}${path.replace("{number}", "1")}${token}${key}${json}`));
    for (const [status, response] of Object.entries(operation.responses)) {
      const kinds = Object.entries(response.content).map(([kind, c]) => `${shapes(c.schema)} ${kind}`);
      list.append(made("dt", status), made("dd", `${response.description}: ${kinds.join(", ")}`));
    }
    section.append(list);
    document.getElementById("operations").append(section);
  }
}
for (const [name, schema] of Object.entries(spec.components.schemas)) {
  const section = made("section");
  section.append(made("h2", name), made("pre", JSON.stringify(schema, null, 1)));
  document.getElementById("operations").append(section);
}
