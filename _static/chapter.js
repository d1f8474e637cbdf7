// The switch between reading (code folded) and running (code shown), which is
// remembered, and the fields that compare a reader's number with an exercise's answer.

const KEY = "bnlib-read-or-run";
const CODE = ".shown-in-run > details.hide";

function remembered() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // The browser keeps nothing for this page: it starts with Read.
  }
}

function remember(mode) {
  try {
    localStorage.setItem(KEY, mode);
  } catch {
    // It holds for this page alone.
  }
}

function show(mode) {
  document.querySelectorAll(CODE).forEach((fold) => {
    fold.open = mode === "run";
  });
  document.querySelectorAll(".read-or-run button").forEach((button) => {
    button.setAttribute("aria-pressed", String(button.value === mode));
  });
}

function addSwitch() {
  const header = document.querySelector(".article-header-buttons");
  if (!header || !document.querySelector(CODE)) return;
  const group = document.createElement("div");
  group.className = "read-or-run";
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", "Code on this page");
  for (const [mode, name, says] of [
    ["read", "Read", "Fold all code"],
    ["run", "Run", "Show all code"],
  ]) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", value: mode, title: says });
    button.textContent = name;
    button.addEventListener("click", () => {
      remember(mode);
      show(mode);
    });
    group.append(button);
  }
  header.prepend(group);
  show(remembered() === "run" ? "run" : "read");
}

// "0,5", "1/3" and "2e-3" are numbers too.
function toNumber(text) {
  const [above, below = "1", ...more] = text
    .replaceAll(",", ".")
    .replaceAll("\u2212", "-")
    .split("/");
  const number = above.trim() && !more.length ? Number(above) / Number(below) : NaN;
  return Number.isFinite(number) ? number : NaN;
}

function judge(form) {
  const { value, within } = form.dataset;
  const told = form.querySelector("output");
  const off = toNumber(form.querySelector("input").value) - Number(value);
  const right = Math.abs(off) <= Number(within) * (1 + 1e-9);
  told.dataset.right = right ? "yes" : "no";
  if (Number.isNaN(off)) told.textContent = "That is no number: try 0.25, 1/4 or 2e-3.";
  else if (right) told.textContent = "Right.";
  else told.textContent = `Not yet: you are off by ${Number(Math.abs(off).toPrecision(2))}.`;
}

function openFields() {
  document.querySelectorAll("form.answer").forEach((form) => {
    form.hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      judge(form);
    });
  });
}

// The scripts of the head come before the page's parts.
document.addEventListener("DOMContentLoaded", () => {
  addSwitch();
  openFields();
});
