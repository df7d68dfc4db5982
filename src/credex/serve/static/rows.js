// The list of rows: a page of it at a time, searched on the server.
import { ask } from "./server.js";

const { el, labelled } = credex;
const PAGE = 50;
const DELAY = 200; // milliseconds without a key before a search

export function rowList(host, columns, onPick, onError) {
  const search = el("input", { type: "search", placeholder: "label or values", autocomplete: "off" });
  const list = el("ul", { class: "list", role: "listbox", "aria-label": "Rows", tabindex: 0 });
  const count = el("p", { class: "small", role: "status" });
  const before = el("button", { type: "button", "aria-label": "Earlier rows" }, "‹");
  const after = el("button", { type: "button", "aria-label": "Later rows" }, "›");
  const turn = el("div", { class: "turn" }, before, count, after);
  host.append(labelled("Search rows", search), list, turn);
  let shown = [];
  let picked = null;
  let asked = 0;
  let offset = 0;
  let timer = null;

  function option({ row, label, cells }) {
    const words = cells.flatMap((cell, n) => {
      const value = el("bdi", {}, cell);
      return columns.length ? [el("span", { class: "cell" }, el("bdi", {}, columns[n]), " ", el("b", {}, value))] : [value];
    });
    const chosen = String(row === picked);
    return el(
      "li",
      { role: "option", id: `row-${row}`, "aria-selected": chosen },
      el("span", { class: "first" }, el("bdi", {}, label)),
      el("span", { class: "small" }, ...words),
    );
  }

  async function load(from) {
    asked += 1;
    const mine = asked;
    const query = new URLSearchParams({ search: search.value, offset: from, limit: PAGE });
    let found;
    try {
      found = await ask(`/api/rows?${query}`);
    } catch (error) {
      onError(error);
      return;
    }
    if (mine !== asked) return; // a later search is on its way
    offset = from;
    shown = found.rows;
    list.replaceChildren(...shown.map(option));
    list.scrollTop = 0;
    const last = offset + shown.length;
    const of = found.found === found.total ? "" : ` found, of ${found.total.toLocaleString("en-US")}`;
    count.textContent = shown.length
      ? `${(offset + 1).toLocaleString("en-US")}–${last.toLocaleString("en-US")} of ${found.found.toLocaleString("en-US")}${of}`
      : "No row has all these words";
    before.disabled = offset === 0;
    after.disabled = last >= found.found;
  }

  function pick(row) {
    for (const item of list.children) item.setAttribute("aria-selected", String(item.id === `row-${row}`));
    const chosen = document.getElementById(`row-${row}`);
    if (chosen) {
      const above = chosen.offsetTop - list.offsetTop;
      const hidden = above < list.scrollTop || above + chosen.offsetHeight > list.scrollTop + list.clientHeight;
      if (hidden) list.scrollTop = above - list.clientHeight / 2;
      list.setAttribute("aria-activedescendant", chosen.id);
    }
    if (row === picked) return;
    picked = row;
    onPick(row);
  }

  function key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || !shown.length) return;
    if (event.target === search && ["Home", "End"].includes(event.key)) return;
    event.preventDefault();
    const now = shown.findIndex((one) => one.row === picked);
    const next = now < 0 ? 0 : Math.min(Math.max(now + step, 0), shown.length - 1);
    pick(shown[next].row);
  }

  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => load(0), DELAY);
  });
  for (const field of [search, list]) field.addEventListener("keydown", key);
  list.addEventListener("click", (event) => {
    const chosen = event.target.closest("li");
    if (chosen) pick(Number(chosen.id.slice("row-".length)));
  });
  before.addEventListener("click", () => load(Math.max(offset - PAGE, 0)));
  after.addEventListener("click", () => load(offset + PAGE));
  return { pick, start: () => load(0) };
}
