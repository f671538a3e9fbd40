// R-indices in JavaScript: `rindices model export model.safetensors --onnx model.onnx`, then in a page or under Node.
//   npm install onnxruntime-web
//   node r_indices.mjs model.onnx people.json
// people.json holds columns by name: {"MUSE_23": [...], ..., "age": [...], "sex": ["F", ...]}.
import { readFile } from "node:fs/promises";
import * as ort from "onnxruntime-web";

export async function rIndices(session, columns) {
  const feeds = {};
  for (const input of session.inputMetadata) {
    const values = columns[input.name];
    if (values === undefined) throw new Error(`the column ${input.name} is missing`);
    feeds[input.name] =
      input.type === "string"
        ? new ort.Tensor("string", values.map(String), [values.length, 1])
        : new ort.Tensor("float64", Float64Array.from(values), [values.length, 1]);
  }
  const results = await session.run(feeds); // r_indices, low, high (people x patterns), unusual (people x 1)
  return Object.fromEntries(Object.entries(results).map(([name, t]) => [name, { dims: t.dims, data: [...t.data] }]));
}

if (process.argv[2]) {
  ort.env.wasm.numThreads = 1;
  const session = await ort.InferenceSession.create(await readFile(process.argv[2]), { executionProviders: ["wasm"] });
  console.log(JSON.stringify(await rIndices(session, JSON.parse(await readFile(process.argv[3], "utf8")))));
}
