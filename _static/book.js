// Open what is folded: for printing all of it, and what a link leads into. Let the
// keyboard reach what scrolls sideways.

const FOLDED = "details:not([open])";

window.addEventListener("beforeprint", () => {
  document.querySelectorAll(FOLDED).forEach((block) => {
    block.dataset.openedForPrint = "";
    block.open = true;
  });
});

window.addEventListener("afterprint", () => {
  document.querySelectorAll("[data-opened-for-print]").forEach((block) => {
    delete block.dataset.openedForPrint;
    block.open = false;
  });
});

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
  document
    .querySelectorAll("mjx-container, .pst-scrollable-table-container, .output")
    .forEach((box) => {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    });
}

window.addEventListener("load", async () => {
  unfoldTarget();
  await window.MathJax?.startup?.promise;
  reachWhatScrolls();
});
window.addEventListener("resize", reachWhatScrolls);
window.addEventListener("hashchange", unfoldTarget);
