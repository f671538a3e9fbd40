// People: the columns that axes and colours can show, ranks among the groups, and the current selection.
const SPREAD = "spread";

function makePeople(data, arrays) {
  const count = arrays.patient.length;
  const columns = data.indices.map((name) => ({ key: name, label: name, values: arrays[name], levels: null }));
  for (const covariate of data.covariates || []) {
    const values = arrays[`covariate.${covariate.name}`];
    columns.push({ key: `covariate.${covariate.name}`, label: covariate.name, values, levels: covariate.levels });
  }
  const groups = { key: "group", label: "group", values: arrays.patient, levels: ["controls", "patients"] };
  const coloured = [groups, ...columns];
  if (arrays.novel) coloured.push({ key: "novel", label: "novel", values: arrays.novel, levels: ["usual", "novel"] });
  const spread = Float32Array.from({ length: count }, (_, i) => ((i + 1) * 0.6180339887) % 1);
  const axes = columns.filter((column) => column.levels === null);
  axes.push({ key: SPREAD, label: "no axis (spread out)", values: spread, levels: null });
  const ids = arrays.ids ? joinTexts(arrays, "ids") : null;
  return { count, arrays, axes, coloured, ids, patient: arrays.patient, sorted: sortByGroup(data.indices, arrays) };
}

function sortByGroup(names, arrays) {
  const sorted = {};
  for (const name of names) {
    sorted[name] = [0, 1].map((group) => arrays[name].filter((_, i) => arrays.patient[i] === group).sort());
  }
  return sorted;
}

// Share of a sorted array below a value.
function shareBelow(sorted, value) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return sorted.length ? low / sorted.length : NaN;
}

function findRange(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low < high ? [low, high] : [Math.min(low, 0), Math.max(high, 1)];
}

// People inside a box of two axes: { x: [low, high], y: [low, high] }.
function selectBox(x, y, box) {
  const rows = [];
  for (let i = 0; i < x.length; i++) {
    if (x[i] >= box.x[0] && x[i] <= box.x[1] && y[i] >= box.y[0] && y[i] <= box.y[1]) rows.push(i);
  }
  return rows;
}

function computeMedian(values) {
  const sorted = values.filter((value) => !Number.isNaN(value)).sort();
  const middle = sorted.length >> 1;
  if (!sorted.length) return NaN;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
