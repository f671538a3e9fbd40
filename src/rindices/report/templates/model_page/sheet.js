// The sheet of a person: R-indices among both groups, regions that speak for them, and what is missing or unusual.
const [MIN_EVIDENCE, MAX_SPEAKING, MAX_LISTED] = [0.5, 6, 8];
const [HALF, WHOLE] = [[0.25, 0.75], [0.05, 0.95]];

// Share of a group below a value, from its quantiles.
function computeCentile(model, group, m, value) {
  return interpolate(value, model.quantiles[group][m], model.ranks);
}

function getQuantile(model, group, m, rank) {
  return interpolate(rank, model.ranks, model.quantiles[group][m]);
}

function describeShare(share, model) {
  if (share <= model.ranks[0]) return `fewer than ${Math.ceil(100 * share)} of 100`;
  return share >= model.ranks[model.ranks.length - 1] ? `more than ${Math.floor(100 * share)} of 100` : `about ${Math.round(100 * share)} of 100`;
}

// What an R-index means, in one sentence.
function describeCentile(model, result, m) {
  const [low, high] = result.centiles[m].slice(1).map(Math.round);
  const centile = result.centiles[m][0];
  const number = centile < 1 ? "fewer than 1" : centile > 99 ? "more than 99" : Math.round(centile);
  const people = result.sex === model.healthy.sexes[1] ? "men" : "women";
  return `Higher than in ${number} of 100 healthy ${people} of ${formatNumber(Math.round(result.age), 0)} years (90 % interval ${low} to ${high}).`;
}

// An R-index in words: the number, its place in both groups, and whether controls have such values.
function describeIndex(model, result, m) {
  const value = result.indices[m];
  const bounds = result.bounds && result.bounds[m];
  const texts = [`${formatNumber(value)}${bounds ? ` (90 % interval ${formatNumber(bounds[0])} to ${formatNumber(bounds[1])})` : ""}.`];
  if (result.centiles) texts.push(describeCentile(model, result, m));
  if (!model.quantiles) return texts.join(" ");
  const [controls, patients] = ["control", "patient"].map((group) => describeShare(computeCentile(model, group, m, value), model));
  const end = getQuantile(model, "control", m, WHOLE[1]);
  const [low, high] = bounds ?? [value, value];
  if (low > end) texts.push("Clearly above the usual range of controls.");
  else if (value > end) texts.push("Above the usual range of controls, but the interval reaches into it.");
  else if (high > end) texts.push("Within the usual range of controls, but the interval reaches above it.");
  else texts.push("Within the usual range of controls.");
  return [...texts, `${controls[0].toUpperCase()}${controls.slice(1)} controls and ${patients} patients of the study have lower values.`].join(" ");
}

// Regions that, taken alone, look more as with the pattern than as without it.
function findSpeakingRegions(z, changes, m) {
  const expected = z.map((_, r) => changes.reduce((sum, change) => sum + change[r], 0));
  const rows = Array.from(z, (value, r) => ({ region: r, value, expected: expected[r], evidence: ((value - expected[r] + changes[m][r]) ** 2 - (value - expected[r]) ** 2) / 2 }));
  return rows.filter((row) => row.evidence > MIN_EVIDENCE).sort((a, b) => b.evidence - a.evidence).slice(0, MAX_SPEAKING);
}

function listUnusual(model, result) {
  const name = (regions) => {
    const more = regions.length > MAX_LISTED ? ` and ${regions.length - MAX_LISTED} more` : "";
    return `${regions.slice(0, MAX_LISTED).map((r) => model.sheet.regions[r]).join("; ")}${more}`;
  };
  const lines = result.reasons.length ? [`Unlike the ${model.people}, so rely less on the R-indices: ${result.reasons.join("; ")}.`] : [];
  const absent = result.missingRegions.filter((r) => !result.wrongRegions.includes(r));
  if (absent.length) lines.push(`Not measured, ${absent.length} of ${model.regions.length} ${model.noun}: ${name(absent)}. The R-indices come from the others.`);
  if (result.wrongRegions.length) lines.push(`Left out, because they do not fit the person's other ${model.noun}: ${name(result.wrongRegions)}. Check these measurements.`);
  if (result.information !== null && result.information < 1) lines.push(`What was measured determines ${Math.floor(100 * result.information)} % of the least known R-index; the intervals allow for the rest.`);
  if (!lines.length) lines.push(`Nothing: all ${model.noun} were measured, and the person is like the ${model.people}.`);
  if (result.unusual !== null) lines.push(`${Math.floor(100 * result.unusual)} of 100 ${model.people} are nearer to the average than this person.`);
  return lines;
}

