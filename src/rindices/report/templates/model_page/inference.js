// R-indices of prepared people: the arithmetic of rindices.learners.inference and rindices.model.consensus.
const LOG_FLOOR = 0.1;
const IDENTITY_THRESHOLD = 1e-6;
const MIN_EIGENVALUE = 1e-9;
const CONTROL_MEAN = 1;
const LEAKY_SLOPE = 0.2;
const HEALTHY_SHARE = 0.95;
const [CANDIDATE_LIMIT, NEW_LIMIT, MAX_WRONG_SHARE] = [4, 5.5, 0.3];
const [WRAP_START, WRAP_END, MAX_SIZE] = [2.5, 4, 50];

class Member {
  constructor(model, arrays, number) {
    Object.assign(this, { model, order: model.orders[number] });
    const get = (name) => arrays[`member${number}.${name}`];
    for (const name of ["control_mean", "control_scale", "shift_mean", "shift_scale", "weights"]) this[name] = get(name);
    this.share = get("share")[0];
    this.width = this.weights.length / model.regions.length;
    if (model.kind === "contrastive") return;
    this.steps = get("steps");
    this.logCopula = get("log_copula");
    this.simulatedPoints = Array.from(get("simulated_points"));
    this.simulatedNoise = arrays["simulated.noise"];
    this.precision = expandTriangle(get("precision"), model.regions.length);
    this.basis = this.makeBasis(arrays.points, get("interaction"));
    this.whole = this.makePosterior(this.weights);
  }

  // How far each step has been taken at each point, times the growth by other patterns: (G, M * K).
  makeBasis(points, interaction) {
    const { patterns, steps } = this.model;
    const basis = new Float64Array((points.length / patterns) * this.width);
    for (let g = 0; g < points.length / patterns; g++) {
      for (let m = 0; m < patterns; m++) {
        let growth = 1;
        if (interaction) for (let k = 0; k < patterns; k++) growth += interaction[m * patterns + k] * points[g * patterns + k];
        for (let k = 0; k < steps; k++) {
          const taken = Math.min(1, Math.max(0, points[g * patterns + m] * steps - k));
          basis[g * this.width + m * steps + k] = growth * taken;
        }
      }
    }
    return basis;
  }

  // Shifts of a person; a missing region is 0, and its weight will be 0, too.
  prepare(values) {
    const shifts = new Float64Array(values.length);
    for (let r = 0; r < values.length; r++) {
      if (Number.isNaN(values[r])) continue;
      let z = (values[r] - this.control_mean[r]) / this.control_scale[r];
      if (this.share >= IDENTITY_THRESHOLD) {
        const size = 1 + this.share * z;
        z = (size >= LOG_FLOOR ? Math.log(size) : Math.log(LOG_FLOOR) + (size - LOG_FLOOR) / LOG_FLOOR) / this.share;
      }
      shifts[r] = (z - this.shift_mean[r]) / this.shift_scale[r];
    }
    return shifts;
  }

  project(values, weights) {
    return multiply(this.prepare(values), weights, 1, values.length, this.width);
  }

  makePosterior(weights) {
    const gram = multiply(this.steps, weights, this.width, this.model.regions.length, this.width);
    const n = this.logCopula.length;
    const products = multiply(this.basis, gram, n, this.width, this.width);
    const offset = Float64Array.from(this.logCopula);
    for (let g = 0; g < n; g++) {
      let sum = 0;
      for (let k = 0; k < this.width; k++) sum += products[g * this.width + k] * this.basis[g * this.width + k];
      offset[g] -= 0.5 * sum;
    }
    return { weights, gram, offset };
  }

  // Posterior of people who lack regions, given the others.
  leaveOut(missing) {
    const size = this.model.regions.length;
    const root = factorise(selectBlock(this.precision, size, missing), missing.length);
    const own = new Float64Array(missing.length * this.width);
    missing.forEach((region, i) => own.set(this.weights.subarray(region * this.width, (region + 1) * this.width), i * this.width));
    const solved = solveFactored(root, missing.length, own, this.width);
    const weights = Float64Array.from(this.weights);
    for (let r = 0; r < size; r++) {
      missing.forEach((region, i) => {
        const factor = this.precision[r * size + region];
        for (let k = 0; k < this.width; k++) weights[r * this.width + k] -= factor * solved[i * this.width + k];
      });
    }
    for (const region of missing) weights.fill(0, region * this.width, (region + 1) * this.width);
    return this.makePosterior(weights);
  }

