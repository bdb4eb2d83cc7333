// What scrolls sideways can be scrolled with the keyboard too.
(() => {
  const scrollers = ".bd-article div.math, .bd-article pre, .pst-scrollable-table-container, .bd-article .text_html";
  const reach = () => {
    for (const box of document.querySelectorAll(scrollers)) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
  window.addEventListener("load", () => {
    const typeset = window.MathJax?.startup?.promise ?? Promise.resolve();
    typeset.then(reach);
  });
  window.addEventListener("resize", reach);
})();
