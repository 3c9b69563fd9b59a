// Keyboard shortcuts. They move, open and copy; none of them decides or sends anything.
import { copy } from "./copy.js";
import { pick } from "./select.js";

const TYPING = "input, select, textarea, [contenteditable]";
const help = document.getElementById("keys");
let going = 0;

const rows = () => [...document.querySelectorAll("a[data-row]")].filter((row) => row.offsetParent);

function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1);
  all[next].focus();
}

function open() {
  const link = document.activeElement;
  if (link?.matches("a[data-row]")) location.assign(link.href);
}

function permalink() {
  const address = new URL(location.href);
  address.hash = "";
  return address.href;
}

const ACTIONS = {
  "?": () => help.showModal(),
  "/": () => document.getElementById("search")?.focus(),
  j: () => move(1),
  k: () => move(-1),
  o: open,
  x: pick,
  p: () => document.querySelector("#live-state [data-pause]")?.click(),
  y: () => copy(permalink()),
  ".": () => {
    const curl = document.querySelector("[data-curl]");
    if (curl) copy(curl.textContent);
  },
  d: () => (document.querySelector("#decision textarea:not([disabled])") ?? document.querySelector("[data-decide]"))?.focus(),
};

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.closest?.(TYPING) || document.querySelector("dialog[open]")) return;
  const second = going && performance.now() - going < 1200;
  going = 0;
  const page = second && /^[a-z]$/.test(event.key) && document.querySelector(`[data-go="${event.key}"]`);
  if (page) {
    event.preventDefault();
    location.assign(page.href);
  } else if (event.key === "g") {
    going = performance.now();
  } else if (Object.hasOwn(ACTIONS, event.key)) {
    event.preventDefault();
    ACTIONS[event.key]();
  }
}

if (document.documentElement.dataset.shortcuts === "on") document.addEventListener("keydown", pressed);

// A menu closes when the person goes elsewhere.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details[data-menu][open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const menu = document.querySelector("details[data-menu][open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
(document.querySelector("input[data-take-focus]") ?? document.querySelector("[data-take-focus]"))?.focus();