  computeProbabilities(numbers, offset) {
    const density = Float64Array.from(offset);
    let top = -Infinity;
    for (let g = 0; g < density.length; g++) {
      for (let k = 0; k < this.width; k++) density[g] += this.basis[g * this.width + k] * numbers[k];
      if (density[g] > top) top = density[g];
    }
    let total = 0;
    for (let g = 0; g < density.length; g++) total += density[g] = Math.exp(density[g] - top);
    for (let g = 0; g < density.length; g++) density[g] /= total;
    return density;
  }

  // Posterior means of the severities, and of their squares.
  computeMoments(numbers, posterior) {
    const { patterns, points } = this.model;
    const probabilities = this.computeProbabilities(numbers, posterior.offset);
    const moments = [new Float64Array(patterns), new Float64Array(patterns)];
    for (let g = 0; g < probabilities.length; g++) {
      for (let m = 0; m < patterns; m++) {
        const z = points[g * patterns + m];
        moments[0][m] += probabilities[g] * z;
        moments[1][m] += probabilities[g] * z * z;
      }
    }
    return moments;
  }

  infer(values, posterior = this.whole) {
    const numbers = this.project(values, posterior ? posterior.weights : this.weights);
    const indices = posterior ? this.computeMoments(numbers, posterior)[0] : numbers;
    return this.order.map((k) => indices[k]);
  }

  // R-indices of simulated healthy people and patients, and the mean posterior variance of the patients.
  simulate(posterior) {
    const { width, simulatedPoints: points, simulatedNoise: noise } = this;
    const { values, vectors } = decomposeSymmetric(posterior.gram, width);
    const largest = Math.max(...values);
    const roots = Array.from(values, (value) => (value > MIN_EIGENVALUE * largest ? Math.sqrt(value) : 0));
    const root = new Float64Array(width * width);
    for (let i = 0; i < width; i++) for (let j = 0; j < width; j++) for (let k = 0; k < width; k++) root[i * width + j] += vectors[i * width + k] * roots[k] * vectors[j * width + k];
    const drawn = multiply(noise, root, points.length, width, width);
    const variance = new Float64Array(this.model.patterns);
    const indices = [[], []];
    points.forEach((point, n) => {
      const healthy = drawn.slice(n * width, (n + 1) * width);
      const change = multiply(this.basis.subarray(point * width, (point + 1) * width), posterior.gram, 1, width, width);
      const [first, second] = this.computeMoments(change.map((value, k) => value + healthy[k]), posterior);
      first.forEach((value, m) => { variance[m] += (second[m] - value * value) / points.length; });
      indices[0].push(this.computeMoments(healthy, posterior)[0]);
      indices[1].push(first);
    });
    return { indices, variance };
  }
}

// A network that estimates R-indices (rindices.learners.inference.SurrealHead), its first two layers multiplied.
class Network {
  constructor(model, arrays, number) {
    Object.assign(this, { model, order: model.orders[number] });
    for (const name of ["joined", "weight2", "bias2", "weight3", "bias3"]) this[name] = arrays[`member${number}.${name}`];
    this.size = model.regions.length;
    [this.wide, this.narrow] = [this.weight2.length / this.bias2.length, this.bias2.length];
  }

  infer(values) {
    const { size, wide, narrow, model: { patterns } } = this;
    const relu = (x) => (x > 0 ? x : LEAKY_SLOPE * x);
    const person = new Float64Array(size + 1).fill(1);
    for (let r = 0; r < size; r++) person[r] = relu(values[r]);
    const indices = new Float64Array(patterns);
    for (let m = 0; m < patterns; m++) {
      const block = this.joined.subarray(m * (size + 1) * wide, (m + 1) * (size + 1) * wide);
      const first = multiply(person, block, 1, size + 1, wide).map(relu);
      const second = multiply(first, this.weight2, 1, wide, narrow).map((value, k) => relu(value + this.bias2[k]));
      multiply(second, this.weight3, 1, narrow, patterns).forEach((value, k) => { indices[k] += value + this.bias3[k]; });
    }
    return this.order.map((k) => indices[k]);
  }
}

