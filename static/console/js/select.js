// Selecting rows for a bulk review. What is selected, and the review itself, are the server's to read.
const said = document.querySelector("[data-selected]");
const boxes = () => [...document.querySelectorAll("[data-select]")];

function tell() {
  if (!said) return;
  const count = boxes().filter((box) => box.checked).length;
  said.textContent = count ? `${count}` : "";
  document.getElementById("bulk")?.classList.toggle("has-some", count > 0);
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-select-all]")) {
    for (const box of boxes()) box.checked = event.target.checked;
  }
  if (event.target.matches("[data-select], [data-select-all]")) tell();
});

/** The key `x`: the row whose link has the focus. */
export function pick() {
  const box = document.activeElement?.closest("tr")?.querySelector("[data-select]");
  if (!box) return;
  box.checked = !box.checked;
  box.dispatchEvent(new Event("change", { bubbles: true }));
}

tell();
