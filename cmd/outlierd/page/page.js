// Enhances pages that work without it: keys, marks without a reload, copied links, menus that close,
// live updates, and completion of names in SQL.
"use strict";
const $ = (selector, from = document) => from.querySelector(selector);
const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];
const say = (text) => { $("#said").textContent = text; };

// Menus: one that loses the focus closes; Escape closes it and returns to its button.
const menus = $$("details.menu");
const close = (but) => menus.forEach((m) => { if (m !== but) m.open = false; });
document.addEventListener("click", (e) => close(e.target.closest("details.menu")));
document.addEventListener("focusin", (e) => close(e.target.closest("details.menu")));

// Marks are saved without leaving the page. What the page shows of them changes at once, and back if the server
// refuses them.
async function save(fields, said, undo = () => {}) {
  const form = $("#marks"), body = new URLSearchParams(new FormData(form));
  for (const [name, value] of fields) body.append(name, value);
  try {
    const answer = await fetch(form.action, { method: "POST", body });
    if (answer.status === 401) return location.assign("/login");
    if (!answer.ok) throw new Error(answer.statusText);
    say(said);
  } catch {
    undo();
    say("Not saved: outlierd up does not answer, or the login has ended");
  }
}
function showStar(button, on) {
  button.setAttribute("aria-pressed", on);
  button.name = on ? "unstar" : "star";
  button.firstElementChild.textContent = on ? "★" : "☆";
}
function star(button) {
  const was = button.getAttribute("aria-pressed") === "true";
  showStar(button, !was);
  save([[was ? "unstar" : "star", button.value]], was ? "Not starred any more" : "Starred", () => showStar(button, was));
}

// Picked videos.
const picked = () => $$("input[name=v]:checked");
document.addEventListener("change", (e) => { if (e.target.matches("input[name=v]")) say(picked().length + " picked"); });
for (const control of $$("[data-all]")) control.hidden = false;
async function markPicked(what, tags = "") {
  const boxes = picked(), all = boxes.map((box) => ["v", box.value]);
  const parts = boxes.map((box) => box.closest(".card, tr"));
  if (what === "star") {
    const stars = parts.map((part) => $(".star", part)).filter((s) => s?.ariaPressed === "false");
    for (const s of stars) showStar(s, true);
    await save([...all, ["all", what]], boxes.length + " starred", () => stars.forEach((s) => showStar(s, false)));
  } else if (what === "hide") {
    for (const box of boxes) box.checked = false;
    for (const part of parts) part.hidden = true;
    await save([...all, ["all", what]], boxes.length + " hidden", () => parts.forEach((part) => { part.hidden = false; }));
  } else {
    await save([...all, ["tags", tags]], boxes.length + " tagged");
  }
}

document.addEventListener("click", async (e) => {
  const button = e.target.closest("button.star, .hero button[aria-pressed]"), all = e.target.closest("button[data-all]");
  if (button) {
    e.preventDefault();
    star(button);
  }
  if (all) markPicked(all.dataset.all);
  const copy = e.target.closest("[data-copy]");
  if (copy && navigator.clipboard) {
    e.preventDefault();
    const links = picked().map((box) => "https://youtu.be/" + box.value);
    await navigator.clipboard.writeText(copy.value === "links" ? links.join("\n") : copy.value);
    say("Copied");
  }
});

// A picture that cannot be loaded leaves a grey tile.
document.addEventListener("error", (e) => { if (e.target.matches?.(".pic img")) e.target.hidden = true; }, true);

// Keys. They act on the card that has the focus, so that a screen reader follows. They can be turned
// off, because speech input types letters (WCAG 2.1.4).
const on = $("#keys-on");
on.checked = localStorage.getItem("keys") !== "off";
on.addEventListener("change", () => localStorage.setItem("keys", on.checked ? "on" : "off"));
const titles = $$(".card h3 a");
const at = () => titles.indexOf(document.activeElement.closest?.(".card") && $("h3 a", document.activeElement.closest(".card")));
const go = (step) => titles[Math.max(0, Math.min(titles.length - 1, at() + step))]?.focus();
const press = (selector) => { const card = titles[at()]?.closest(".card"); (card ? $(selector, card) : $(".hero " + selector))?.click(); };
const keys = {
  j: () => go(1), k: () => go(-1), o: () => titles[at()]?.click(),
  s: () => press("[aria-pressed]"), x: () => press(".pick input"), w: () => $("[data-watch]")?.click(),
  n: () => $("[rel=next]")?.click(), p: () => $("[rel=prev]")?.click(),
  "/": () => $("[type=search]")?.focus(), "?": () => $("#keys")?.togglePopover(),
};
document.addEventListener("keydown", (e) => {
  if (e.key === "Enter" && e.target.matches("input[data-all]")) {
    markPicked("tags", e.target.value);
    e.target.value = "";
  }
  if (e.key === "Escape") {
    const open = menus.find((m) => m.open);
    if (open) {
      open.open = false;
      $("summary", open).focus();
    }
    return;
  }
  if (e.ctrlKey || e.metaKey || e.altKey || !on.checked || e.target.closest("input:not([type=checkbox]), select, textarea")) return;
  if (keys[e.key]) {
    e.preventDefault();
    keys[e.key]();
  }
});

// Live pages are loaded again while somebody looks at them, and take over what has changed. All else
// stays as it is, with what a person has selected, focused or scrolled to.
const live = $("#live");

// become makes a node like another one, which it may take parts of.
function become(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const parts = [...fresh.childNodes];
  [...old.childNodes].forEach((part, i) => (parts[i] ? become(part, parts[i]) : part.remove()));
  old.append(...parts.slice(old.childNodes.length));
}

async function renew() {
  if (!document.hidden) {
    const away = $("#away");
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (answer.status === 401) return location.reload(); // the login has ended
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        if (!page.getElementById("live")) return location.reload(); // it has become another page
        for (const id of ["state", "headline", "summary", "at", "live"]) {
          const fresh = page.getElementById(id), old = document.getElementById(id);
          if (fresh && old) become(old, fresh);
        }
      }
      away.hidden = answer.ok;
    } catch {
      away.hidden = false;
    }
  }
  watch();
}

// A run that has ended stays as it is.
function watch() {
  if (live && !("ended" in live.dataset)) setTimeout(renew, 1000);
}
watch();

// SQL: tables and columns whose names begin like the word at the cursor are buttons below the text, so
// that the keyboard reaches them by Tab.
const sql = $("#sql");
const names = $$("[data-name]").map((e) => e.dataset.name);
const word = () => sql.value.slice(0, sql.selectionStart).match(/[\w.]*$/)[0];
function complete(name) {
  const end = sql.selectionStart;
  sql.setRangeText(name, end - word().length, end, "end");
  sql.focus();
  offer();
}
function offer() {
  const begun = word().toLowerCase();
  const fit = begun.length < 2 ? [] : [...new Set(names)].filter((n) => n.startsWith(begun) && n !== begun).slice(0, 8);
  $("#names").replaceChildren(...fit.map((name) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", () => complete(name));
    return button;
  }));
}
sql?.addEventListener("input", offer);
sql?.addEventListener("click", offer);