// Knots by pattern that map R-indices of people who lack regions to those of complete people (IndexMap.fit).
function fitIndexMap(reduced, complete, order) {
  const kept = Math.floor(HEALTHY_SHARE * reduced[0].length);
  const sortColumn = (people, k) => Array.from(Float64Array.from(people, (own) => own[k]).sort());
  return order.map((k) => {
    const [x, y] = [reduced, complete].map(([healthy, patients]) => [...sortColumn(healthy, k).slice(0, kept), ...sortColumn(patients, k)]);
    const knots = [];
    const values = [];
    x.forEach((value, i) => {
      if (i >= kept && !(value > x[kept - 1])) return;
      knots.push(value);
      values.push(Math.max(y[i], i ? values[values.length - 1] : y[i]));
    });
    return { knots, values };
  });
}

function applyIndexMap({ knots, values }, x) {
  return interpolate(x, knots, values) + x - Math.min(Math.max(x, knots[0]), knots[knots.length - 1]);
}

// Distribution of the training people: distances, and missing regions as the others predict them.
class TrainingPeople {
  constructor(model, arrays) {
    this.size = model.regions.length;
    this.mean = arrays["training.mean"];
    this.distances = arrays["training.distances"];
    this.shares = arrays["training.shares"];
    this.sd = arrays["training.sd"];
    this.precision = expandTriangle(arrays["training.precision"], this.size);
    this.roots = new Map();
  }

  getRoot(missing) {
    const key = missing.join();
    if (!this.roots.has(key)) this.roots.set(key, factorise(selectBlock(this.precision, this.size, missing), missing.length));
    return this.roots.get(key);
  }

  fill(values, missing) {
    const filled = Float64Array.from(values, (value, r) => (Number.isNaN(value) ? this.mean[r] : value));
    if (!missing.length) return filled;
    for (const region of missing) filled[region] = this.mean[region];
    const right = Float64Array.from(missing, (region) => this.multiplyRow(filled, region));
    const solved = solveFactored(this.getRoot(missing), missing.length, right, 1);
    missing.forEach((region, i) => { filled[region] = this.mean[region] - solved[i]; });
    return filled;
  }

  multiplyRow(values, row) {
    let sum = 0;
    for (let r = 0; r < this.size; r++) sum += this.precision[row * this.size + r] * (values[r] - this.mean[r]);
    return sum;
  }

  computeDistance(values, missing) {
    const filled = this.fill(values, missing);
    let square = 0;
    for (let r = 0; r < this.size; r++) square += (filled[r] - this.mean[r]) * this.multiplyRow(filled, r);
    return Math.sqrt(Math.max(square, 0)) * Math.sqrt(this.size / Math.max(this.size - missing.length, 1));
  }

  computeUnusual(distance) {
    return interpolate(distance, this.distances, this.shares);
  }

  // Regions that do not fit the person's others (TrainingDistribution.compare_cells); none where a whole row has failed.
  findWrongCells(values) {
    const { mean, sd, size, precision } = this;
    const scale = Math.max(computeMedian(Array.from(this.distances)) / Math.sqrt(size), 1);
    const z = values.map((value, r) => Math.min(Math.max((value - mean[r]) / sd[r], -MAX_SIZE), MAX_SIZE));
    const wrapped = z.map((value) => {
      if (Number.isNaN(value) || Math.abs(value) < WRAP_START) return value || 0;
      return Math.sign(value) * WRAP_START * Math.max((WRAP_END - Math.abs(value)) / (WRAP_END - WRAP_START), 0);
    });
    const people = wrapped.map((value, r) => mean[r] + sd[r] * value);
    const measured = [...values.keys()].filter((r) => !Number.isNaN(values[r]));
    const roots = values.map((_, r) => Math.sqrt(precision[r * size + r]));
    const candidates = measured.filter((r) => Math.abs((z[r] - wrapped[r]) * sd[r] * roots[r] + this.multiplyRow(people, r) / roots[r]) > CANDIDATE_LIMIT * scale);
    if (!candidates.length) return [];
    const left = [...values.keys()].filter((r) => candidates.includes(r) || Number.isNaN(values[r]));
    const cells = z.map((value, r) => mean[r] + sd[r] * value);
    const filled = this.fill(cells, left);
    const inverse = invertLower(this.getRoot(left), left.length);
    const wrong = measured.filter((r) => {
      const position = left.indexOf(r);
      if (position < 0) return Math.abs(this.multiplyRow(filled, r) / roots[r]) > NEW_LIMIT * scale;
      let variance = 0;
      for (let i = position; i < left.length; i++) variance += inverse[i * left.length + position] ** 2;
      return Math.abs(cells[r] - filled[r]) / Math.sqrt(variance) > NEW_LIMIT * scale;
    });
    return wrong.length > MAX_WRONG_SHARE * measured.length ? [] : wrong;
  }

