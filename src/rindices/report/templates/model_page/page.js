// The page: files in, R-indices on the screen and as a TSV file. Nothing leaves the machine.
const [MAX_SHOWN, MAX_OFFERED] = [200, 5000];
const PEOPLE_PER_TURN = 5;

function readPeople(model, tables) {
  const columns = tables.map((table) => findRegionColumns(model, table));
  const found = columns.map((parts) => parts.filter((part) => part.length).length);
  const main = found.indexOf(Math.max(...found));
  const table = tables[main];
  const absent = model.regions.filter((_, r) => !columns[main][r].length);
  if (2 * absent.length > model.regions.length) {
    throw new Error(`${table.name} lacks ${absent.length} of the ${model.regions.length} ${model.noun} of this model: ${absent.slice(0, 5).join(", ")}. Name the columns as the model does.`);
  }
  const others = tables.filter((_, k) => k !== main).map((other) => indexById(model, other));
  const idColumn = findIdColumn(model, table);
  const session = findColumn(table, model.session_names);
  const seen = new Set();
  const people = table.rows.map((row, number) => {
    const id = row[idColumn];
    if (id === "") throw new Error(`${table.name}: row ${number + 1} has no id: give one.`);
    const key = session >= 0 ? `${id} ${row[session]}` : id;
    if (seen.has(key)) throw new Error(`${table.name}: duplicate ID ${key}: keep one row.`);
    seen.add(key);
    return { id, session: session >= 0 ? row[session] : null, row };
  });
  const getCell = (names, person) => {
    for (const { table: other, rows } of [{ table, rows: null }, ...others]) {
      const place = findColumn(other, names);
      const row = rows ? rows.get(person.id) : person.row;
      if (place >= 0 && row) return row[place];
    }
    return null;
  };
  return { people, columns: columns[main], absent, getCell, table, hasSessions: session >= 0 };
}

function findIdColumn(model, table) {
  return Math.max(0, findColumn(table, model.id_names));
}

function indexById(model, table) {
  const column = findIdColumn(model, table);
  return { table, rows: new Map(table.rows.map((row) => [row[column], row])) };
}

function listCovariateNames(model, covariate) {
  return [covariate.name, ...(normaliseName(covariate.name) === "icv" ? model.head_size_names : [])];
}

// Read and prepare everyone; people who cannot be used are refused with the reason.
function preparePeople(model, arrays, tables) {
  const { people, columns, absent, getCell, table, hasSessions } = readPeople(model, tables);
  model.covariates.forEach((covariate) => {
    if (getCell(listCovariateNames(model, covariate), people[0]) === null) throw new Error(`the column ${covariate.name} is missing: add it, or add a table of participants that has it.`);
  });
  if (model.sites && getCell(model.site_names, people[0]) === null) throw new Error("the column of the site is missing: add it.");
  const refused = [];
  const ready = [];
  const isKnown = (name) => getCell([name], people[0]) !== null;
  const hasCentiles = model.healthy !== null && isKnown("age") && isKnown("sex");
  for (const person of people) {
    const problems = [];
    if (hasCentiles) [person.age, person.sex] = [parseNumber(getCell(["age"], person) ?? ""), getCell(["sex"], person)];
    person.volumes = readRegions(model, table, columns, person.row, problems);
    person.covariates = model.covariates.map((covariate) => getCell(listCovariateNames(model, covariate), person) ?? "");
    const design = encodeCovariates(model, person.covariates, problems);
    const site = model.sites ? model.sites.indexOf(getCell(model.site_names, person) ?? "") : -1;
    if (model.sites && site < 0) problems.push("the site was not in training");
    if (problems.length) {
      refused.push({ id: person.session === null ? person.id : `${person.id} ${person.session}`, why: problems[0] });
      continue;
    }
    person.values = prepareValues(model, arrays, person.volumes, design, site);
    person.memberValues = prepareForMembers(model, arrays, person.volumes, design, site);
    ready.push(person);
  }
  checkTable(model, ready);
  return { ready, refused, absent, hasSessions, hasCentiles };
}

async function assessTables(model, arrays, consensus, tables, onProgress) {
  const { ready, refused, absent, hasSessions, hasCentiles } = preparePeople(model, arrays, tables);
  const results = [];
  for (let k = 0; k < ready.length; k++) {
    const person = ready[k];
    const outcome = assessPerson(model, arrays, consensus, person);
    if (hasCentiles && outcome.indices) outcome.centiles = computeCentiles(model, arrays, outcome.indices, person.age, person.sex);
    Object.assign(outcome, { age: person.age, sex: person.sex });
    if (outcome.why) refused.push({ id: person.session === null ? person.id : `${person.id} ${person.session}`, why: outcome.why });
    else results.push(outcome);
    if (k % PEOPLE_PER_TURN === 0) {
      onProgress(k, ready.length);
      await new Promise((done) => setTimeout(done));
    }
  }
  return { results, refused, absent, hasSessions, hasCentiles };
}

