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
  const buffer = await inflate(packed.bytes);
  const arrays = {};
  for (const [name, entry] of Object.entries(packed.arrays)) {
    const codes = new ARRAY_TYPES[entry.type](buffer, entry.start, entry.length);
    arrays[name] = entry.step === undefined ? codes : dequantise(codes, entry);
  }
  return arrays;
}

function dequantise(codes, { type, low, step }) {
  const missing = type === "uint8" ? 255 : 65535;
  const values = new Float32Array(codes.length);
  for (let i = 0; i < codes.length; i++) values[i] = codes[i] === missing ? NaN : low + codes[i] * step;
  return values;
}
