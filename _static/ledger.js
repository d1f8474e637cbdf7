// The ledger's filter: by chapter, by what is in print, by kind and by words.

function filterLedger() {
  const form = document.getElementById("ledger-filter");
  if (!form) return;
  const rows = [...document.querySelectorAll(".ledger-row")];
  const words = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const parts = new Set(rows.map((row) => row.closest("section")));

  function isChosen(row, { chapter, print, kind, text }) {
    const has = (name) => row.classList.contains(name);
    return (
      (!chapter || has(`chapter-${chapter}`)) &&
      (!kind || has(`kind-${kind}`)) &&
      (!print || (print === "corrected" ? !has("print-same") : has(`print-${print}`))) &&
      text.toLowerCase().split(/\s+/).every((word) => words.get(row).includes(word))
    );
  }

  function apply() {
    const asked = Object.fromEntries(new FormData(form));
    rows.forEach((row) => (row.hidden = !isChosen(row, asked)));
    const shown = rows.filter((row) => !row.hidden);
    parts.forEach((part) => (part.hidden = !shown.some((row) => part.contains(row))));
    form.querySelector("output").textContent =
      shown.length === rows.length
        ? `${rows.length} claims`
        : `${shown.length} of ${rows.length} claims`;
    const kept = new URLSearchParams(Object.entries(asked).filter(([, v]) => v));
    const query = kept.size ? `?${kept}` : location.pathname;
    history.replaceState(null, "", query + location.hash);
  }

  // An address such as ledger.html?print=wrong chooses rows.
  for (const [name, value] of new URLSearchParams(location.search)) {
    if (form.elements[name]) form.elements[name].value = value;
  }
  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  // A link to a row that is filtered out shows all rows.
  window.addEventListener("hashchange", () => {
    const row = document.getElementById(location.hash.slice(1))?.closest(".ledger-row");
    if (!row?.hidden) return;
    form.reset();
    apply();
    row.scrollIntoView();
  });
  apply();
}

document.addEventListener("DOMContentLoaded", filterLedger);
