"use strict";
// What a mark says stands in its <title>, for browsers without scripts. Here it
// moves into a card that opens by pointing, by tapping, and by the keyboard.
(() => {
  const card = document.getElementById("card");
  let kept = null; // the mark whose card stays
  let on = null;   // the mark whose card is open

  const show = (mark, keep) => {
    if (on) on.classList.remove("on");
    on = mark;
    kept = keep ? mark : null;
    card.hidden = !mark;
    card.classList.toggle("kept", Boolean(keep));
    if (!mark) return;
    mark.classList.add("on");
    card.textContent = mark.tip;
    place(mark.getBoundingClientRect(), mark.closest(".picture").getBoundingClientRect());
  };

  // place puts the card below the mark, or above where there is no room.
  const place = (mark, picture) => {
    const left = Math.max(mark.left, picture.left + 118);
    const room = document.documentElement.clientWidth - card.offsetWidth - 12;
    const below = mark.bottom + 10 + card.offsetHeight < innerHeight;
    card.style.left = Math.max(12, Math.min(left, room)) + "px";
    card.style.top = (below ? mark.bottom + 10 : Math.max(8, mark.top - card.offsetHeight - 10)) + "px";
  };

  // go moves the focus to a mark, and the picture so that it is seen.
  const go = (mark) => {
    if (!mark) return;
    mark.focus({ preventScroll: true });
    mark.scrollIntoView({ block: "nearest", inline: "nearest" });
    const picture = mark.closest(".picture");
    const hidden = picture.getBoundingClientRect().left + 126 - mark.getBoundingClientRect().left;
    if (hidden > 0) picture.scrollLeft -= hidden;
    show(mark, false);
  };

  for (const picture of document.querySelectorAll(".picture")) {
    const lanes = [...picture.querySelectorAll(".time > g")]
      .map((g) => (g.classList.contains("mark") ? [g] : [...g.querySelectorAll(".mark")]))
      .filter((lane) => lane.length)
      .map((lane) => lane.sort((a, b) => a.dataset.at - b.dataset.at));
    const all = lanes.flat().sort((a, b) => a.dataset.at - b.dataset.at);
    for (const mark of all) {
      const title = mark.querySelector("title");
      mark.tip = title.textContent;
      title.remove();
      mark.addEventListener("pointerenter", (e) => { if (e.pointerType === "mouse" && !kept) show(mark, false); });
      mark.addEventListener("pointerleave", (e) => { if (e.pointerType === "mouse" && !kept) show(null, false); });
      mark.addEventListener("click", (e) => { e.stopPropagation(); show(mark, kept !== mark); });
    }
    // Up and down go to the mark of the next lane that is nearest in time.
    const beside = (mark, step) => {
      const i = lanes.findIndex((lane) => lane.includes(mark)) + step;
      return (lanes[i] || []).reduce((best, m) => (!best || Math.abs(m.dataset.at - mark.dataset.at) < Math.abs(best.dataset.at - mark.dataset.at) ? m : best), null);
    };
    picture.addEventListener("keydown", (e) => {
      const mark = e.target.classList.contains("mark") ? e.target : null;
      const i = all.indexOf(mark);
      const to = {
        ArrowRight: () => all[i + 1], ArrowLeft: () => all[mark ? i - 1 : 0],
        ArrowDown: () => (mark ? beside(mark, 1) : all[0]), ArrowUp: () => mark && beside(mark, -1),
        Home: () => all[0], End: () => all[all.length - 1],
      }[e.key];
      if (to) { e.preventDefault(); go(to()); }
      if (mark && (e.key === "Enter" || e.key === " ")) { e.preventDefault(); show(mark, kept !== mark); }
    });
    picture.addEventListener("scroll", () => { if (on && !kept && on !== document.activeElement) show(null, false); else if (on) place(on.getBoundingClientRect(), picture.getBoundingClientRect()); });
  }

  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => {
      const picture = button.closest("section").querySelector(".picture");
      const was = Number(picture.style.getPropertyValue("--zoom")) || 1;
      const zoom = Math.max(1, Math.min(32, was * Number(button.dataset.zoom)));
      const middle = (picture.scrollLeft + picture.clientWidth / 2) / picture.scrollWidth;
      picture.style.setProperty("--zoom", zoom);
      picture.scrollLeft = middle * picture.scrollWidth - picture.clientWidth / 2;
    });
  }

  document.addEventListener("keydown", (e) => { if (e.key === "Escape") show(null, false); });
  document.addEventListener("click", () => show(null, false));
  document.addEventListener("focusout", (e) => { if (on && e.target === on && !kept) show(null, false); });
  addEventListener("resize", () => show(null, false));
})();