class PersonSheet {
  constructor(model, arrays, get) {
    Object.assign(this, { model, arrays, get });
    this.brain = new BrainViews(model.sheet, arrays, get("views"));
  }

  show(result) {
    const { model, get } = this;
    const { sheet } = model;
    const z = Array.from(result.values, (value) => (value - CONTROL_MEAN) / 0.1);
    const changes = computeChanges(sheet, this.arrays, Array.from(result.indices));
    const facts = model.covariates.map((covariate, c) => `${covariate.name} ${covariate.kind === "numeric" ? formatAny(Number(result.covariates[c])) : result.covariates[c]}`);
    get("person-name").textContent = [result.id, ...(result.session === null ? [] : [result.session])].join(", ");
    get("person-facts").textContent = [...facts, `computed on ${new Date().toISOString().slice(0, 10)}`].join(", ");
    get("outlier_score").replaceChildren(...listUnusual(model, result).map((line) => makeElement("li", {}, line)));
    get("indices").replaceChildren(...sheet.indices.map((name, m) => makeElement("section", { className: "index" },
      makeElement("p", {}, makeElement("b", {}, `${name} `), describeIndex(model, result, m)), this.drawScale(result, m), this.listRegions(name, findSpeakingRegions(z, changes, m)))));
    this.brain.paint(z);
    get("sheet").hidden = false;
    document.body.classList.add("has-sheet");
  }

  // Bars of both groups, and the person with the interval, on one scale.
  drawScale(result, m) {
    const { model } = this;
    const [low, high] = (result.bounds && result.bounds[m]) || [result.indices[m], result.indices[m]];
    const all = ["control", "patient"].flatMap((group) => (model.quantiles ? model.quantiles[group][m] : []));
    const [start, end] = [Math.min(0, low, ...all), Math.max(1, high, ...all)];
    const place = (value) => `${((100 * (value - start)) / (end - start)).toFixed(2)}%`;
    const mark = (className, from, to = from) => {
      const element = makeElement("i", { className });
      element.style.left = place(from);
      if (to > from) element.style.width = `${((100 * (to - from)) / (end - start)).toFixed(2)}%`;
      return element;
    };
    const addRow = (label, className, ...marks) => [makeElement("span", {}, label), makeElement("span", { className: `track ${className}` }, ...marks)];
    const groups = !model.quantiles ? [] : ["control", "patient"].flatMap((group) => {
      const at = (rank) => getQuantile(model, group, m, rank);
      return addRow(`${group}s`, group, mark("whole", ...WHOLE.map(at)), mark("half", ...HALF.map(at)), mark("median", at(0.5)));
    });
    const ticks = [0, 0.25, 0.5, 0.75, 1].map((tick) => Object.assign(mark("tick", tick), { textContent: formatNumber(tick) }));
    const person = addRow("this person", "person", mark("range", low, high), mark("dot", result.indices[m]));
    return makeElement("div", { className: "place", "aria-hidden": "true" }, ...groups, ...person, ...addRow("", "axis", ...ticks));
  }

  listRegions(name, rows) {
    const { noun } = this.model;
    if (!rows.length) return makeElement("p", { className: "note" }, `None of the ${noun} speaks for ${name} by itself.`);
    const makeCells = (tag, ...contents) => makeElement("tr", {}, ...contents.map((content, k) => makeElement(k ? tag : "th", {}, content)));
    const span = Math.max(this.model.sheet.limit, ...rows.flatMap((row) => [Math.abs(row.value), Math.abs(row.expected)]));
    const lines = rows.map((row) => {
      const bar = this.brain.makeBar(row.value, span);
      bar.append(makeElement("i", { className: "expected" }));
      bar.lastChild.style.left = `${50 + (50 * row.expected) / span}%`;
      return makeCells("td", this.model.sheet.regions[row.region], bar, formatSigned(row.value, 1), formatSigned(row.expected, 1));
    });
    const head = makeElement("thead", {}, makeCells("th", `${noun} that speak for ${name}`, "", "value", "expected"));
    return makeElement("table", { className: "speaking" }, head, makeElement("tbody", {}, ...lines));
  }
}
