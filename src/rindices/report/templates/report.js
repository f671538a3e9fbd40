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
    await navigator.clipboard.writeText(document.getElementById("paste").innerText);
    copy.textContent = "Copied";
  });
}
