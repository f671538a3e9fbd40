// From a table to R-indices, intervals and how unusual people are: the steps of rindices.FittedModel.assess.
const OTHER_UNIT_RATIO = 5;
const RANGE_TOLERANCE = 0.05;
const MIN_REGION_SHARE = 0.08;
const MAX_NAMED_REGIONS = 4;
const MAX_MEDIAN_SHIFT = 30;
const [AGE_TOLERANCE, HALF_90] = [0.05, 1.6448536269514722];

// Columns of the regions, under any of the names by which rindices apply knows them.
function findRegionColumns(model, table) {
  const find = (name) => findColumn(table, [name, ...(model.aliases[name] ?? [])]);
  return model.regions.map((region) => {
    const whole = find(region);
    if (whole >= 0) return [whole];
    const parts = (model.sums[region] || []).map(find);
    return parts.length && parts.every((part) => part >= 0) ? parts : [];
  });
}

function readRegions(model, table, columns, row, problems) {
  return Float64Array.from(columns, (parts, r) => {
    let sum = parts.length ? 0 : NaN;
    for (const place of parts) {
      const number = parseNumber(row[place]);
      if (number === undefined) {
        problems.push(`${model.regions[r]} is not a number: ${row[place]}`);
        return NaN;
      }
      sum += model.zero_is_missing && model.positive[r] && number === 0 ? NaN : number;
    }
    if ((model.adjust === "log" || model.positive[r]) && sum <= 0) problems.push(`${model.regions[r]} is not positive`);
    return sum;
  });
}

// Columns of the design of a person; undefined where a covariate cannot be used.
function encodeCovariates(model, texts, problems) {
  const design = [];
  model.covariates.forEach((covariate, c) => {
    const text = texts[c];
    if (text === "") problems.push(`${covariate.name} is missing`);
    else if (covariate.kind === "numeric") {
      const number = parseNumber(text);
      if (number === undefined) problems.push(`${covariate.name} is not a number: ${text}`);
      else if (covariate.log && number <= 0) problems.push(`${covariate.name} is not positive`);
      design.push(covariate.log ? Math.log(number) : number);
      design.push(...bendNumber(number, covariate.knots || []));
    } else {
      const level = findLevel(covariate.levels, text);
      if (level < 0) problems.push(`${covariate.name} is ${text}; known are ${covariate.levels.join(", ")}`);
      for (let k = 1; k < covariate.levels.length; k++) design.push(level === k ? 1 : 0);
    }
  });
  return Float64Array.from(design);
}

// What a restricted cubic spline adds to a number.
function bendNumber(number, knots) {
  if (!knots.length) return [];
  const last = knots[knots.length - 1], before = knots[knots.length - 2];
  const width = (last - knots[0]) ** 2, cube = (knot) => Math.max(number - knot, 0) ** 3;
  return knots.slice(0, -2).map((knot) =>
    (cube(knot) - cube(before) * (last - knot) / (last - before) + cube(last) * (before - knot) / (last - before)) / width);
}

function findLevel(levels, text) {
  const exact = levels.indexOf(text);
  return exact >= 0 ? exact : levels.findIndex((level) => level !== "" && Number(level) === Number(text));
}

// Values that learners take: scale, sites, covariates, standard deviations of controls. The prefix names a pipeline.
function prepareValues(model, arrays, volumes, design, site, prefix = "") {
  const size = volumes.length;
  const get = (name) => arrays[prefix + name];
  const values = Float64Array.from(volumes, (value) => (model.adjust === "log" ? Math.log(value) : value));
  if (model.sites) removeSiteEffect((name) => get(`harmonise.${name}`), values, design, site);
  const centre = get("residualise.centre");
  const coefficients = get("residualise.coefficients");
  for (let r = 0; r < size; r++) {
    let effect = 0;
    for (let p = 0; p < centre.length; p++) effect += (design[p] - centre[p]) * coefficients[p * size + r];
    values[r] = ((values[r] - effect - get("standardise.mean")[r]) / get("standardise.sd")[r]) * 0.1 + 1;
  }
  return values;
}

// Values as the pipeline of each member prepares them; undefined if members share them.
function prepareForMembers(model, arrays, ...person) {
  if (!model.pipelines) return undefined;
  return model.orders.map((_, k) => prepareValues(model, arrays, ...person, `pipeline${k}.`));
}

