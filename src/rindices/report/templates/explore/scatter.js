// The scatter of two columns: all dots on one canvas, the selection on a second one above it.
const MARGIN = { left: 46, right: 10, top: 10, bottom: 40 };
const CATEGORY_COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#7f7f7f"];
const NUMBER_COLOURS = ["#00224e", "#1f3a6e", "#434e6c", "#5f636e", "#7b7974", "#999177", "#baa96d", "#dcc554", "#fee838"];
const CLICK_RADIUS = 14;

class Scatter {
  constructor(people, canvas, overlay, onPick, onBox) {
    Object.assign(this, { people, canvas, overlay, onPick, onBox, person: -1, rows: null, box: null });
    overlay.addEventListener("pointerdown", (event) => this.startDrag(event));
    overlay.addEventListener("keydown", (event) => this.moveByKey(event));
  }

  setColumns(x, y, colour) {
    Object.assign(this, { x, y, colour });
    this.draw();
  }

  draw() {
    this.width = this.canvas.parentElement.clientWidth;
    this.height = Math.round(Math.min(440, Math.max(280, 0.85 * this.width)));
    this.context = fitCanvas(this.canvas, this.width, this.height);
    this.ranges = { x: this.pad(findRange(this.x.values)), y: this.pad(findRange(this.y.values)) };
    this.placeDots();
    this.drawAxes();
    this.drawDots();
    this.drawSelection();
  }

  pad([low, high]) {
    const margin = 0.02 * (high - low);
    return [low - margin, high + margin];
  }

  toScreen(axis, value) {
    const [low, high] = this.ranges[axis];
    const share = (value - low) / (high - low);
    if (axis === "x") return MARGIN.left + share * (this.width - MARGIN.left - MARGIN.right);
    return this.height - MARGIN.bottom - share * (this.height - MARGIN.top - MARGIN.bottom);
  }

  toValue(axis, pixel) {
    const [low, high] = this.ranges[axis];
    const length = axis === "x" ? this.width - MARGIN.left - MARGIN.right : this.height - MARGIN.top - MARGIN.bottom;
    const share = axis === "x" ? (pixel - MARGIN.left) / length : (this.height - MARGIN.bottom - pixel) / length;
    return low + share * (high - low);
  }

  placeDots() {
    const { count } = this.people;
    this.left = new Float32Array(count);
    this.top = new Float32Array(count);
    for (let i = 0; i < count; i++) {
      this.left[i] = this.toScreen("x", this.x.values[i]);
      this.top[i] = this.toScreen("y", this.y.values[i]);
    }
  }

