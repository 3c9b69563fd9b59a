// The live part of a page: polled by htmx, at rest while a person is busy in it, and never silently old.
import { clockText, serverNow, setServerTime, tick } from "./clock.js";

const STALE_AFTER = 3;
const BUSY = "input, select, textarea, [contenteditable]";
const region = document.getElementById("live");
const state = document.getElementById("live-state");

if (region && state) watch();

function watch() {
  const word = state.querySelector("[data-word]");
  const updated = state.querySelector("[data-updated]");
  const pause = state.querySelector("[data-pause]");
  const bar = document.querySelector("[data-stale-bar]");
  const barWords = document.querySelector("[data-stale-words]");
  let paused = false;
  let failures = 0;
  let signedOut = false;
  let seen = serverNow();

  const selecting = () => {
    const selection = document.getSelection();
    return Boolean(selection && !selection.isCollapsed && region.contains(selection.anchorNode));
  };
  const typing = () => region.contains(document.activeElement) && document.activeElement.matches(BUSY);

  /** Why no poll may go out now, or an empty string. */
  function atRest() {
    if (paused) return "paused";
    if (document.hidden || document.querySelector("dialog[open]")) return "paused";
    if (typing()) return "focus";
    if (region.querySelector("[data-select]:checked")) return "rows";
    return selecting() ? "selection" : "";
  }

  function tell() {
    const stale = failures >= STALE_AFTER;
    const why = stale ? "stale" : atRest();
    state.dataset.state = stale ? "stale" : why ? "paused" : "live";
    const text = word.dataset[why || "live"];
    if (word.textContent !== text) word.textContent = text;
    updated.textContent = clockText(seen);
    bar.hidden = !stale;
    region.classList.toggle("is-stale", stale);
    if (stale) barWords.textContent = `${barWords.dataset[signedOut ? "signedOut" : "since"]} ${clockText(seen)} UTC`;
  }

  function failed() {
    failures += 1;
    tell();
  }

  const ours = (event) => event.detail.ctx?.sourceElement === region;

  // On a slow line htmx may have looked at the region before its extension was there to read the first tag.
  document.addEventListener("htmx:config:request", (event) => {
    if (ours(event)) event.detail.ctx.request.headers["HX-PTag"] ??= region.getAttribute("hx-ptag");
  });
  document.addEventListener("htmx:before:request", (event) => {
    if (!ours(event)) return;
    if (atRest()) event.preventDefault();
    tell();
  });
  document.addEventListener("htmx:after:request", (event) => {
    if (!ours(event)) return;
    const { status, headers } = event.detail.ctx.response;
    signedOut = status === 401;
    if (status !== 200 && status !== 304) {
      event.preventDefault(); // an error page never takes the place of what a person is reading
      failed();
      return;
    }
    failures = 0;
    setServerTime(headers.get("Console-Time"));
    seen = serverNow();
    tell();
    refresh();
  });
  document.addEventListener("htmx:error", (event) => {
    if (ours(event)) failed();
  });
  document.addEventListener("htmx:after:swap", (event) => {
    if (ours(event)) refresh();
  });

  /** What the fragment says about the page around it. */
  function refresh() {
    tick();
    const title = region.querySelector("[data-title]")?.dataset.title;
    if (title && document.title !== title) document.title = title;
    for (const checked of region.querySelectorAll("[data-checked]")) checked.textContent = clockText(seen);
  }

  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    const label = pause.querySelector("[data-pause-word]");
    label.textContent = label.dataset[paused ? "resume" : "pause"];
    tell();
  });
  for (const name of ["change", "focusin", "focusout", "selectionchange", "visibilitychange"]) {
    document.addEventListener(name, () => queueMicrotask(tell));
  }
  tell();
  refresh();
}
