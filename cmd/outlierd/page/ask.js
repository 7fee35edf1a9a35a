// Offers the tables and columns whose names begin like the word at the cursor. They are buttons
// below the text, so that the keyboard reaches them by Tab.
"use strict";
const sql = document.getElementById("sql");
const offers = document.getElementById("names");
const names = [...document.querySelectorAll("[data-name]")].map((e) => e.dataset.name);

function word() {
  return sql.value.slice(0, sql.selectionStart).match(/[\w.]*$/)[0];
}

function complete(name) {
  const end = sql.selectionStart;
  sql.setRangeText(name, end - word().length, end, "end");
  sql.focus();
  offer();
}

function offer() {
  const begun = word().toLowerCase();
  const fit = begun.length < 2 ? [] : [...new Set(names)].filter((n) => n.startsWith(begun) && n !== begun).slice(0, 8);
  offers.replaceChildren(...fit.map((name) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", () => complete(name));
    return button;
  }));
}

sql.addEventListener("input", offer);
sql.addEventListener("click", offer);
