// Where a token leads: the datasets that it is for.

const one = (id) => document.getElementById(id);

one("entry").addEventListener("submit", async (event) => {
  event.preventDefault();
  const token = one("token").value.trim();
  const response = await fetch("v1/datasets", { headers: { Authorization: `Bearer ${token}` } });
  const found = await response.json();
  one("status").textContent = response.ok ? "" : found.detail;
  one("status").className = response.ok ? "" : "problem";
  if (response.ok) sessionStorage.setItem("token", token);
  one("datasets").replaceChildren(...(found.datasets ?? []).map((name) => {
    const item = document.createElement("li"), link = document.createElement("a");
    Object.assign(link, { href: `datasets/${encodeURIComponent(name)}/`, textContent: name });
    item.append(link);
    return item;
  }));
});
