// Where the tabs go on to the side, the one that is shown stands in view.
for (const tab of document.querySelectorAll(".tabs [aria-current]")) {
  const bar = tab.parentElement;
  const [at, room] = [tab.getBoundingClientRect(), bar.getBoundingClientRect()];
  if (at.right > room.right || at.left < room.left) bar.scrollLeft += at.left - room.left - 12;
}
