// Make one printable page of the whole site, in the browser that shows its first page:
// a cover, the contents, and every page in reading order. It gives the outline: for
// each page its part, title and sections, with the names of their places.

async ({ pages, cover, site }) => {
  const top = `${location.origin}/`;
  const files = new Set(pages.map(({ file }) => file));
  const slug = (file) => file.replace(/\.html$/, "").replaceAll("/", "-");
  const words = (element) => element.textContent.trim().replace(/\s+/g, " ");

  // A link within the book leads to its place in the file. One to another file of the
  // site leads to where that is published, if it is.
  function lead(link, file) {
    const target = new URL(link.getAttribute("href"), top + file);
    if (target.origin !== location.origin) return;
    const to = target.pathname.slice(1);
    const anchor = target.hash.slice(1);
    if (files.has(to)) {
      link.setAttribute("href", `#${slug(to)}${anchor && `--${anchor}`}`);
    } else if (site) {
      link.href = site + to;
    } else {
      link.removeAttribute("href");
    }
  }

  async function read(file) {
    const answer = await fetch(top + file);
    if (!answer.ok) throw new Error(`${file}: ${answer.status}`);
    const html = new DOMParser().parseFromString(await answer.text(), "text/html");
    const article = html.querySelector("article.bd-article");
    const drop =
      "script, form, .headerlink, .viewcode-link, .copybtn, .toctree-wrapper";
    article.querySelectorAll(drop).forEach((element) => element.remove());
    article.querySelectorAll("a[href]").forEach((link) => lead(link, file));
    article.querySelectorAll("details").forEach((folded) => (folded.open = true));
    article.querySelectorAll("img[src]").forEach((image) => {
      image.loading = "eager";
      image.src = new URL(image.getAttribute("src"), top + file).href;
    });
    // Two pages may have one name for two places: each gets its page's before it.
    article.querySelectorAll("[id]").forEach((element) => {
      element.id = `${slug(file)}--${element.id}`;
    });
    const page = document.createElement("section");
    page.className = "whole-page";
    page.id = slug(file);
    page.append(...article.childNodes);
    return page;
  }

  function add(parent, tag, kind, text, target) {
    const element = document.createElement(tag);
    const inner = target ? document.createElement("a") : element;
    if (target) inner.href = `#${target}`;
    if (target) element.append(inner);
    inner.textContent = text;
    element.className = kind;
    parent.append(element);
  }

  // Inline maths is in a line of its paragraph; the number of an equation beside it.
  function shrinkFormula(formula) {
    const block = formula.getAttribute("display") === "true";
    const box = block ? formula.parentElement : formula.closest("p, li, dd, td, div");
    const number = block ? (box.querySelector(":scope > .eqno")?.offsetWidth ?? 0) : 0;
    const room = box.clientWidth - 2 * number;
    const { width } = formula.querySelector("mjx-math").getBoundingClientRect();
    if (room > 0 && width > room) formula.style.fontSize = `${(97 * room) / width}%`;
  }

  function shrinkTable(table) {
    const room = table.parentElement.clientWidth;
    if (table.offsetWidth > room) table.style.zoom = (0.99 * room) / table.offsetWidth;
  }

  const whole = document.querySelector("article.bd-article");
  whole.replaceChildren();
  add(whole, "header", "whole-cover", "");
  whole.lastChild.innerHTML = cover;
  add(whole, "nav", "whole-contents whole-page", "");
  const contents = whole.lastChild;
  add(contents, "p", "whole-contents-title", "Contents");
  const outline = [];
  for (const { file, part } of pages) {
    const page = await read(file);
    whole.append(page);
    const title = words(page.querySelector("h1"));
    if (part && part !== outline.at(-1)?.part) add(contents, "p", "whole-part", part);
    add(contents, "p", "whole-entry", title, page.id);
    const sections = [...page.querySelectorAll("h2")].map((heading) => {
      const { id } = heading.closest("section[id]");
      add(contents, "p", "whole-section", words(heading), id);
      return { title: words(heading), id };
    });
    outline.push({ part, title, id: page.id, sections });
  }
  document.documentElement.dataset.theme = "light";
  await window.MathJax?.startup?.promise;
  await window.MathJax?.typesetPromise?.([whole]);
  await document.fonts.ready;
  await Promise.all([...whole.querySelectorAll("img")].map((image) => image.decode()));
  whole.querySelectorAll("mjx-container").forEach(shrinkFormula);
  whole.querySelectorAll("table").forEach(shrinkTable);
  return outline;
};
