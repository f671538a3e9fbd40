function makeElement(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
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
