// Keeps a page up to date while somebody looks at it: loads it again and takes over what has
// changed. All else stays as it is, with what a person has selected, focused or scrolled to.
"use strict";
const live = document.getElementById("live");
const away = document.getElementById("away");

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
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (answer.status === 401) return location.reload(); // the login has ended
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const part of [document.getElementById("at"), live]) {
          const fresh = part && page.getElementById(part.id);
          if (fresh) become(part, fresh);
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
