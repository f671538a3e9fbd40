// One person: R-indices against both groups, and the regions that speak for them.
const N_BINS = 40;
const MIN_EVIDENCE = 0.5;

class PersonPanel {
  constructor(data, people, element, computeChanges) {
    Object.assign(this, { data, people, element, computeChanges, person: -1, rows: null });
    this.canvases = data.indices.map(() => makeElement("canvas", { role: "img" }));
    this.texts = data.indices.map(() => makeElement("p", {}));
    this.regions = data.indices.map(() => makeElement("div", { className: "speaking" }));
    data.indices.forEach((_, k) => element.append(makeElement("div", { className: "index-row" }, this.texts[k], this.canvases[k], this.regions[k])));
    const every = data.indices.flatMap((name) => Array.from(findRange(people.arrays[name])));
    this.range = [Math.min(...every), Math.max(...every)];
    this.histograms = data.indices.map((name) => people.sorted[name].map((values) => this.count(values)));
  }

  count(values) {
    const bins = new Float64Array(N_BINS);
    const [low, high] = this.range;
    for (const value of values) bins[Math.min(N_BINS - 1, Math.floor(((value - low) / (high - low)) * N_BINS))] += 1;
    return bins.map((number) => number / Math.max(values.length, 1));
  }

  show(person, rows) {
    Object.assign(this, { person, rows });
    const width = this.element.clientWidth; // before any change: asking for it afterwards makes the browser lay out the page
    this.data.indices.forEach((name, k) => {
      this.texts[k].replaceChildren(...this.describe(name));
      this.canvases[k].setAttribute("aria-label", this.texts[k].textContent);
      this.drawHistogram(name, k, width);
      this.regions[k].replaceChildren(...this.listRegions(name, k));
    });
  }

  getInterval(name) {
    const { arrays } = this.people;
    return arrays[`${name}_low`] ? [arrays[`${name}_low`][this.person], arrays[`${name}_high`][this.person]] : null;
  }

  describe(name) {
    const heading = makeElement("b", {}, name);
    if (this.person < 0) return [heading, ": distribution in both groups"];
    const value = this.people.arrays[name][this.person];
    const interval = this.getInterval(name);
    const [controls, patients] = this.people.sorted[name].map((sorted) => (100 * shareBelow(sorted, value)).toFixed(0));
    const range = interval ? ` (90 % interval ${formatNumber(interval[0])} to ${formatNumber(interval[1])})` : "";
    return [heading, ` ${formatNumber(value)}${range}: above ${controls} % of controls and ${patients} % of patients`];
  }

  drawHistogram(name, k, width) {
    const height = 64;
    const context = fitCanvas(this.canvases[k], width, height);
    const base = height - 18;
    const [low, high] = this.range;
    const place = (value) => ((value - low) / (high - low)) * (width - 2) + 1;
    const histograms = this.histograms[k].map((bins, group) => [bins, cssColour(group ? "patient" : "control"), true]);
    if (this.rows && this.rows.length) {
      histograms.push([this.count(this.rows.map((row) => this.people.arrays[name][row])), cssColour("link"), false]);
    }
    const top = Math.max(...histograms.map(([bins]) => Math.max(...bins)));
    for (const [bins, colour, isFilled] of histograms) {
      context.beginPath();
      context.moveTo(1, base);
      bins.forEach((share, bin) => {
        const y = base - Math.sqrt(share / top) * (base - 4);
        context.lineTo(place(low + (bin / N_BINS) * (high - low)), y);
        context.lineTo(place(low + ((bin + 1) / N_BINS) * (high - low)), y);
      });
      context.lineTo(width - 1, base);
      context.strokeStyle = context.fillStyle = colour;
      context.globalAlpha = 0.22;
      if (isFilled) context.fill();
      context.globalAlpha = 1;
      context.lineWidth = isFilled ? 1.2 : 2;
      context.stroke();
    }
    this.drawScale(context, place, base, low, high, width);
    if (this.person >= 0) this.drawMarker(context, place, base, name);
  }

  drawScale(context, place, base, low, high, width) {
    context.fillStyle = cssColour("muted");
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "top";
    for (const tick of listTicks(low, high, 5)) {
      context.textAlign = place(tick) < 12 ? "left" : place(tick) > width - 12 ? "right" : "center";
      context.fillText(formatTick(tick), place(tick), base + 5);
    }
  }