function assessPerson(model, arrays, consensus, person) {
  const wrong = model.empties_outliers ? consensus.training.findWrongCells(Array.from(person.values)) : [];
  if (!consensus.training && person.values.some(Number.isNaN)) return { why: `a value is missing, and this model needs all ${model.noun}` };
  const empty = (values) => values.map((value, r) => (wrong.includes(r) ? NaN : value));
  const result = consensus.infer(empty(person.values), person.memberValues && person.memberValues.map(empty));
  let information = arrays["intervals.knots"] ? 1 : null;
  if (result.missing.length && arrays["intervals.knots"]) {
    information = Math.max(computeInformation(model, arrays, result.added), 0);
    if (information < model.min_information) return { why: `too many ${model.noun} are missing: the others determine less than ${100 * model.min_information} % of an R-index` };
  }
  const bounds = arrays["intervals.knots"] ? computeBounds(model, arrays, result) : null;
  const distance = model.has_distances ? consensus.training.computeDistance(person.values, result.missing.filter((r) => !wrong.includes(r))) : null;
  person.unusual = distance === null ? null : consensus.training.computeUnusual(distance);
  const reasons = findReasons(model, arrays, person, consensus);
  const numbers = [...result.indices, ...(bounds ? bounds.flat() : [])];
  if (!numbers.every(Number.isFinite)) return { why: "the result is not a number: check the values" };
  const { id, session, covariates, unusual } = person;
  return { id, session, covariates, values: empty(person.values), indices: result.indices, bounds, information, unusual, reasons, missingRegions: result.missing, wrongRegions: wrong };
}

function listColumns(model, arrays, { hasSessions, hasCentiles }) {
  const names = Array.from({ length: model.patterns }, (_, m) => `r${m + 1}`);
  const ends = arrays["intervals.knots"] ? [...names.flatMap((name) => [`${name}_low`, `${name}_high`]), "information"] : [];
  const centiles = hasCentiles ? names.flatMap((name) => ["centile", "centile_low", "centile_high"].map((end) => `${name}_${end}`)) : [];
  return ["participant_id", ...(hasSessions ? ["session_id"] : []), ...names, ...ends, ...centiles, ...(model.has_distances ? ["outlier_score"] : []), "outside_training_range", "outside_because"];
}

function listCells(result, { hasSessions, hasCentiles }) {
  const centiles = hasCentiles ? (result.centiles ?? Array(result.indices.length).fill(["", "", ""])).flat() : [];
  const unusual = result.unusual === null ? [] : [result.unusual];
  const flags = [result.reasons.length ? "True" : "False", result.reasons.join("; ")];
  return [result.id, ...(hasSessions ? [result.session] : []), ...result.indices, ...(result.bounds ? [...result.bounds.flat(), result.information] : []), ...centiles, ...unusual, ...flags];
}

