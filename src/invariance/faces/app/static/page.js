"use strict";

document.addEventListener("change", (event) => {
  const input = event.target;
  if (input.id !== "file" || !input.files.length) return;
  const largest = Number(input.dataset.largest);
  if (input.files[0].size > largest) {
    say(`${input.files[0].name} has more than ${largest / 1e6} MB, which is too large for this page.`);
    input.value = "";
  } else {
    input.form.requestSubmit();
  }
});

document.addEventListener("submit", (event) => {
  if (event.target.id === "bring") say("Reading the table …");
});

document.addEventListener("click", (event) => {
  const tick = event.target.dataset.tick;
  if (!tick) return;
  for (const box of document.querySelectorAll("input[name=feature], input[name=rest]")) box.checked = tick === "all";
});

for (const kind of ["dragenter", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    const drop = event.target.closest?.(".drop");
    if (drop) drop.classList.toggle("over", kind === "dragenter");
  });
}

function say(text) {
  document.getElementById("busy").textContent = text;
}