function removeSiteEffect(get, values, design, site) {
  const [mean, centre, coefficients, sd] = ["mean", "centre", "coefficients", "sd"].map(get);
  const size = values.length;
  for (let r = 0; r < size; r++) {
    let expected = mean[r];
    for (let p = 0; p < centre.length; p++) expected += (design[p] - centre[p]) * coefficients[p * size + r];
    const z = ((values[r] - expected) / sd[r] - get("shift")[site * size + r]) / get("scale")[site * size + r];
    values[r] = expected + sd[r] * z;
  }
}

// Bounds of the calibrated intervals (rindices.model.intervals).
function computeBounds(model, arrays, result) {
  const get = (name) => arrays[`intervals.${name}`];
  const count = get("knots").length / model.patterns;
  return Array.from(result.indices, (index, m) => {
    const part = (name) => get(name).subarray(m * count, (m + 1) * count);
    const interpolateAt = (name) => interpolate(index, part("knots"), part(name));
    const error = get("error")[m] ** 2;
    const spread = get("members")[0] * result.variance[m];
    let widening = Math.sqrt(1 + spread / error);
    if (result.added) widening *= Math.sqrt(1 + result.added[m] / (error + spread));
    const middle = interpolateAt("middle");
    const [low, high] = ["low", "high"].map((name) => index + middle + (interpolateAt(name) - middle) * widening);
    return [Math.min(low, index), Math.max(high, index)];
  });
}

// Centiles among healthy people of the same age and sex, with 90 % intervals (rindices.model.centiles); null outside their ages.
function computeCentiles(model, arrays, indices, age, sex) {
  const get = (name) => arrays[`centiles.${name}`];
  const [first, last] = get("ages");
  const tolerance = AGE_TOLERANCE * (last - first);
  const male = model.healthy.sexes.indexOf(sex);
  if (male < 0 || !(age >= first - tolerance && age <= last + tolerance)) return null;
  const decades = (age - get("centre")[0]) / 10;
  const terms = { mean: [1, decades, decades * decades, male], spread: [1, decades, male] };
  const people = get("people")[0];
  const part = (name, m) => get(name).subarray((m * get(name).length) / model.patterns, ((m + 1) * get(name).length) / model.patterns);
  return Array.from(indices, (index, m) => {
    const predict = (name) => terms[name].reduce((sum, term, k) => sum + term * part(name, m)[k], 0);
    const project = (name) => {
      const own = terms[name];
      return own.reduce((sum, a, i) => sum + own.reduce((inner, b, j) => inner + a * b * part(`${name}_error`, m)[i * own.length + j], 0), 0);
    };
    const sd = Math.exp(predict("spread"));
    const z = (index - predict("mean")) / sd;
    const knots = part("knots", m);
    const groups = knots.length - 2;
    const shares = Array.from(knots, (_, k) => (k === 0 ? 0 : k > groups ? 1 : (k - 0.5) / groups));
    const least = 0.5 / (people + 1);
    const share = Math.min(Math.max(interpolate(z, knots, shares), least), 1 - least);
    const normal = invertNormal(share);
    const density = Math.exp((-normal * normal) / 2) / Math.sqrt(2 * Math.PI);
    const variance = project("mean") / sd ** 2 + z * z * project("spread") + (share * (1 - share)) / (people * density ** 2);
    const half = HALF_90 * Math.sqrt(Math.max(variance, 0));
    return [share, computeNormal(normal - half), computeNormal(normal + half)].map((value) => 100 * value);
  });
}

function interpolate(x, knots, values) {
  const last = knots.length - 1;
  if (!(x < knots[last])) return values[last];
  if (x < knots[0]) return values[0];
  let j = 0;
  while (j < last - 1 && x >= knots[j + 1]) j++;
  const slope = (values[j + 1] - values[j]) / (knots[j + 1] - knots[j]);
  return slope * (x - knots[j]) + values[j];
}

// Share of the variance of the least known R-index that the regions determine.
function computeInformation(model, arrays, added) {
  const knots = arrays["intervals.knots"];
  const count = knots.length / model.patterns;
  return Math.min(...Array.from(added, (variance, m) => {
    const own = knots.subarray(m * count, (m + 1) * count);
    const mean = own.reduce((a, b) => a + b, 0) / count;
    const spread = own.reduce((sum, knot) => sum + (knot - mean) ** 2, 0) / count;
    return 1 - variance / Math.max(spread, 1e-12);
  }), 1);
}