// Texts that a spreadsheet would run as a formula get an apostrophe before them, as in the files of rindices.
function protectText(text) {
  return /^'*[=+\-@]/.test(text) && !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? `'${text}` : text;
}

function formatTsv(model, arrays, outcome) {
  const lines = outcome.results.map((result) => listCells(result, outcome).map((cell) => (typeof cell === "string" ? protectText(cell) : String(cell))).join("\t"));
  return `${[listColumns(model, arrays, outcome).join("\t"), ...lines].join("\n")}\n`;
}

function showResults(model, arrays, outcome, sheet, get) {
  const { results, refused, absent } = outcome;
  const novel = results.filter((result) => result.reasons.length).length;
  const people = new Set(results.map((result) => result.id)).size;
  const visits = people < results.length ? `${results.length.toLocaleString("en")} visits of ` : "";
  const noun = visits ? "visits" : "people";
  const notes = [`${visits}${people.toLocaleString("en")} people have R-indices; ${novel.toLocaleString("en")} of them are unlike the ${model.compared}: rely less on theirs.`];
  const short = results.filter((result) => result.missingRegions.length).length;
  if (absent.length) notes.push(`The table lacks ${absent.length} ${model.noun} (${absent.slice(0, 5).join(", ")}): R-indices come from the others, and intervals are wider.`);
  else if (short) notes.push(`${short} ${noun} lack ${model.noun}: their R-indices come from the others, and their intervals are wider.`);
  const wrong = results.reduce((sum, result) => sum + result.wrongRegions.length, 0);
  if (wrong) notes.push(`${wrong} cells do not fit the other ${model.noun} of their person and are treated as missing: check these measurements.`);
  if (results.length >= 2 && novel >= 2 && novel >= 0.2 * results.length) notes.push(`This table looks unlike the ${model.compared}. Another scanner, unit, order of columns or age range?`);
  for (const { id, why } of refused.slice(0, 20)) notes.push(`${id} is refused: ${why}.`);
  if (refused.length > 20) notes.push(`${refused.length - 20} more are refused.`);
  get("notes").replaceChildren(...notes.map((note) => Object.assign(document.createElement("li"), { textContent: note })));
  if (outcome.hasCentiles) notes.push(model.healthy.meaning);
  else if (model.healthy) notes.push("With the columns age and sex, R-indices get their centiles among healthy people.");
  const listed = results.slice(0, MAX_SHOWN);
  fillTable(get("results"), listColumns(model, arrays, outcome), listed.map((result) => listCells(result, outcome)));
  get("results").querySelectorAll("tbody tr").forEach((row, k) => row.firstChild.replaceChildren(makeElement("button", { type: "button", onclick: () => sheet.show(results[k]) }, results[k].id)));
  const names = new Map(results.map((result) => [result.session === null ? result.id : `${result.id}, ${result.session}`, result]));
  get("people").replaceChildren(...[...names.keys()].slice(0, MAX_OFFERED).map((name) => makeElement("option", { value: name })));
  get("find").oninput = () => { if (names.has(get("find").value)) sheet.show(names.get(get("find").value)); };
  get("find").value = "";
  if (results.length) sheet.show(results[0]);
  get("shown").textContent = results.length > MAX_SHOWN ? `The first ${MAX_SHOWN} of ${results.length.toLocaleString("en")} ${noun}; the file has all.` : "";
  get("output").hidden = false;
}

function fillTable(table, columns, rows) {
  const cell = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
  const makeRow = (cells, tag) => {
    const row = document.createElement("tr");
    row.append(...cells.map((value) => cell(tag, typeof value === "number" ? value.toFixed(3) : value)));
    return row;
  };
  const head = document.createElement("thead");
  head.append(makeRow(columns, "th"));
  const body = document.createElement("tbody");
  body.append(...rows.map((cells) => makeRow(cells, "td")));
  table.replaceChildren(head, body);
}

async function startPage() {
  const get = (id) => document.getElementById(id);
  const model = JSON.parse(get("model").textContent);
  const arrays = await unpackArrays(model.arrays);
  const consensus = new Consensus(model, arrays);
  const sheet = new PersonSheet(model, arrays, get);
  let tsv = "";

  async function run(files) {
    get("output").hidden = get("sheet").hidden = true;
    document.body.classList.remove("has-sheet");
    get("status").className = "";
    try {
      const tables = await Promise.all([...files].map(async (file) => {
        const buffer = await file.arrayBuffer();
        return isZip(buffer) ? readExcel(buffer, file.name) : parseTable(decodeText(buffer), file.name);
      }));
      const outcome = await assessTables(model, arrays, consensus, tables, (done, all) => { get("status").textContent = `${done} of ${all} rows`; });
      tsv = formatTsv(model, arrays, outcome);
      showResults(model, arrays, outcome, sheet, get);
      get("status").textContent = "Done.";
    } catch (error) {
      get("status").textContent = `This table cannot be used: ${error.message}`;
      get("status").className = "error";
    }
  }

  get("files").addEventListener("change", () => run(get("files").files));
  get("drop").addEventListener("dragover", (event) => { event.preventDefault(); get("drop").classList.add("over"); });
  get("drop").addEventListener("dragleave", () => get("drop").classList.remove("over"));
  get("drop").addEventListener("drop", (event) => {
    event.preventDefault();
    get("drop").classList.remove("over");
    run(event.dataTransfer.files);
  });
  get("print").addEventListener("click", () => window.print());
  get("save").addEventListener("click", () => {
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([tsv], { type: "text/tab-separated-values" })), download: "r_indices.tsv" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  get("files").disabled = false;
  get("status").textContent = "Ready.";
}

startPage().catch((error) => {
  document.getElementById("status").textContent = `This browser cannot run the page (${error.message}): use a current Firefox, Chrome, Edge or Safari.`;
});
