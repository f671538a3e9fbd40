// Read text tables in the dialects that rindices apply reads: comma, tab, semicolon or blanks; quotes; decimal commas.
const MISSING_TEXTS = new Set(["", "NA", "N/A", "n/a", "na", "NaN", "nan", "-nan", "NULL", "null", "<NA>", "#N/A", "#NA", "#NULL!", ".", "n.a.", "missing"]);

function decodeText(buffer) {
  const bytes = new Uint8Array(buffer);
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) throw new Error("this is a gzip file: unpack it.");
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return new TextDecoder("utf-16le").decode(bytes);
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return new TextDecoder("utf-16be").decode(bytes);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

function detectSeparator(header) {
  const unquoted = header.replace(/"[^"]*"/g, "");
  const counts = ["\t", ";", ","].map((mark) => [mark, unquoted.split(mark).length - 1]);
  const [best, count] = counts.reduce((a, b) => (b[1] > a[1] ? b : a));
  if (count) return best;
  return header.trim().split(/\s+/).length > 1 ? null : ",";
}

function isZip(buffer) {
  return buffer.byteLength > 1 && new DataView(buffer).getUint16(0) === 0x504b;
}

// One line to its cells; a separator of null means blanks.
function splitCells(line, separator) {
  if (separator === null) return (line.match(/"[^"]*"|\S+/g) || []).map((cell) => cell.replace(/^"|"$/g, ""));
  const cells = [];
  let cell = "";
  let isQuoted = false;
  for (let i = 0; i < line.length; i++) {
    const letter = line[i];
    if (isQuoted && letter === '"' && line[i + 1] === '"') {
      cell += '"';
      i++;
    } else if (letter === '"' && (isQuoted || cell.trim() === "")) {
      isQuoted = !isQuoted;
    } else if (letter === separator && !isQuoted) {
      cells.push(cell.trim());
      cell = "";
    } else {
      cell += letter;
    }
  }
  if (isQuoted) throw new Error("a quotation mark is not closed on its line: correct the table.");
  cells.push(cell.trim());
  return cells;
}

function usesDecimalComma(rows, separator) {
  if (separator === ",") return false;
  const cells = rows.slice(0, 200).flat();
  const commas = cells.filter((cell) => /^-?\d+,\d+$/.test(cell));
  const points = cells.filter((cell) => /^-?\d+\.\d+$/.test(cell)).length;
  return commas.length > points && !commas.every((cell) => /^-?\d{1,3},\d{3}$/.test(cell));
}

// A table: header, and rows of texts. Texts that a spreadsheet would run lose the apostrophe before them.
function parseTable(text, name) {
  const lines = text.replace(/^\ufeff/, "").split(/\r\n|\n|\r/);
  const numbers = [...lines.keys()].filter((k) => lines[k].replace(/[ \t,;"]/g, "") !== "");
  while (numbers.length && /^\s*#|^sep=.$/i.test(lines[numbers[0]])) numbers.shift();
  const filled = numbers.map((k) => lines[k]);
  if (filled.length < 2) throw new Error(`${name} has no people: a header and one line per person are needed.`);
  const separator = detectSeparator(filled[0]);
  const rows = filled.map((line) => splitCells(line, separator));
  const uneven = rows.findIndex((row) => row.length !== rows[0].length);
  if (uneven >= 0) {
    const counts = `${rows[uneven].length} values, the header ${rows[0].length} names`;
    throw new Error(`${name}: line ${numbers[uneven] + 1} has ${counts}: export the table again.`);
  }
  return makeTable(name, rows, usesDecimalComma(rows.slice(1), separator));
}

// A table from rows of texts, of which the first is the header; cells that are left out at the end of a row are empty.
function makeTable(name, rows, isComma = false) {
  const width = Math.max(...rows.map((row) => row.length));
  const header = Array.from({ length: width }, (_, k) => rows[0][k] || `column ${k + 1}`);
  const twice = header.find((column, k) => header.indexOf(column) !== k);
  if (twice !== undefined) throw new Error(`${name}: duplicate column ${twice}: remove one.`);
  return { name, header, rows: rows.slice(1).map((row) => header.map((_, k) => cleanCell(row[k] ?? "", isComma))) };
}

function cleanCell(cell, isComma) {
  if (MISSING_TEXTS.has(cell)) return "";
  if (/^'+[=+\-@]/.test(cell)) return cell.slice(1);
  return isComma ? cell.replace(/^([+-]?\d+),(\d+)$/, "$1.$2") : cell;
}

function normaliseName(name) {
  return name.toLowerCase().replace(/[^a-z0-9]+/g, "");
}

// Places of the columns by name; columns of MUSE codes are also found as MUSE_47.
function indexColumns(table) {
  const places = new Map();
  table.header.forEach((column, place) => {
    const muse = column.match(/^(?:X|(?:DL_)?MUSE_(?:Volume_)?|ROI_?)?(\d{1,3})$/i);
    for (const name of [normaliseName(column), ...(muse ? [`muse${Number(muse[1])}`] : [])]) {
      if (!places.has(name)) places.set(name, place);
    }
  });
  return places;
}

function findColumn(table, names) {
  table.places ??= indexColumns(table);
  const name = names.find((option) => table.places.has(normaliseName(option)));
  return name === undefined ? -1 : table.places.get(normaliseName(name));
}

function parseNumber(text) {
  if (text === "") return NaN;
  const number = Number(text);
  if (!Number.isFinite(number)) return undefined;
  return number;
}
