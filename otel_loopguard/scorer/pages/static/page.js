// Keeps a page up to date: asks for the page itself, again and again, and puts in what has changed. Everything else on
// the pages works without this file. What comes is the server's own HTML, made with the same escaping as the page.
"use strict";
(() => {
  const main = document.querySelector("main[data-live]");
  if (!main) return;

  const everyMs = Number(main.dataset.live) * 1000;
  const mostMs = 15000;
  const status = document.getElementById("live");
  const text = document.createElement("span");
  const button = document.createElement("button");
  button.type = "button";
  status.append(text, button);

  let tag = "";
  let waitMs = everyMs;
  let paused = false;
  let timer = 0;

  function say(state, words) {
    status.dataset.state = state;
    if (text.textContent !== words) text.textContent = words;
    button.textContent = paused ? "Go on" : "Pause";
    button.setAttribute("aria-label", paused ? "Go on with live updates" : "Pause live updates");
  }

  function isBusy() {
    const at = document.activeElement;
    return at && at.closest("form") !== null && main.contains(at);
  }

  // Rows that did not change stay what they are, so that focus and selection stay, too.
  function putRows(old, fresh) {
    const held = new Map([...old.children].map((row) => [row.dataset.key, row]));
    const rows = [...fresh.children].map((row) => {
      const kept = held.get(row.dataset.key);
      if (kept) {
        kept.classList.remove("fresh");
        kept.id = row.id;
        return kept;
      }
      row.classList.add("fresh");
      return row;
    });
    rows.forEach((row, place) => {
      if (old.children[place] !== row) old.insertBefore(row, old.children[place] || null);
    });
    while (old.children.length > rows.length) old.lastElementChild.remove();
  }

  function put(page) {
    const focused = document.activeElement;
    const address = focused && main.contains(focused) ? focused.getAttribute("href") || focused.id : null;
    for (const id of ["outcomes", "list", "pager", "whole"]) {
      const old = document.getElementById(id);
      const fresh = page.getElementById(id);
      if (!old || !fresh || old.innerHTML === fresh.innerHTML) continue;
      const oldRows = old.querySelector("#rows");
      const freshRows = fresh.querySelector("#rows");
      if (oldRows && freshRows) {
        putRows(oldRows, freshRows);
        continue;
      }
      const open = [...old.querySelectorAll("details")].map((one) => one.open);
      old.replaceChildren(...fresh.childNodes);
      old.querySelectorAll("details").forEach((one, place) => (one.open = open[place] || false));
    }
    if (address && !main.contains(document.activeElement)) {
      const again = [...main.querySelectorAll("a[href], [id]")].find(
        (one) => one.getAttribute("href") === address || one.id === address,
      );
      if (again) again.focus({ preventScroll: true });
    }
  }

  async function look() {
    try {
      const headers = tag ? { "If-None-Match": tag } : {};
      const answer = await fetch(location.pathname + location.search, { headers, cache: "no-store" });
      if (answer.status === 200) {
        tag = answer.headers.get("ETag") || "";
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        if (!isBusy()) put(page);
      } else if (answer.status !== 304) {
        throw new Error(String(answer.status));
      }
      waitMs = everyMs;
      say("on", "Live");
    } catch {
      waitMs = Math.min(waitMs * 2, mostMs);
      say("off", "No answer; trying again");
    }
  }

  async function round() {
    clearTimeout(timer);
    if (paused) return;
    if (!document.hidden) await look();
    if (!paused) timer = setTimeout(round, waitMs);
  }

  button.addEventListener("click", () => {
    paused = !paused;
    clearTimeout(timer);
    if (paused) {
      say("paused", "Paused");
    } else {
      say("on", "Live");
      round();
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) round();
  });

  say("on", "Live");
  timer = setTimeout(round, everyMs);
})();
