// Read the first sheet of an Excel file that has cells: a zip archive of XML files.
async function readExcel(buffer, name) {
  const files = listZip(new DataView(buffer));
  const read = async (path) => {
    if (!files.has(path)) return null;
    const { start, size, method } = files.get(path);
    const stream = new Blob([new Uint8Array(buffer, start, size)]).stream();
    const text = await new Response(method ? stream.pipeThrough(new DecompressionStream("deflate-raw")) : stream).text();
    return new DOMParser().parseFromString(text, "application/xml");
  };
  const book = await read("xl/workbook.xml");
  if (!book) throw new Error(`${name} is a zip file, not an Excel file: export it as CSV.`);
  const links = await read("xl/_rels/workbook.xml.rels");
  const targets = new Map([...links.getElementsByTagNameNS("*", "Relationship")].map((link) => [link.getAttribute("Id"), link.getAttribute("Target")]));
  const getTexts = (element) => [...element.getElementsByTagNameNS("*", "t")].filter((text) => text.parentNode.localName !== "rPh").map((text) => text.textContent).join("");
  const shared = await read("xl/sharedStrings.xml");
  const strings = shared ? [...shared.getElementsByTagNameNS("*", "si")].map(getTexts) : [];
  for (const sheet of book.getElementsByTagNameNS("*", "sheet")) {
    const target = targets.get(sheet.getAttributeNS("http://schemas.openxmlformats.org/officeDocument/2006/relationships", "id"));
    const content = await read(target.startsWith("/") ? target.slice(1) : `xl/${target}`);
    const rows = [...content.getElementsByTagNameNS("*", "row")].map((row) => readRow(row, strings, getTexts)).filter((row) => row.some((cell) => cell));
    if (rows.length) return makeTable(name, rows);
  }
  throw new Error(`${name} has no cells: a header and one line per person are needed.`);
}

function readRow(row, strings, getTexts) {
  const cells = [];
  for (const cell of row.getElementsByTagNameNS("*", "c")) {
    const letters = (cell.getAttribute("r") ?? "").replace(/\d/g, "");
    const place = letters ? [...letters].reduce((sum, letter) => 26 * sum + letter.charCodeAt(0) - 64, 0) - 1 : cells.length;
    const value = cell.getElementsByTagNameNS("*", "v")[0]?.textContent ?? "";
    const kind = cell.getAttribute("t");
    while (cells.length < place) cells.push("");
    cells[place] = (kind === "s" ? strings[Number(value)] : kind === "inlineStr" ? getTexts(cell) : kind === "b" ? ["False", "True"][value] : value).trim();
  }
  return cells;
}

// Files of a zip archive, from the directory at its end: where each begins, its packed size, and how it is packed.
function listZip(view) {
  let end = view.byteLength - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end--;
  if (end < 0) throw new Error("this is an Excel or zip file that is not complete: copy it again, or export it as CSV.");
  const files = new Map();
  for (let k = 0, at = view.getUint32(end + 16, true); k < view.getUint16(end + 10, true); k++) {
    const [nameSize, extra, comment] = [28, 30, 32].map((offset) => view.getUint16(at + offset, true));
    const path = new TextDecoder().decode(new Uint8Array(view.buffer, at + 46, nameSize));
    const header = view.getUint32(at + 42, true);
    const start = header + 30 + view.getUint16(header + 26, true) + view.getUint16(header + 28, true);
    files.set(path, { start, size: view.getUint32(at + 20, true), method: view.getUint16(at + 10, true) });
    at += 46 + nameSize + extra + comment;
  }
  return files;
}
