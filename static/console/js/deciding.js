// A decision form stays closed until the end of what is decided on has been in view, and closes when that changes.
const form = document.querySelector("form[data-locks]");
if (form) guard();

function guard() {
  const end = document.querySelector("[data-end]");
  const note = form.querySelector("[data-lock]");
  const word = form.querySelector("[data-lock-word]");
  const box = form.elements.namedItem("seen_end");
  const controls = [...form.elements].filter((control) => control.type !== "hidden" && !control.disabled);
  const may = form.hasAttribute("data-may");
  let seen = box.checked || !end;
  let changed = false;

  function tell() {
    for (const control of controls) control.disabled = !may || !seen || changed;
    word.textContent = word.dataset[seen ? "open" : "locked"];
    note.hidden = !may;
    note.classList.toggle("is-open", seen);
  }

  function atEnd() {
    seen = true;
    box.checked = true;
    tell();
  }

  if (!seen) {
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      atEnd();
    });
    watcher.observe(end);
  }

  document.addEventListener("console:changed", (event) => {
    changed = event.detail;
    tell();
  });
  tell();
}

// The live part says how the object stands now; a form is about how it stood when the page was made.
document.addEventListener("htmx:after:swap", () => {
  const now = document.querySelector("#live [data-standing]");
  const bound = [...document.querySelectorAll("form[data-bound]")];
  if (!now || !bound.length) return;
  const moved = (each) =>
    each.dataset.standing !== now.dataset.standing || each.dataset.version !== now.dataset.version;
  const changed = bound.some(moved);
  for (const warning of document.querySelectorAll("[data-changed]")) warning.hidden = !changed;
  if (changed) {
    for (const each of bound) {
      for (const control of each.elements) if (control.type !== "hidden") control.disabled = true;
    }
  }
  document.dispatchEvent(new CustomEvent("console:changed", { detail: changed }));
});
