"use strict";
// The table of contexts sorts by a column; what has no number goes last.
const table = document.getElementById("contexts");
const body = table.tBodies[0];
const rows = Array.from(body.rows);
table.querySelectorAll("th button").forEach((button) => {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const down = head.getAttribute("aria-sort") === "ascending";
    table.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = button.dataset.key;
    const value = (row) => (row.dataset[key] === "" ? null : Number(row.dataset[key]));
    rows.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      return (down ? y - x : x - y) || Number(a.dataset.context) - Number(b.dataset.context);
    });
    body.replaceChildren(...rows);
  });
});
