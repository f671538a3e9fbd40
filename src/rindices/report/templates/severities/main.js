async function startSeverities() {
  const get = (id) => document.getElementById(id);
  const data = JSON.parse(get("severity-data").textContent);
  const arrays = await unpackArrays(data.arrays);
  const panel = new SeverityPanel(data, arrays, get("sliders"), get("severity-views"), get("severity-bars"), get("severity-summary"));
  get("severity-panel").hidden = false;
  panel.set(data.indices.map(() => 0.5));
  nameRegions(data, arrays);
  get("severity-none").addEventListener("click", () => panel.set(data.indices.map(() => 0)));
  get("severity-full").addEventListener("click", () => panel.set(data.indices.map(() => 1)));
}

startSeverities().catch((error) => {
  const message = document.getElementById("severity-failed");
  message.hidden = false;
  message.textContent = `This browser cannot show this section (${error.message}). The rest of the page does not need it.`;
});
