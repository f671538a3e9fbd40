function readJson(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

function makeElement(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Colours of the page, read once for each theme: asking for a style makes the browser lay out the page.
const themeColours = new Map();

function cssColour(name) {
  if (!themeColours.has(name)) {
    themeColours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  }
  return themeColours.get(name);
}

function formatNumber(value, digits = 2) {
  return Number.isNaN(value) ? "missing" : value.toFixed(digits).replace("-", "\u2212");
}

function formatSigned(value, digits = 2) {
  return (value > 0 ? "+" : "") + formatNumber(value, digits);
}

function formatAny(value) {
  if (Number.isNaN(value)) return "missing";
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

// A canvas in device pixels; returns its context in CSS pixels.
function fitCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const size = { width: Math.round(width * ratio), height: Math.round(height * ratio) };
  if (canvas.width !== size.width || canvas.height !== size.height) {
    Object.assign(canvas, size);
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.setLineDash([]);
  context.clearRect(0, 0, width, height);
  return context;
}