  computeContributions(values) {
    const filled = Float64Array.from(values, (value, r) => (Number.isNaN(value) ? this.mean[r] : value));
    return filled.map((value, r) => (value - this.mean[r]) * this.multiplyRow(filled, r));
  }
}

// The mean of all members, for people with all regions and for people who lack some.
class Consensus {
  constructor(model, arrays) {
    Object.assign(this, { model, arrays, reduced: new Map() });
    model.points = arrays.points;
    this.training = arrays["training.mean"] ? new TrainingPeople(model, arrays) : null;
    this.drawsPeople = model.kind === "contrastive" || model.kind === "surreal";
    this.members = model.orders.map((_, k) => (model.kind === "surreal" ? new Network(model, arrays, k) : new Member(model, arrays, k)));
  }

  leaveOut(missing) {
    const key = missing.join();
    if (!this.reduced.has(key)) {
      if (this.reduced.size > 50) this.reduced.clear();
      this.reduced.set(key, this.drawsPeople ? this.drawPeople(missing) : this.reducePosteriors(missing));
    }
    return this.reduced.get(key);
  }

  reducePosteriors(missing) {
    const posteriors = this.members.map((member) => member.leaveOut(missing));
    this.complete ||= this.members.map((member) => member.simulate(member.whole));
    const simulated = this.members.map((member, k) => member.simulate(posteriors[k]));
    const added = this.members[0].order.map((m) => Math.max(simulated[0].variance[m] - this.complete[0].variance[m], 0));
    const maps = this.members.map(({ order }, k) => fitIndexMap(simulated[k].indices, this.complete[k].indices, order));
    return { posteriors, added, maps };
  }

  // Variance of R-indices over the possible values of missing regions, and their maps, by drawing people.
  drawPeople(missing) {
    const { training, members } = this;
    const size = this.model.regions.length;
    const noise = this.arrays["drawn.noise"];
    const count = noise.length / size;
    const inferGroups = (groups) => members.map((member) => groups.map((people) => people.map((person) => member.infer(person, null))));
    if (!this.drawnPeople) {
      const deviations = multiply(noise, invertLower(factorise(training.precision, size), size), count, size, size);
      this.drawnPeople = [() => CONTROL_MEAN, (r) => training.mean[r]].map((centre) =>
        Array.from({ length: count }, (_, n) => deviations.slice(n * size, (n + 1) * size).map((value, r) => value + centre(r))));
      this.complete = inferGroups(this.drawnPeople);
    }
    const filled = this.drawnPeople.map((people) => people.map((person) => training.fill(person, missing)));
    const reduced = inferGroups(filled);
    const inverse = invertLower(training.getRoot(missing), missing.length);
    const added = new Float64Array(this.model.patterns);
    filled[1].forEach((person, n) => {
      missing.forEach((region, j) => {
        for (let i = j; i < missing.length; i++) person[region] += noise[n * size + missing[i]] * inverse[i * missing.length + j];
      });
      members[0].infer(person, null).forEach((value, m) => { added[m] += (value - reduced[0][1][n][m]) ** 2 / count; });
    });
    return { added, maps: reduced.map((own, k) => fitIndexMap(own, this.complete[k], [...added.keys()])) };
  }

  // R-indices, their variance among members, and the variance that missing regions add.
  infer(values, memberValues) {
    const missing = [];
    values.forEach((value, r) => { if (Number.isNaN(value)) missing.push(r); });
    const { drawsPeople, model: { patterns } } = this;
    const { posteriors, added, maps } = missing.length ? this.leaveOut(missing) : {};
    const fill = (own) => (missing.length && drawsPeople ? this.training.fill(own, missing) : own);
    const people = (memberValues || [values]).map(fill);
    const all = this.members.map((member, k) => member.infer(people[k % people.length], drawsPeople ? null : posteriors ? posteriors[k] : undefined));
    const indices = new Float64Array(patterns);
    const variance = new Float64Array(patterns);
    for (let m = 0; m < patterns; m++) {
      if (maps) all.forEach((own, k) => { own[m] = applyIndexMap(maps[k][m], own[m]); });
      for (const own of all) indices[m] += own[m] / all.length;
      for (const own of all) variance[m] += (own[m] - indices[m]) ** 2 / all.length;
    }
    return { indices, variance, added: added || null, missing };
  }
}