  drawMarker(context, place, base, name) {
    const value = this.people.arrays[name][this.person];
    const interval = this.getInterval(name);
    context.fillStyle = context.strokeStyle = cssColour("ink");
    context.lineWidth = 3;
    if (interval) {
      context.beginPath();
      context.moveTo(place(interval[0]), base);
      context.lineTo(place(interval[1]), base);
      context.stroke();
    }
    context.beginPath();
    context.arc(place(value), base, 5, 0, 2 * Math.PI);
    context.fill();
  }

  // Regions whose own log-likelihood ratio speaks for the pattern (rindices.report.person_data).
  listRegions(name, k) {
    const { data, people, person } = this;
    if (person < 0 || !data.listed) return [];
    const severities = data.indices.map((other) => people.arrays[other][person]);
    const changes = this.computeChanges(severities);
    const rows = [];
    for (let j = 0; j < data.listed; j++) {
      const cell = (person * data.indices.length + k) * data.listed + j;
      const region = people.arrays.region_positions[cell];
      const value = people.arrays.region_values[cell];
      const expected = changes.reduce((sum, change) => sum + change[region], 0);
      const evidence = ((value - expected + changes[k][region]) ** 2 - (value - expected) ** 2) / 2;
      if (!(evidence > MIN_EVIDENCE)) continue;
      const cells = [formatSigned(value, 1), formatSigned(expected, 1)].map((text) => makeElement("td", {}, text));
      rows.push(makeElement("tr", {}, makeElement("th", { scope: "row" }, data.regions[region]), ...cells));
    }
    if (!rows.length) return [makeElement("p", { className: "note" }, `None of the ${data.noun} speaks for it by itself.`)];
    const titles = [`${data.noun} that speak for ${name}`, "value", "expected"];
    const head = makeElement("thead", {}, makeElement("tr", {}, ...titles.map((text) => makeElement("th", { scope: "col" }, text))));
    return [makeElement("table", { className: "plain" }, head, makeElement("tbody", {}, ...rows))];
  }
}

// Search by id: a text field with a list of the first matches (ARIA combobox).
class PersonSearch {
  constructor(people, input, list, onPick) {
    Object.assign(this, { people, input, list, onPick, matches: [], active: -1 });
    this.lower = people.ids.map((id) => id.toLowerCase());
    this.order = Uint32Array.from(this.lower.keys()).sort((a, b) => (this.lower[a] < this.lower[b] ? -1 : 1));
    input.addEventListener("input", () => this.search());
    input.addEventListener("keydown", (event) => this.handleKey(event));
    list.addEventListener("click", (event) => {
      const option = event.target.closest("li");
      if (option) this.pick(Number(option.dataset.row));
    });
  }

  search() {
    const text = this.input.value.trim().toLowerCase();
    const matches = [];
    for (let k = 0; text && k < this.order.length && matches.length < 12; k++) {
      if (this.lower[this.order[k]].includes(text)) matches.push(this.order[k]);
    }
    this.matches = matches;
    this.active = matches.length ? 0 : -1;
    this.render(Boolean(text));
  }

  render(isOpen) {
    const options = this.matches.map((row, k) => {
      const option = makeElement("li", { role: "option", id: `match${k}`, "aria-selected": String(k === this.active) }, this.people.ids[row]);
      option.dataset.row = row;
      return option;
    });
    const none = makeElement("li", { className: "none" }, "nobody has such an id");
    this.list.replaceChildren(...(options.length ? options : [none]));
    this.list.hidden = !isOpen;
    this.input.setAttribute("aria-expanded", String(isOpen));
    if (this.active >= 0) this.input.setAttribute("aria-activedescendant", `match${this.active}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  handleKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.matches.length) {
      event.preventDefault();
      this.active = (this.active + step + this.matches.length) % this.matches.length;
      this.render(true);
    } else if (event.key === "Enter" && this.active >= 0) {
      this.pick(this.matches[this.active]);
    } else if (event.key === "Escape") {
      this.render(false);
    }
  }

  pick(row) {
    this.input.value = this.people.ids[row];
    this.matches = [];
    this.active = -1;
    this.render(false);
    this.onPick(row);
  }
}
