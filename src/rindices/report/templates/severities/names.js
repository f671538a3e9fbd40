// Names of regions: beside the pointer, over any picture of the brain on the page.
function nameRegions(data, arrays) {
  const label = makeElement("div", { id: "region-name", hidden: true });
  document.body.append(label);
  const show = (event) => {
    const name = findRegionName(data, arrays, event);
    label.hidden = !name;
    if (!name) return;
    label.textContent = name;
    label.style.left = `${Math.max(0, Math.min(event.clientX + 12, document.documentElement.clientWidth - label.offsetWidth))}px`;
    label.style.top = `${event.clientY + 16}px`;
  };
  for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, show);
}

function findRegionName(data, arrays, { target, clientX, clientY }) {
  const number = data.views.findIndex((view) => view.name === target.dataset?.view);
  if (number < 0) return "";
  const { width, height } = data.views[number];
  const box = target.getBoundingClientRect();
  const scale = Math.min(box.width / width, box.height / height); // the picture is in the middle of its box
  const x = Math.floor((clientX - box.left - box.width / 2) / scale + width / 2);
  const y = Math.floor((clientY - box.top - box.height / 2) / scale + height / 2);
  if (x < 0 || x >= width || y < 0 || y >= height) return "";
  const code = arrays[`labels${number}`][y * width + x]; // 0 outside the brain, 1 in no region
  return code < 2 ? "" : data.regions[arrays.region_of[code - 2]] ?? ""; // no name for regions that are not in the table
}