  drawAxes() {
    const { context, width, height } = this;
    context.font = "12px system-ui, sans-serif";
    context.lineWidth = 1;
    for (const axis of ["x", "y"]) {
      if (this[axis].key === SPREAD) continue;
      for (const tick of listTicks(...this.ranges[axis], axis === "x" ? width / 90 : height / 60)) {
        const place = Math.round(this.toScreen(axis, tick)) + 0.5;
        context.strokeStyle = cssColour("rule");
        context.beginPath();
        if (axis === "x") context.rect(place, MARGIN.top, 0, height - MARGIN.top - MARGIN.bottom);
        else context.rect(MARGIN.left, place, width - MARGIN.left - MARGIN.right, 0);
        context.stroke();
        context.fillStyle = cssColour("muted");
        context.textAlign = axis === "x" ? "center" : "right";
        context.textBaseline = axis === "x" ? "top" : "middle";
        const text = formatTick(tick);
        if (axis === "x") context.fillText(text, place, height - MARGIN.bottom + 5);
        else context.fillText(text, MARGIN.left - 5, place);
      }
    }
    context.fillStyle = cssColour("ink");
    context.textAlign = "center";
    context.textBaseline = "bottom";
    context.fillText(this.x.key === SPREAD ? "" : this.x.label, (width + MARGIN.left) / 2, height - 3);
    context.save();
    context.translate(11, (height - MARGIN.bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(this.y.key === SPREAD ? "" : this.y.label, 0, 4);
    context.restore();
  }

  // Dots are blended into one image, which is much faster than drawing them one by one.
  drawDots() {
    const { people, left, top, canvas } = this;
    const { codes, colours } = codeColours(this.colour);
    const ratio = canvas.width / this.width;
    const size = Math.max(1, Math.round(ratio * (people.count > 20000 ? 2 : people.count > 3000 ? 3 : 4)));
    const inside = this.rows && new Uint8Array(people.count);
    if (inside) for (const row of this.rows) inside[row] = 1;
    const image = new ImageData(canvas.width, canvas.height);
    const palette = colours.map(parseColour);
    for (const isInside of inside ? [0, 1] : [1]) {
      const opacity = isInside ? 0.6 : 0.08;
      for (let i = 0; i < people.count; i++) {
        if ((!inside || inside[i] === isInside) && !Number.isNaN(left[i] + top[i])) {
          blendSquare(image, Math.round(ratio * left[i] - size / 2), Math.round(ratio * top[i] - size / 2), size, palette[codes[i]], opacity);
        }
      }
    }
    const layer = makeElement("canvas", { width: canvas.width, height: canvas.height });
    layer.getContext("2d").putImageData(image, 0, 0);
    this.context.drawImage(layer, 0, 0, this.width, this.height);
  }

  drawSelection(drag = null) {
    const context = fitCanvas(this.overlay, this.width, this.height);
    context.lineWidth = 2;
    if (this.person >= 0) {
      context.strokeStyle = cssColour("ink");
      context.fillStyle = cssColour("paper");
      context.beginPath();
      context.arc(this.left[this.person], this.top[this.person], 7, 0, 2 * Math.PI);
      context.stroke();
    }
    if (drag) {
      context.strokeStyle = cssColour("link");
      context.setLineDash([4, 3]);
      context.strokeRect(drag.left, drag.top, drag.width, drag.height);
    }
  }

  setPerson(person) {
    this.person = person;
    this.drawSelection();
  }

  setRows(rows) {
    this.rows = rows;
    this.draw();
  }

  startDrag(event) {
    if (event.button !== 0) return;
    const bounds = this.overlay.getBoundingClientRect();
    const from = [event.clientX - bounds.left, event.clientY - bounds.top];
    const place = (next) => {
      const to = [next.clientX - bounds.left, next.clientY - bounds.top];
      const [left, top] = [Math.min(from[0], to[0]), Math.min(from[1], to[1])];
      return { left, top, width: Math.abs(to[0] - from[0]), height: Math.abs(to[1] - from[1]) };
    };
    const ended = new AbortController();
    const listen = (type, handle) => this.overlay.addEventListener(type, handle, { signal: ended.signal });
    this.overlay.setPointerCapture(event.pointerId); // the pointer may be released outside
    listen("pointermove", (next) => this.drawSelection(place(next)));
    listen("pointerup", (next) => {
      ended.abort();
      const drag = place(next);
      if (drag.width < 5 && drag.height < 5) this.pickNearest(...from);
      else this.finishBox(drag);
    });
    listen("pointercancel", () => {
      ended.abort();
      this.drawSelection();
    });
  }

  finishBox({ left, top, width, height }) {
    this.onBox({
      x: [this.toValue("x", left), this.toValue("x", left + width)],
      y: [this.toValue("y", top + height), this.toValue("y", top)],
    });
  }

  pickNearest(x, y) {
    let nearest = -1;
    let smallest = CLICK_RADIUS ** 2;
    for (let i = 0; i < this.people.count; i++) {
      const distance = (this.left[i] - x) ** 2 + (this.top[i] - y) ** 2;
      if (distance < smallest) [nearest, smallest] = [i, distance];
    }
    if (nearest >= 0) this.onPick(nearest);
  }

  // Arrow keys go to the nearest person in that direction.
  moveByKey(event) {
    const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const direction = directions[event.key];
    if (!direction) return;
    event.preventDefault();
    if (this.person < 0) {
      this.onPick(0);
      return;
    }
    let nearest = -1;
    let smallest = Infinity;
    for (let i = 0; i < this.people.count; i++) {
      const [right, down] = [this.left[i] - this.left[this.person], this.top[i] - this.top[this.person]];
      const ahead = right * direction[0] + down * direction[1];
      const aside = Math.abs(right * direction[1] + down * direction[0]);
      if (ahead > 0.5 && aside <= ahead && ahead + 2 * aside < smallest) [nearest, smallest] = [i, ahead + 2 * aside];
    }
    if (nearest >= 0) this.onPick(nearest);
  }
}

function parseColour(text) {
  return [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));
}

function blendSquare(image, left, top, size, [red, green, blue], opacity) {
  const { data, width } = image;
  for (let y = top; y < top + size; y++) {
    for (let x = left, p = 4 * (y * width + left); x < left + size; x++, p += 4) {
      const below = data[p + 3] / 255;
      const total = opacity + below * (1 - opacity);
      const share = opacity / total;
      data[p] += share * (red - data[p]);
      data[p + 1] += share * (green - data[p + 1]);
      data[p + 2] += share * (blue - data[p + 2]);
      data[p + 3] = 255 * total;
    }
  }
}

function codeColours(column) {
  if (column.key === "group") return { codes: column.values, colours: [cssColour("control"), cssColour("patient")] };
  if (column.levels) {
    const colours = column.levels.map((_, code) => CATEGORY_COLOURS[code % CATEGORY_COLOURS.length]);
    return { codes: column.values, colours };
  }
  const [low, high] = findRange(column.values);
  const last = NUMBER_COLOURS.length - 1;
  const codes = new Uint8Array(column.values.length);
  for (let i = 0; i < codes.length; i++) {
    const share = (column.values[i] - low) / (high - low);
    codes[i] = Number.isNaN(share) ? last + 1 : Math.min(last, Math.floor(share * (last + 1)));
  }
  return { codes, colours: [...NUMBER_COLOURS, cssColour("rule")] };
}

function listTicks(low, high, number) {
  const rough = (high - low) / Math.max(2, number);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(Number(tick.toPrecision(10)));
  return ticks;
}

function formatTick(tick) {
  const text = Math.abs(tick) >= 1e5 ? `${Number((tick / 1e6).toPrecision(4))} M` : String(tick);
  return text.replace("-", "\u2212");
}

function drawLegend(element, column) {
  element.replaceChildren();
  const { colours } = codeColours(column);
  if (column.levels) {
    column.levels.forEach((level, code) => {
      const square = makeElement("i", { className: "swatch" });
      square.style.background = colours[code];
      element.append(makeElement("span", {}, square, level), " ");
    });
    return;
  }
  const [low, high] = findRange(column.values);
  const bar = makeElement("i", { className: "gradient" });
  bar.style.background = `linear-gradient(to right, ${NUMBER_COLOURS.join(",")})`;
  element.append(`${column.label}: ${formatAny(low)} `, bar, ` ${formatAny(high)}`);
}
