// The buttons that unfold a part of the side bar get a name for those who hear the page; the theme gives them none.
document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll(".bd-sidebar-primary summary")) {
    const link = button.closest("li")?.querySelector("a");
    button.setAttribute("aria-label", `Pages of ${link?.textContent.trim() ?? "this part"}`);
  }
});
