// The Copy button beside code that st.html shows. Loaded with every page's title; one listener for all of them.
if (!window.napkinCopies) {
  window.napkinCopies = true;
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.(".np-copy");
    if (!button) return;
    const code = button.parentElement.querySelector("pre");
    getSelection().selectAllChildren(code); // seen, and copied by hand where the browser does not let us
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      document.execCommand("copy"); // not a secure context: the page comes from another machine by http
    }
    button.classList.add("np-copied");
    setTimeout(() => button.classList.remove("np-copied"), 1500);
  });
}
