// Keeps a page up to date while somebody looks at it: loads it again and takes over the part that
// changes. What a person has selected, focused or scrolled to stays.
"use strict";
const live = document.getElementById("live");
const away = document.getElementById("away");

function take(page) {
  const at = page.getElementById("at");
  if (at) document.getElementById("at").textContent = at.textContent;
  const fresh = page.getElementById("live");
  if (!fresh || fresh.innerHTML === live.innerHTML || !getSelection().isCollapsed) return;
  const stops = () => [...live.querySelectorAll("a, button, input, [tabindex]")];
  const focused = stops().indexOf(document.activeElement);
  const scrolled = [...live.querySelectorAll(".wide")].map((e) => e.scrollLeft);
  live.replaceChildren(...fresh.childNodes);
  live.querySelectorAll(".wide").forEach((e, i) => { e.scrollLeft = scrolled[i] || 0; });
  if (focused >= 0) stops()[focused]?.focus({ preventScroll: true });
}

async function renew() {
  if (!document.hidden) {
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (answer.ok) take(new DOMParser().parseFromString(await answer.text(), "text/html"));
      away.hidden = answer.ok;
    } catch {
      away.hidden = false;
    }
  }
  setTimeout(renew, 1000);
}

if (live) setTimeout(renew, 1000);
