// Draws grids of cells, lights up what belongs together, reports clicks. Everything is set as text, nothing as HTML.
function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

function readableOn(hue) {
  const [red, green, blue] = [1, 3, 5].map(at => parseInt(hue.slice(at, at + 2), 16));
  return 0.3 * red + 0.59 * green + 0.11 * blue > 115 ? "#06141d" : "#ffffff";
}

function drawCell([text, name, madeOf, hue, note, marked, faint], picks) {
  const cell = element("button", "np-cell", text);
  cell.type = "button";
  cell.tabIndex = picks ? 0 : -1;
  cell.classList.toggle("np-picks", picks);
  cell.classList.toggle("np-marked", marked);
  cell.classList.toggle("np-faint", faint);
  if (hue) {
    cell.style.setProperty("--hue", hue);
    cell.style.setProperty("--on-hue", readableOn(hue));
  }
  cell.dataset.name = name;
  cell.dataset.note = note;
  cell.madeOf = madeOf;
  cell.setAttribute("aria-label", note ? `${text}: ${note}` : text);
  return cell;
}

function drawGrid(grid, picks) {
  const box = element("div", "np-grid");
  if (grid.title) box.append(element("p", "np-grid-title", grid.title));
  const table = element("table");
  table.setAttribute("role", "presentation");
  if (grid.columnLabels.length) {
    const head = element("tr");
    if (grid.rowLabels.length) head.append(element("th"));
    for (const label of grid.columnLabels) head.append(element("th", "", label));
    table.append(head);
  }
  grid.rows.forEach((row, index) => {
    const line = element("tr");
    if (grid.rowLabels.length) line.append(element("th", "", grid.rowLabels[index] ?? ""));
    for (const one of row) {
      const place = element("td");
      if (one) place.append(drawCell(one, picks));
      line.append(place);
    }
    table.append(line);
  });
  box.append(table);
  return box;
}

export default function ({ data: written, parentElement, setTriggerValue }) {
  const data = JSON.parse(new TextDecoder().decode(written));
  const before = parentElement.querySelector(".np-all");
  // A redraw under the pointer keeps what is lit, and the focus.
  const focused = parentElement.activeElement ?? document.activeElement;
  const place = before ? [...before.querySelectorAll(".np-cell")].indexOf(focused) : -1;
  const lit = before?.lit;
  const all = element("div", "np-all");
  const body = element("div", "np-cells");
  body.setAttribute("role", "group");
  body.setAttribute("aria-label", data.alt);
  for (const grid of data.grids) {
    if (!grid.beside && body.children.length) body.append(element("div", "np-break"));
    body.append(drawGrid(grid, data.picks));
  }
  const told = element("p", "np-told");
  told.setAttribute("aria-live", "polite");
  const cells = [...body.querySelectorAll(".np-cell")];
  const hasNotes = cells.some(cell => cell.dataset.note);
  all.append(body);
  if (hasNotes) all.append(told);

  function light(index) {
    all.lit = index;
    const cell = cells[index];
    const own = new Set(cell && cell.dataset.name ? [cell.dataset.name] : []);
    const sources = new Set(cell ? cell.madeOf : []);
    body.classList.toggle("np-pointing", own.size + sources.size > 0);
    cells.forEach((one, at) => {
      const isOwn = own.has(one.dataset.name) || (cell && at === index);
      one.classList.toggle("np-lit", isOwn || sources.has(one.dataset.name));
      one.classList.toggle("np-source", !isOwn && sources.has(one.dataset.name));
    });
    told.textContent = cell ? cell.dataset.note : "";
  }

  body.addEventListener("pointerover", event => {
    const cell = event.target.closest(".np-cell");
    if (cell) light(cells.indexOf(cell));
  });
  body.addEventListener("pointerleave", () => light(-1));
  body.addEventListener("focusin", event => light(cells.indexOf(event.target)));
  body.addEventListener("focusout", () => light(-1));
  body.addEventListener("click", event => {
    const cell = event.target.closest(".np-cell");
    if (cell && data.picks && cell.dataset.name) setTriggerValue("picked", cell.dataset.name);
  });

  if (before) before.replaceWith(all);
  else parentElement.append(all);
  if (place >= 0 && cells[place]) cells[place].focus();
  else if (lit >= 0 && cells[lit] && body.matches(":hover")) light(lit);
}
