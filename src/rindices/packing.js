// Decode the arrays of a page (rindices.packing).
const ARRAY_TYPES = { uint8: Uint8Array, uint16: Uint16Array, float32: Float32Array, float64: Float64Array };

async function inflate(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

async function unpackArrays(packed) {
  const bytes = new Uint8Array(await inflate(packed.bytes));
  const arrays = {};
  for (const [name, entry] of Object.entries(packed.arrays)) arrays[name] = joinBytes(bytes, entry);
  return arrays;
}

// The first bytes of all numbers come first, then the second bytes, and so on.
function joinBytes(bytes, { type, start, length }) {
  const numbers = new ARRAY_TYPES[type](length);
  const size = numbers.BYTES_PER_ELEMENT;
  const joined = new Uint8Array(numbers.buffer);
  for (let k = 0; k < size; k++) {
    for (let i = 0, from = start + k * length; i < length; i++) joined[i * size + k] = bytes[from + i];
  }
  return numbers;
}
