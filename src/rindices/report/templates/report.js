"use strict";
const root = document.documentElement;
const theme = document.getElementById("theme");
theme.hidden = false;
theme.addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
// On paper, short explanations are open, and everything else that is closed is left out.
const explanations = document.querySelectorAll("details.explanation:not([open])");
addEventListener("beforeprint", () => explanations.forEach((details) => { details.open = true; }));
addEventListener("afterprint", () => explanations.forEach((details) => { details.open = false; }));
const copy = document.getElementById("copy");
if (navigator.clipboard) {
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    const text = document.getElementById("paste");
    const details = text.closest("details");
    if (details) details.open = true;
    await navigator.clipboard.writeText(text.innerText);
    copy.textContent = "Copied";
  });
}
// A table that is wider than the page can be moved by keys.
const observer = new ResizeObserver((entries) => entries.forEach(({ target }) => {
  if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
  else target.removeAttribute("tabindex");
}));
document.querySelectorAll(".scroll").forEach((table) => {
  table.setAttribute("role", "group");
  table.setAttribute("aria-label", "Table");
  observer.observe(table);
});
