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
  if (event.target.id !== "bring") return;
  say("Reading the table …");
  const started = Date.now();
  const clock = document.getElementById("clock");
  setInterval(() => (clock.textContent = `${Math.round((Date.now() - started) / 1000)} s`), 1000);
});

// The stage alone is read out, and when it changes: the clock beside it never stands still.
document.addEventListener("htmx:afterSettle", () => {
  const message = document.getElementById("message");
  const stage = document.getElementById("stage");
  if (message && stage.textContent !== message.textContent) stage.textContent = message.textContent;
});

document.addEventListener("htmx:sendError", () => showGone(true));
document.addEventListener("htmx:afterOnLoad", () => showGone(false));

function showGone(gone) {
  document.getElementById("gone").hidden = !gone;
}

document.addEventListener("click", (event) => {
  const tick = event.target.dataset.tick;
  if (!tick) return;
  for (const box of document.querySelectorAll("input[type=checkbox][name=feature], input[name=rest]")) box.checked = tick === "all";
  document.getElementById("choices").dispatchEvent(new Event("change", { bubbles: true }));
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
