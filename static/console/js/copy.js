// Copying by hand and by key; execCommand where a plain-HTTP page has no clipboard.
const say = document.getElementById("say");
let quiet;

export async function copy(text) {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "unseen";
    const before = document.activeElement;
    document.body.append(field);
    field.select();
    done = document.execCommand("copy");
    field.remove();
    before?.focus();
  }
  if (!say) return;
  say.textContent = done ? say.dataset.copied : say.dataset.failed;
  say.classList.add("shown");
  clearTimeout(quiet);
  quiet = setTimeout(() => {
    say.classList.remove("shown");
    say.textContent = "";
  }, 2500);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  // What is shown once stands in the page once: the button has no copy of its own.
  if (button) copy(button.dataset.copy || button.previousElementSibling.textContent);
});
