// What patterns do to regions, and regions on views of the brain.
const GREY = [209, 209, 209];
const OUTLINE_BRIGHTNESS = 0.62;

// Change of each region by each pattern, in standard deviations of controls.
function computeChanges(data, arrays, severities) {
  const { levels, regions, indices, interaction } = data;
  const bounded = severities.map((z) => Math.min(1, Math.max(0, z)));
  return bounded.map((z, m) => {
    let growth = 1;
    if (interaction) growth = (1 + bounded.reduce((sum, other, k) => sum + interaction[m][k] * other, 0)) / data.medium_growth[m];
    const position = z * (levels.length - 1);
    const level = Math.min(levels.length - 2, Math.floor(position));
    const share = position - level;
    const start = (level * indices.length + m) * regions.length;
    const next = start + indices.length * regions.length;
    const change = new Float64Array(regions.length);
    for (let r = 0; r < regions.length; r++) {
      change[r] = growth * ((1 - share) * arrays.curves[start + r] + share * arrays.curves[next + r]);
    }
    return change;
  });
}

class BrainViews {
  constructor(data, arrays, parent) {
    Object.assign(this, { data, arrays });
    this.canvases = data.views.map((view) => this.addView(parent, view));
  }

  addView(parent, view) {
    const canvas = makeElement("canvas", { width: view.width, height: view.height, role: "img", "aria-label": view.name, "data-view": view.name });
    parent.append(makeElement("figure", { className: "view" }, canvas, makeElement("figcaption", {}, view.name)));
    return canvas;
  }

  colourOf(value) {
    const last = this.arrays.colours.length / 3 - 1;
    const code = Math.round(Math.min(1, Math.max(0, 0.5 + value / (2 * this.data.limit))) * last);
    return this.arrays.colours.subarray(3 * code, 3 * code + 3);
  }

  // Colour regions by their values; a missing value is grey.
  paint(values) {
    const palette = new Uint8Array(3 * (values.length + 1));
    values.forEach((value, region) => palette.set(Number.isNaN(value) ? GREY : this.colourOf(value), 3 * region));
    palette.set(GREY, 3 * values.length);
    this.canvases.forEach((_, number) => this.paintView(number, palette));
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

  // A bar from zero to a value; it is full at the span.
  makeBar(value, span = this.data.limit) {
    const fill = makeElement("i", { className: "fill" });
    const share = Math.max(-1, Math.min(1, value / span));
    fill.style.left = `${50 + 50 * Math.min(0, share)}%`;
    fill.style.width = `${50 * Math.abs(share)}%`;
    fill.style.background = `rgb(${this.colourOf(value).join(",")})`;
    const zero = makeElement("i", { className: "zero" });
    zero.style.left = "50%";
    return makeElement("span", { className: "bar", "aria-hidden": "true" }, zero, fill);
  }
}
