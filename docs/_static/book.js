// What the themes leave unnamed or out of the keyboard's reach.
(() => {
  const scrollers = ".bd-article div.math, .bd-article pre, .bd-article .text_html, "
    + ".pst-scrollable-table-container";
  const reach = () => {
    for (const box of document.querySelectorAll(scrollers)) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
  const name = () => {
    // These are called by the text that they show.
    for (const e of document.querySelectorAll("details.hide > summary, .search-button-field"))
      e.removeAttribute("aria-label");
    for (const e of document.querySelectorAll("nav details > summary")) {
      const page = e.closest("li").querySelector("a").textContent.trim();
      e.setAttribute("aria-label", `The pages under ${page}`);
    }
    // Sphinx lays out long signatures with lists that have no terms.
    for (const list of document.querySelectorAll("dt.sig > dl"))
      for (const e of [list, ...list.children]) e.setAttribute("role", "none");
  };
  // A picture that moves can be stopped: at #still the same file stands.
  const motion = () => {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    for (const image of document.querySelectorAll('figure img[alt^="Animation"]')) {
      const button = document.createElement("button"), moving = image.src;
      Object.assign(button, {type: "button", className: "motion", textContent: "Pause"});
      button.addEventListener("click", () => {
        const stop = image.src === moving;
        image.src = stop ? `${moving}#still` : moving;
        button.textContent = stop ? "Play" : "Pause";
      });
      image.closest("figure").prepend(button);
    }
  };
  document.addEventListener("DOMContentLoaded", name);
  document.addEventListener("DOMContentLoaded", motion);
  window.addEventListener("load", () => {
    const typeset = window.MathJax?.startup?.promise ?? Promise.resolve();
    typeset.then(reach);
  });
  window.addEventListener("resize", reach);
})();