function findReasons(model, arrays, person, consensus) {
  const reasons = [];
  const isFar = person.unusual === null || person.unusual >= model.limit;
  const ratio = isFar ? compareUnit(arrays["control_mean"], person.volumes) : 1;
  if (ratio !== 1) reasons.push(`${model.values_noun} about ${formatG(10 ** Math.round(Math.log10(ratio)))} times the usual: another unit?`);
  model.covariates.forEach((covariate, c) => {
    if (covariate.kind !== "numeric") return;
    const [low, high] = covariate.range;
    const number = Number(person.covariates[c]);
    const tolerance = RANGE_TOLERANCE * (high - low);
    if (number < low - tolerance || number > high + tolerance) {
      reasons.push(`${covariate.name} ${formatG(number)} is outside ${formatG(low)} to ${formatG(high)}`);
    }
  });
  if (person.unusual !== null && isFar && ratio === 1) reasons.push(...nameRegions(model, person.values, consensus.training));
  return reasons;
}

// Median ratio of a person's volumes to those of controls, where it tells of another unit; 1 otherwise.
function compareUnit(controlMean, volumes) {
  if (!controlMean.every((value) => value > 0)) return 1;
  const ratios = Array.from(volumes, (value, r) => value / controlMean[r]);
  const half = Math.floor(ratios.length / 2);
  const above = ratios.filter((ratio) => ratio > OTHER_UNIT_RATIO).length >= half;
  const below = ratios.filter((ratio) => ratio < 1 / OTHER_UNIT_RATIO).length >= half;
  if (!above && !below) return 1;
  const median = Math.min(1e9, Math.max(1e-9, computeMedian(ratios)));
  return median > OTHER_UNIT_RATIO || median < 1 / OTHER_UNIT_RATIO ? median : 1;
}

function nameRegions(model, values, training) {
  const contributions = training.computeContributions(values);
  const total = contributions.reduce((a, b) => a + b, 0);
  const order = [...contributions.keys()].filter((r) => contributions[r] / total > MIN_REGION_SHARE);
  order.sort((a, b) => contributions[b] - contributions[a]);
  const named = order.slice(0, MAX_NAMED_REGIONS).map((r) => {
    const z = ((Number.isNaN(values[r]) ? training.mean[r] : values[r]) - training.mean[r]) / training.sd[r];
    return `${model.labels[r]} ${z >= 0 ? "+" : ""}${z.toFixed(1)} sd`;
  });
  return named.length ? named : [`many ${model.noun} together are unusual`];
}

function computeMedian(values) {
  const sorted = Float64Array.from(values.filter((value) => !Number.isNaN(value))).sort();
  const middle = sorted.length >> 1;
  if (!sorted.length) return NaN;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// As Python's format "g": six digits, and an exponent for large and small numbers.
function formatG(value) {
  if (value === 0) return "0";
  const exponent = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(6)))));
  if (exponent >= -4 && exponent < 6) return String(Number(value.toPrecision(6)));
  const [digits, power] = value.toExponential(5).split("e");
  return `${Number(digits)}e${power[0]}${power.slice(1).padStart(2, "0")}`;
}

// Refuse a table in which a region or a covariate is far from training: another unit.
function checkTable(model, people) {
  model.covariates.forEach((covariate, c) => {
    if (covariate.kind !== "numeric" || !people.length) return;
    const median = computeMedian(people.map((person) => Number(person.covariates[c])));
    const span = Math.max(covariate.high - covariate.low, 1e-9 * Math.max(Math.abs(covariate.high), Math.abs(covariate.low), 1));
    if (median < covariate.low - span || median > covariate.high + span) {
      throw new Error(`the median of ${covariate.name} is ${formatG(median)} here; it was ${formatG(covariate.low)} to ${formatG(covariate.high)} in training: convert its unit.`);
    }
  });
  const shifted = model.regions.filter((_, r) => Math.abs(computeMedian(people.map((person) => person.values[r])) - 1) / 0.1 > MAX_MEDIAN_SHIFT);
  if (shifted.length) throw new Error(`${shifted.length} ${model.noun} are scaled differently than in training (${shifted.slice(0, 5).join(", ")}): check their unit.`);
}
