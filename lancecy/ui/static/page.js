// What the page does besides links and forms, which work without it.
"use strict";

// A list is narrowed while its filter is typed.
for (const input of document.querySelectorAll("[data-narrows]")) {
  const list = document.getElementById(input.dataset.narrows);
  const entries = [...list.querySelectorAll("li")].filter((entry) => !entry.querySelector("ul"));
  if (entries.length < 8) continue;
  input.hidden = false;
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const entry of entries) entry.hidden = !entry.textContent.toLowerCase().includes(wanted);
  });
}

// Another version is shown once it is chosen.
for (const form of document.querySelectorAll("[data-submits]")) {
  form.querySelector("button").hidden = true;
  form.addEventListener("change", () => form.requestSubmit());
}

// "/" goes to the search, and the arrow keys from tab to tab.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = event.target.matches("input, select, textarea");
  if (!isTyping && event.key === "/") {
    const search = document.querySelector('[data-key="/"]');
    if (search) {
      event.preventDefault();
      search.select();
    }
  }
  const tab = event.target.closest(".tabs a");
  if (tab && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
    const next = event.key === "ArrowRight" ? tab.nextElementSibling : tab.previousElementSibling;
    if (next) next.focus();
  }
});

// The entry of the tree for what is shown is in view.
const current = document.querySelector('.tree a.table[aria-current="page"], .tree a[aria-current="page"]');
if (current) current.scrollIntoView({ block: "nearest" });
