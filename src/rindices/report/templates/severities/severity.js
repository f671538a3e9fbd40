// Severities: sliders, and the change of brain and regions that they stand for.
const N_LISTED = 12;

class SeverityPanel {
  constructor(data, arrays, sliders, views, bars, summary) {
    Object.assign(this, { data, arrays, bars, summary });
    this.inputs = data.indices.map((name) => this.addSlider(sliders, name));
    this.brain = new BrainViews(data, arrays, views);
  }

  addSlider(parent, name) {
    const output = makeElement("output", {}, "0.00");
    const input = makeElement("input", { type: "range", min: 0, max: 1, step: 0.01, value: 0, id: `severity_${name}` });
    input.addEventListener("input", () => this.paint());
    parent.append(makeElement("label", { className: "slider" }, makeElement("b", {}, name), input, output));
    input.output = output;
    return input;
  }

  set(severities) {
    this.inputs.forEach((input, k) => { input.value = Math.min(1, Math.max(0, severities[k])); });
    this.paint();
  }

  paint() {
    const severities = this.inputs.map((input) => Number(input.value));
    this.inputs.forEach((input) => { input.output.textContent = Number(input.value).toFixed(2); });
    const changes = computeChanges(this.data, this.arrays, severities);
    const change = changes[0].map((_, r) => changes.reduce((sum, own) => sum + own[r], 0));
    this.brain.paint(change);
    this.listRegions(change);
  }

  listRegions(change) {
    const order = [...change.keys()].sort((a, b) => Math.abs(change[b]) - Math.abs(change[a])).slice(0, N_LISTED);
    const makeCell = (content) => makeElement("td", {}, content);
    const rows = order.map((region) => makeElement("tr", {}, makeElement("th", { scope: "row" }, this.data.regions[region]), makeCell(this.brain.makeBar(change[region])), makeCell(formatSigned(change[region]))));
    this.bars.replaceChildren(...rows);
    const strongest = order[0];
    this.summary.textContent = change[strongest] === 0
      ? "No change: all severities are 0."
      : `Strongest: ${this.data.regions[strongest]} ${formatSigned(change[strongest])} standard deviations of controls.`;
  }
}
