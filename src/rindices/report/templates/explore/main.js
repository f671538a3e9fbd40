// Connect the panels: a person or a range that is picked in one is shown in all.
async function startExplorer() {
  const get = (id) => document.getElementById(id);
  const data = readJson("explore-data");
  const arrays = await unpackArrays(data.arrays);
  const severity = new SeverityPanel(data, arrays, get("sliders"), get("severity-views"), get("severity-bars"), get("severity-summary"));
  get("explorer").hidden = false;
  severity.set(data.indices.map(() => 0.5));
  nameRegions(data, arrays);
  get("severity-none").addEventListener("click", () => severity.set(data.indices.map(() => 0)));
  get("severity-full").addEventListener("click", () => severity.set(data.indices.map(() => 1)));
  if (!get("explore-people")) return;
  const people = makePeople(data, await unpackArrays(readJson("explore-people")));
  connectPeople(data, people, severity, get);
}

function connectPeople(data, people, severity, get) {
  const state = { person: -1, rows: null, order: null };
  const panel = new PersonPanel(data, people, get("person"), (severities) => computeChanges(data, severity.arrays, severities));
  const scatter = new Scatter(people, get("scatter"), get("scatter-overlay"), pickPerson, pickBox);
  const choices = { x: get("axis-x"), y: get("axis-y"), colour: get("colour-by") };
  const bounds = ["x-low", "x-high", "y-low", "y-high"].map(get);

  fillSelect(choices.x, people.axes, 0);
  fillSelect(choices.y, people.axes, data.indices.length > 1 ? 1 : people.axes.length - 1);
  fillSelect(choices.colour, people.coloured, 0);

  function getColumn(choice, columns) {
    return columns.find((column) => column.key === choice.value);
  }

  function redraw() {
    if (!scatter.canvas.parentElement.clientWidth) return; // hidden, as on paper: a canvas without width cannot be drawn
    const [x, y] = [getColumn(choices.x, people.axes), getColumn(choices.y, people.axes)];
    const colour = getColumn(choices.colour, people.coloured);
    scatter.setColumns(x, y, colour);
    drawLegend(get("legend"), colour);
    panel.show(state.person, state.rows);
  }

  function changeTheme() {
    themeColours.clear();
    redraw();
  }

  function changeAxes() {
    state.order = null;
    clearBox();
    redraw();
  }

  function pickPerson(person) {
    state.person = person;
    scatter.setPerson(person);
    panel.show(person, state.rows);
    get("person-name").textContent = describePerson(person);
    get("person-clear").disabled = false;
    if (get("severity-follow").checked) severity.set(data.indices.map((name) => people.arrays[name][person]));
  }

  function describePerson(person) {
    const parts = [people.ids ? people.ids[person] : "A person", people.patient[person] ? "patient" : "control"];
    for (const column of people.coloured) {
      if (!column.key.startsWith("covariate.")) continue;
      const value = column.values[person];
      parts.push(`${column.label} ${column.levels ? column.levels[value] : formatAny(value)}`);
    }
    if (people.arrays.novel && people.arrays.novel[person]) parts.push("unlike the training people (novel)");
    return `${parts.join(", ")}.`;
  }

  function clearPerson() {
    state.person = -1;
    scatter.setPerson(-1);
    panel.show(-1, state.rows);
    get("person-name").replaceChildren("Nobody is picked", makeElement("span", { className: "on-screen" }, ": click a dot, or use the arrow keys on the picture"), ".");
    get("person-clear").disabled = true;
  }

  // Neighbours in the order of the horizontal axis.
  function step(direction) {
    const values = getColumn(choices.x, people.axes).values;
    state.order ||= Uint32Array.from(values.keys()).sort((a, b) => values[a] - values[b]);
    const place = state.person < 0 ? (direction > 0 ? -1 : 0) : state.order.indexOf(state.person);
    pickPerson(state.order[(place + direction + people.count) % people.count]);
  }

  function pickBox(box) {
    [...box.x, ...box.y].forEach((value, k) => { bounds[k].value = Number(value.toPrecision(4)); });
    applyBox();
  }

  function applyBox() {
    const [x, y] = [getColumn(choices.x, people.axes), getColumn(choices.y, people.axes)];
    const numbers = bounds.map((input) => (input.value === "" ? null : Number(input.value)));
    if (numbers.every((number) => number === null)) return clearBox(true);
    const box = { x: [numbers[0] ?? -Infinity, numbers[1] ?? Infinity], y: [numbers[2] ?? -Infinity, numbers[3] ?? Infinity] };
    showRows(selectBox(x.values, y.values, box));
  }

  function showRows(rows) {
    state.rows = rows;
    scatter.setRows(rows);
    panel.show(state.person, rows);
    get("box-summary").textContent = describeRows(rows);
    get("box-clear").disabled = false;
    if (get("box-save")) get("box-save").disabled = !rows.length;
  }

  function describeRows(rows) {
    const patients = rows.filter((row) => people.patient[row]).length;
    const medians = people.axes
      .filter((column) => column.key !== SPREAD)
      .map((column) => `${column.label} ${formatAny(computeMedian(Float32Array.from(rows, (row) => column.values[row])))}`);
    const what = `${rows.length.toLocaleString("en")} people selected: ${rows.length - patients} controls and ${patients} patients.`;
    return rows.length ? `${what} Medians: ${medians.join(", ")}.` : what;
  }

  function clearBox(isRedrawn = false) {
    bounds.forEach((input) => { input.value = ""; });
    state.rows = scatter.rows = null;
    get("box-summary").textContent = "Nobody is selected: drag over dots, or give a range.";
    get("box-clear").disabled = true;
    if (get("box-save")) get("box-save").disabled = true;
    if (isRedrawn) redraw();
  }

  function saveRows() {
    const lines = [["participant_id", ...data.indices].join("\t")];
    for (const row of state.rows) lines.push([people.ids[row], ...data.indices.map((name) => people.arrays[name][row].toFixed(4))].join("\t"));
    const link = makeElement("a", { href: URL.createObjectURL(new Blob([`${lines.join("\n")}\n`])), download: "selected.tsv" });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  for (const choice of [choices.x, choices.y]) choice.addEventListener("change", changeAxes);
  choices.colour.addEventListener("change", redraw);
  get("person-next").addEventListener("click", () => step(1));
  get("person-previous").addEventListener("click", () => step(-1));
  get("person-clear").addEventListener("click", clearPerson);
  get("box-clear").addEventListener("click", () => clearBox(true));
  for (const input of bounds) input.addEventListener("change", applyBox);
  if (get("box-save")) get("box-save").addEventListener("click", saveRows);
  if (people.ids) new PersonSearch(people, get("person-search"), get("person-matches"), pickPerson);
  const redrawAfterLayout = () => requestAnimationFrame(() => { if (scatter.width !== scatter.canvas.parentElement.clientWidth) redraw(); });
  new ResizeObserver(redrawAfterLayout).observe(get("explorer"));
  new MutationObserver(changeTheme).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changeTheme);
  clearPerson();
  clearBox();
  redraw();
}

function fillSelect(select, columns, chosen) {
  columns.forEach((column, k) => select.append(makeElement("option", { value: column.key, selected: k === chosen }, column.label)));
}

startExplorer().catch((error) => {
  const message = document.getElementById("explore-failed");
  message.hidden = false;
  message.textContent = `This browser cannot show this section (${error.message}). The rest of the page does not need it.`;
});
