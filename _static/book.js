// Open folded blocks: all of them for printing, and the one that a link leads into.
// Print in the light theme. Let the keyboard reach boxes that scroll sideways, and
// leave the search.

const FOLDED = "details:not([open])";

function layOutForPaper() {
  document.documentElement.dataset.theme = "light";
  document.querySelectorAll(FOLDED).forEach((block) => {
    block.dataset.openedForPrint = "";
    block.open = true;
  });
}

function putBack() {
  // A theme saved before would be wrong: printing itself asks for a light one.
  const mode = document.documentElement.dataset.mode;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = mode === "auto" ? system : mode;
  document.querySelectorAll("[data-opened-for-print]").forEach((block) => {
    delete block.dataset.openedForPrint;
    block.open = false;
  });
}

// Firefox prints a copy of the page, which gets no change of the medium. If a browser
// only emulates paper, that change is the only event.
window.addEventListener("beforeprint", layOutForPaper);
window.addEventListener("afterprint", putBack);
matchMedia("print").addEventListener("change", ({ matches }) =>
  matches ? layOutForPaper() : putBack(),
);

function unfoldTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = target?.closest(FOLDED);
  const button = target?.closest(".toggle-hidden")?.querySelector(".toggle-button");
  if (folded || button) {
    button?.click();
    if (folded) folded.open = true;
    target.scrollIntoView();
  }
}

function reachWhatScrolls() {
  document.querySelectorAll("span.math > mjx-container").forEach((formula) => {
    formula.classList.remove("wide-formula");
    const room = formula.closest("p, li, dd, td, div").clientWidth;
    const { width } = formula.getBoundingClientRect();
    formula.classList.toggle("wide-formula", width > room);
  });
  document
    .querySelectorAll("mjx-container, .pst-scrollable-table-container, .output")
    .forEach((box) => {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    });
}

// The search's dialog gives the focus back, and closes when the focus goes on.
function leaveSearch() {
  const dialog = document.querySelector(".search-button__wrapper");
  let opener;
  dialog?.addEventListener("focusin", ({ relatedTarget }) => {
    opener = relatedTarget;
  });
  dialog?.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget) dialog.classList.remove("show");
    else if (!dialog.classList.contains("show")) opener?.focus();
  });
}

window.addEventListener("load", async () => {
  leaveSearch();
  unfoldTarget();
  await window.MathJax?.startup?.promise;
  reachWhatScrolls();
});
window.addEventListener("resize", reachWhatScrolls);
window.addEventListener("hashchange", unfoldTarget);
