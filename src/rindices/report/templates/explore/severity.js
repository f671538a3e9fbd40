// Severities: sliders, and the change of brain and regions that they stand for.
const N_LISTED = 12;
const GREY = [209, 209, 209];
const OUTLINE_BRIGHTNESS = 0.62;

class SeverityPanel {
  constructor(data, arrays, sliders, views, bars, summary) {
    Object.assign(this, { data, arrays, bars, summary });
    this.inputs = data.indices.map((name) => this.addSlider(sliders, name));
    this.canvases = data.views.map((view) => this.addView(views, view));
  }

  addSlider(parent, name) {
    const output = makeElement("output", {}, "0.00");
    const input = makeElement("input", { type: "range", min: 0, max: 1, step: 0.01, value: 0, id: `severity_${name}` });
    input.addEventListener("input", () => this.paint());
    parent.append(makeElement("label", { className: "slider" }, makeElement("b", {}, name), input, output));
    input.output = output;
    return input;
  }

  addView(parent, view) {
    const canvas = makeElement("canvas", { width: view.width, height: view.height, role: "img", "aria-label": view.name, "data-view": view.name });
    parent.append(makeElement("figure", { className: "view" }, canvas, makeElement("figcaption", {}, view.name)));
    return canvas;
  }

  set(severities) {
    this.inputs.forEach((input, k) => { input.value = Math.min(1, Math.max(0, severities[k])); });
    this.paint();
  }

  // Change of each region by each pattern, in standard deviations of controls.
  computeChanges(severities) {
    const { levels, regions, indices, interaction } = this.data;
    const bounded = severities.map((z) => Math.min(1, Math.max(0, z)));
    return bounded.map((z, m) => {
      let growth = 1;
      if (interaction) growth = (1 + bounded.reduce((sum, other, k) => sum + interaction[m][k] * other, 0)) / this.data.medium_growth[m];
      const position = z * (levels.length - 1);
      const level = Math.min(levels.length - 2, Math.floor(position));
      const share = position - level;
      const start = (level * indices.length + m) * regions.length;
      const next = start + indices.length * regions.length;
      const change = new Float64Array(regions.length);
      for (let r = 0; r < regions.length; r++) {
        change[r] = growth * ((1 - share) * this.arrays.curves[start + r] + share * this.arrays.curves[next + r]);
      }
      return change;
    });
  }

  computeChange(severities) {
    const changes = this.computeChanges(severities);
    return changes[0].map((_, r) => changes.reduce((sum, change) => sum + change[r], 0));
  }

  colourOf(value) {
    const last = this.arrays.colours.length / 3 - 1;
    const code = Math.round(Math.min(1, Math.max(0, 0.5 + value / (2 * this.data.limit))) * last);
    return this.arrays.colours.subarray(3 * code, 3 * code + 3);
  }

  paint() {
    const severities = this.inputs.map((input) => Number(input.value));
    this.inputs.forEach((input) => { input.output.textContent = Number(input.value).toFixed(2); });
    const change = this.computeChange(severities);
    const palette = new Uint8Array(3 * (change.length + 1));
    change.forEach((value, region) => palette.set(this.colourOf(value), 3 * region));
    palette.set(GREY, 3 * change.length);
    this.canvases.forEach((_, number) => this.paintView(number, palette));
    this.listRegions(change);
  }

  // Pixels of the brain, the region that each shows, and its light, which do not depend on the severities.
  prepareView(view, number) {
    const { width, height, is_slice: isSlice } = view;
    const labels = this.arrays[`labels${number}`];
    const shade = this.arrays[`shade${number}`];
    const none = this.data.regions.length;
    const [pixels, regions, lights] = [[], [], []];
    for (let p = 0; p < labels.length; p++) {
      const label = labels[p];
      if (label === 0) continue;
      const region = label === 1 ? none : this.arrays.region_of[label - 2];
      let light = shade[p] / 252;
      if (region < none && isSlice) light = 0.75 + 0.25 * light;
      const isEdge = ((p + 1) % width && labels[p + 1] !== label) || (p + width < labels.length && labels[p + width] !== label);
      if (region < none && isEdge) light *= OUTLINE_BRIGHTNESS;
      pixels.push(p);
      regions.push(region);
      lights.push(light);
    }
    const image = new ImageData(width, height);
    for (const p of pixels) image.data[4 * p + 3] = 255;
    return { image, pixels: Uint32Array.from(pixels), regions: Uint16Array.from(regions), lights: Float32Array.from(lights) };
  }

  paintView(number, palette) {
    this.prepared ||= this.data.views.map((view, k) => this.prepareView(view, k));
    const { image, pixels, regions, lights } = this.prepared[number];
    for (let i = 0; i < pixels.length; i++) {
      const [from, to, light] = [3 * regions[i], 4 * pixels[i], lights[i]];
      image.data[to] = palette[from] * light;
      image.data[to + 1] = palette[from + 1] * light;
      image.data[to + 2] = palette[from + 2] * light;
    }
    this.canvases[number].getContext("2d").putImageData(image, 0, 0);
  }

  listRegions(change) {
    const order = [...change.keys()].sort((a, b) => Math.abs(change[b]) - Math.abs(change[a])).slice(0, N_LISTED);
    const span = this.data.limit;
    const rows = order.map((region) => {
      const fill = makeElement("i", { className: "fill" });
      const share = Math.max(-1, Math.min(1, change[region] / span));
      fill.style.left = `${50 + 50 * Math.min(0, share)}%`;
      fill.style.width = `${50 * Math.abs(share)}%`;
      fill.style.background = `rgb(${this.colourOf(change[region]).join(",")})`;
      const zero = makeElement("i", { className: "zero" });
      zero.style.left = "50%";
      const bar = makeElement("span", { className: "bar", "aria-hidden": "true" }, zero, fill);
      return makeElement("tr", {}, makeElement("th", { scope: "row" }, this.data.regions[region]), makeElement("td", {}, bar), makeElement("td", {}, formatSigned(change[region])));
    });
    this.bars.replaceChildren(...rows);
    const strongest = order[0];
    this.summary.textContent = change[strongest] === 0
      ? "No change: all severities are 0."
      : `Strongest: ${this.data.regions[strongest]} ${formatSigned(change[strongest])} standard deviations of controls.`;
  }
}
