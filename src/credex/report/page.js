// The report of an explanation or a batch: reads the page's data and builds what is above the audit.
"use strict";

(() => {
  const { el } = credex;
  const data = JSON.parse(document.getElementById("data").textContent);
  const app = document.getElementById("app");
  const FIRST_MEANS = 10; // features in the table of means before the reader asks for all

  // -- light and dark -----------------------------------------------------------------------------

  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const sayTheme = () => {
    button.textContent = isDark() ? "Light mode" : "Dark mode";
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    sayTheme();
  });
  system.addEventListener("change", sayTheme);
  button.hidden = false;
  sayTheme();

  function section(title, ...children) {
    const id = `section-${document.querySelectorAll("main section").length}`;
    const made = el("section", { "aria-labelledby": id }, el("h2", { id }, title), ...children);
    app.append(made);
    return made;
  }

  // -- means over the rows of a batch -------------------------------------------------------------

  function summary(host) {
    const said = credex.verdict(host);
    const room = el("div", { class: "room" });
    const note = el("p", { class: "small" });
    const more = el("button", { type: "button" });
    host.append(room, el("div", { class: "below" }, note, more));
    let all = false;
    let last = [];
    more.addEventListener("click", () => {
      all = !all;
      made.show(...last);
    });
    const made = {
      show(outputs, levels, level, output) {
        last = [outputs, levels, level, output];
        const s = outputs[output];
        const [at, found] = credex.closest(s.levels, level);
        const other = at === level ? "" : `At ${levels[at]}: means over rows are not worked out for ${levels[level]}.`;
        said.show(found.verdict, other);
        room.replaceChildren();
        note.textContent = s.note;
        more.hidden = !found.mean || s.names.length <= FIRST_MEANS;
        more.textContent = all ? `Show the first ${FIRST_MEANS}` : `Show all ${s.names.length}`;
        if (!found.mean) return;
        const rows = s.names.slice(0, all ? undefined : FIRST_MEANS).map((name, n) => ({
          name,
          colour: "down",
          mean: found.mean[n],
          lower: found.lower[n],
          upper: found.upper[n],
          inner: [found.mean[n], found.mean[n]],
          estimate: credex.number(found.mean[n], s.places),
          between:
            s.exact
              ? "exact"
              : `${credex.number(found.lower[n], s.places)} … ${credex.number(found.upper[n], s.places)}`,
          first: s.first[n],
        }));
        const columns = [
          ["name", "Feature", "name"],
          ["mark", "Interval", "drawn"],
          ["estimate", `Mean |φ|${s.unit}`, "estimate"],
          ["between", `${levels[at]} interval`, "between"],
          ["first", "Largest in", "chance"],
        ];
        const scale = credex.axis(rows.flatMap((r) => [r.lower, r.upper]));
        room.append(credex.intervalTable(`Mean importance over rows at ${levels[at]}`, columns, rows, scale));
      },
    };
    return made;
  }

  // -- the list of rows ---------------------------------------------------------------------------

  function picker(host, rows, note, onPick) {
    const search = el("input", {
      type: "search",
      placeholder: "label, feature or value",
      autocomplete: "off",
      role: "combobox",
      "aria-expanded": "true",
      "aria-controls": "row-list",
      "aria-autocomplete": "list",
    });
    const list = el("ul", { class: "list", id: "row-list", role: "listbox", "aria-label": "Rows", tabindex: 0 });
    const count = el("p", { class: "small", role: "status" });
    host.append(credex.labelled("Search rows", search), list, count, el("p", { class: "small" }, note));
    const found = rows.map((row) =>
      [row.label, ...row.names.map((name, n) => `${name} ${row.values[n]}`)].join("\n").toLocaleLowerCase(),
    );
    let shown = [];
    let picked = 0;
    let output = 0;

    function option(n) {
      const row = rows[n];
      const o = row.outputs[output];
      const top = o.features.length ? row.names[o.features[0]] : "";
      return el(
        "li",
        { role: "option", id: `row-${n}`, "aria-selected": String(n === picked) },
        el("span", { class: "first" }, el("bdi", {}, clip(row.label, 60)), el("span", {}, o.prediction)),
        el("span", { class: "small" }, el("bdi", {}, clip(top, 60))),
      );
    }

    function draw() {
      const wanted = search.value.trim().toLocaleLowerCase();
      shown = rows.map((row, n) => n).filter((n) => found[n].includes(wanted));
      list.replaceChildren(...shown.map(option));
      count.textContent = `${shown.length} of ${rows.length} rows`;
    }

    function pick(n) {
      document.getElementById(`row-${picked}`)?.setAttribute("aria-selected", "false");
      picked = n;
      const chosen = document.getElementById(`row-${n}`);
      chosen?.setAttribute("aria-selected", "true");
      if (chosen) {
        const above = chosen.offsetTop - list.offsetTop;
        const hidden = above < list.scrollTop || above + chosen.offsetHeight > list.scrollTop + list.clientHeight;
        if (hidden) list.scrollTop = above - list.clientHeight / 2;
      }
      for (const field of [search, list]) field.setAttribute("aria-activedescendant", `row-${n}`);
      onPick(rows[n]);
    }

    function key(event) {
      const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
      const step = steps[event.key];
      if (step === undefined || !shown.length) return;
      if (event.target === search && !["ArrowDown", "ArrowUp"].includes(event.key)) return;
      event.preventDefault();
      const now = shown.indexOf(picked);
      const next = now < 0 ? 0 : Math.min(Math.max(now + step, 0), shown.length - 1);
      pick(shown[next]);
    }

    search.addEventListener("input", draw);
    search.addEventListener("keydown", key);
    list.addEventListener("keydown", key);
    list.addEventListener("click", (event) => {
      const chosen = event.target.closest("li");
      if (chosen) pick(Number(chosen.id.slice("row-".length)));
    });
    draw();
    return {
      pick,
      show(which) {
        if (which === output) return;
        output = which;
        draw();
      },
    };
  }

  function clip(text, most) {
    const letters = [...text];
    return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
  }

  // -- the page -----------------------------------------------------------------------------------

  const controls = el("div", { class: "controls", role: "group", "aria-label": "Level and output" });
  if (data.rows) {
    app.append(controls);
    const { names, values, levels } = data;
    const rows = data.rows.map((row) => ({ names, levels, ...row, values: row.values || values }));
    const means = summary(section(data.heading));
    const room = el("div", { class: "rows" });
    const about = el("div", {});
    const list = el("div", { class: "picker" });
    room.append(list, about);
    section("One row", room);
    const heading = el("h3", { class: "label" });
    about.append(heading);
    let choice = null;
    const update = () => {
      means.show(data.summary, levels, view.level, view.output);
      choice.show(view.output);
    };
    const view = credex.explanation(about, { controls, onChange: update });
    choice = picker(list, rows, data.note, (row) => {
      heading.replaceChildren(el("bdi", {}, row.label));
      view.show(row);
    });
    choice.pick(0);
    update();
  } else if (data.outputs) {
    app.append(controls);
    credex.explanation(section("Importances"), { controls }).show(data);
  }
})();
