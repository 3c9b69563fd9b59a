// The database's clock, carried on by the browser's monotonic one: the person's own clock decides nothing.
let base = Date.parse(document.documentElement.dataset.now);
let measured = performance.now();

export const serverNow = () => base + performance.now() - measured;

export function setServerTime(iso) {
  const moment = Date.parse(iso);
  if (!Number.isNaN(moment)) {
    base = moment;
    measured = performance.now();
  }
}

export const clockText = (milliseconds) => new Date(milliseconds).toISOString().slice(11, 19);

const two = (number) => String(number).padStart(2, "0");

function leftText(milliseconds) {
  const seconds = Math.ceil(milliseconds / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return hours ? `· ${hours}:${two(minutes)}:${two(seconds % 60)}` : `· ${two(minutes)}:${two(seconds % 60)}`;
}

export function tick() {
  const now = serverNow();
  for (const clock of document.querySelectorAll("[data-clock]")) clock.textContent = clockText(now);
  for (const countdown of document.querySelectorAll("[data-until]")) {
    const left = Date.parse(countdown.dataset.until) - now;
    const text = left > 0 ? leftText(left) : `· ${countdown.dataset.past}`;
    if (countdown.textContent !== text) countdown.textContent = text;
  }
}

document.documentElement.dataset.js = "on";
setInterval(tick, 1000);
tick();
