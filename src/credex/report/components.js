// Components of pages about explanations: the report, and the live page of `credex serve`.
//
//   const view = credex.explanation(element);   // builds its controls once
//   view.show(data);                            // data: credex.report.data.explanation_data(e)
//   view.show(newer);                           // level, output, sorting and search stay
//
// Data reach the page as text nodes and attributes only, never as markup. Rules that need the
// posterior (verdicts, ranks) are worked out in Python for each level; here an interval is
// mean ± quantile · scale.
"use strict";

const credex = (() => {
  const NEGLIGIBLE = 0.01; // share of the largest importance
  const FIRST_ROWS = 30; // shown before the reader asks for all
  const LONG_WORD = 20; // letters; longer ones are broken
  const PAD = 4; // per cent left and right of an axis
  const SVG = "http://www.w3.org/2000/svg";
  let n_ids = 0;

  // -- elements ---------------------------------------------------------------------------------

  /** Make an element; strings among the children become text. */
  function el(tag, attributes = {}, ...children) {
    return filled(document.createElement(tag), attributes, children);
  }

  function svg(tag, attributes = {}, ...children) {
    return filled(document.createElementNS(SVG, tag), attributes, children);
  }

  function filled(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children.filter((c) => c !== null && c !== undefined));
    return node;
  }

  function unique(name) {
    n_ids += 1;
    return `credex-${name}-${n_ids}`;
  }

  /** A form field with its label. */
  function labelled(words, field, kind = "field") {
    field.id = field.id || unique("field");
    return el("div", { class: kind }, el("label", { for: field.id }, words), field);
  }

  // -- numbers ----------------------------------------------------------------------------------

  /** With `places` decimals, a real minus sign, and no negative zero. */
  function number(x, places) {
    if (!Number.isFinite(x)) return x > 0 ? "∞" : x < 0 ? "−∞" : "?";
    const digits = { minimumFractionDigits: places, maximumFractionDigits: places };
    const text = Math.abs(x).toLocaleString("en-US", digits);
    return x < 0 && /[1-9]/.test(text) ? `−${text}` : text;
  }

  /** A probability with two decimals, and never as 0 or 1. */
  function chance(p) {
    if (p === null) return "?";
    return p < 0.005 ? "<0.01" : p > 0.995 ? ">0.99" : p.toFixed(2);
  }

  // -- axis and marks ---------------------------------------------------------------------------

  /** An axis over finite values and zero: positions in per cent, ticks at round numbers. */
  function axis(values) {
    const finite = values.filter(Number.isFinite);
    const low = Math.min(0, ...finite);
    const high = Math.max(0, ...finite);
    const span = high - low || 1;
    const raw = span / 5;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((f) => f * power >= raw * (1 - 1e-9));
    const ticks = [];
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * span; n += 1) {
      ticks.push(n * step);
    }
    const places = Math.max(-Math.floor(Math.log10(step) + 1e-9), 0);
    return { ticks, places, x: (v) => PAD + ((100 - 2 * PAD) * (v - low)) / span };
  }

  function at(scale, value) {
    return `${scale.x(value).toFixed(2)}%`;
  }

  function axisDrawing(scale) {
    const drawn = svg("svg", { class: "axis", height: 22, "aria-hidden": "true" });
    drawn.append(svg("line", { x1: `${PAD}%`, x2: `${100 - PAD}%`, y1: 1, y2: 1 }));
    for (const t of scale.ticks) {
      const x = at(scale, t);
      drawn.append(svg("line", { x1: x, x2: x, y1: 1, y2: 5 }));
      drawn.append(svg("text", { x, y: 18, "text-anchor": "middle" }, number(t, scale.places)));
    }
    return drawn;
  }

  /** Thin: the interval. Thick: its inner half, hollow if the sign is open. Stroke: the mean. */
  function mark(scale, row) {
    const drawn = svg("svg", { class: "mark", height: 24, "aria-hidden": "true" });
    const zero = at(scale, 0);
    drawn.append(svg("line", { class: "zero", x1: zero, x2: zero, y1: -150, y2: 174 })); // clipped at its cell
    if (![row.mean, row.lower, row.upper].every(Number.isFinite)) return drawn;
    const kind = row.colour || (row.mean > 0 ? "up" : row.mean < 0 ? "down" : "grey");
    const group = svg("g", { class: row.open ? `${kind} open` : kind });
    const [a, b] = row.inner;
    const line = (x1, x2) => svg("line", { x1: at(scale, x1), x2: at(scale, x2), y1: 12, y2: 12 });
    group.append(line(row.lower, a), line(b, row.upper));
    const width = `${(scale.x(b) - scale.x(a)).toFixed(2)}%`;
    group.append(svg("rect", { x: at(scale, a), y: 8.5, width, height: 7, rx: 1.5 }));
    const mean = at(scale, row.mean);
    group.append(svg("line", { class: "mean", x1: mean, x2: mean, y1: 4.5, y2: 19.5 }));
    drawn.append(group);
    return drawn;
  }

  /**
   * A table of intervals over one axis.
   * columns: [key, heading, class]; of the key "mark" an interval is drawn. The first column names
   * its row. `sorted` is the key of the sorted column and its direction.
   */
  function intervalTable(caption, columns, rows, scale, sorted = {}) {
    const heads = columns.map(([key, words, kind]) =>
      el("th", { scope: "col", role: "columnheader", class: kind, "aria-sort": sorted[key] }, words),
    );
    const body = rows.map((row) => {
      const cells = columns.map(([key, words, kind], n) => {
        const tag = n === 0 ? "th" : "td";
        const about = n === 0 ? { scope: "row", role: "rowheader" } : { role: "cell" };
        if (key === "mark") return el(tag, { ...about, class: kind }, mark(scale, row));
        const long = row[key].split(" ").some((word) => word.length > LONG_WORD) ? `${kind} long` : kind;
        return el(tag, { ...about, class: long, "data-head": words }, el("bdi", {}, row[key]));
      });
      return el("tr", { role: "row", "data-sign": row.sign }, ...cells);
    });
    const foot = columns.map(([key, , kind]) =>
      el("td", { role: "cell", class: kind }, key === "mark" ? axisDrawing(scale) : ""),
    );
    return el(
      "table",
      { role: "table", class: "intervals" },
      el("caption", {}, caption),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...heads)),
      el("tbody", { role: "rowgroup" }, ...body),
      el("tfoot", { role: "rowgroup", "aria-hidden": "true" }, el("tr", { role: "row" }, ...foot)),
    );
  }

  // -- level, output, verdict -------------------------------------------------------------------

  /** A slider over the levels. */
  function levelSlider(host, onChange) {
    const input = el("input", { type: "range", min: 0, step: 1 });
    const said = el("output", { "aria-hidden": "true" }); // the slider says it by itself
    let levels = [];
    const say = () => {
      const words = levels[Number(input.value)];
      said.textContent = words;
      input.setAttribute("aria-valuetext", words);
    };
    input.addEventListener("input", () => {
      say();
      onChange();
    });
    const field = labelled("Credible level", input, "field level");
    said.setAttribute("for", input.id);
    field.append(said);
    host.append(field);
    return {
      get index() {
        return Number(input.value);
      },
      show(names, own) {
        const kept = levels.length === names.length ? input.value : own;
        levels = names;
        input.max = names.length - 1;
        input.value = kept;
        say();
      },
    };
  }

  /** A choice of the output; hidden if there is one. */
  function outputPicker(host, onChange) {
    const select = el("select");
    const field = labelled("Output", select);
    select.addEventListener("change", onChange);
    host.append(field);
    return {
      get index() {
        return Math.max(select.selectedIndex, 0);
      },
      show(names) {
        const kept = Math.min(Math.max(select.selectedIndex, 0), names.length - 1);
        select.replaceChildren(...names.map((name) => el("option", {}, name)));
        select.selectedIndex = kept;
        field.hidden = names.length < 2;
      },
    };
  }

  const KINDS = { caution: "Caution", certain: "Certain", open: "Open", fit: "Fit" };

  /** Sentences, read out by screen readers when they change. */
  function verdict(host) {
    const box = el("div", { class: "verdict", role: "status", "aria-live": "polite" });
    host.append(box);
    let before = "";
    return {
      /** lines: pairs of kind and sentence; note: a remark on the level. */
      show(lines, note = "") {
        const now = JSON.stringify([lines, note]);
        if (now === before) return; // nothing to read out again
        before = now;
        const said = lines.map(([kind, words]) =>
          el(
            "p",
            { class: kind },
            el("span", { class: "kind" }, KINDS[kind]),
            el("span", { class: "words" }, words.replace(/^Caution: /, "")),
          ),
        );
        box.replaceChildren(...said);
        if (note) box.append(el("p", { class: "note" }, note));
      },
    };
  }

  /** What was worked out for the level closest to number `level`: its number and the thing. */
  function closest(things, level) {
    const known = things.map((t, n) => n).filter((n) => things[n] !== null);
    if (!known.length) return [level, null];
    const best = known.reduce((a, b) => (Math.abs(b - level) < Math.abs(a - level) ? b : a));
    return [best, things[best]];
  }

  // -- one explanation --------------------------------------------------------------------------

  /** The rows of one output at a level: interval, sign, probability, rank. */
  function rowsOf(data, output, level) {
    const o = data.outputs[output];
    const ranks = o.ranks[level];
    return o.features.map((feature, n) => {
      const mean = o.mean[n] === null ? NaN : o.mean[n];
      const scale = o.scale[n] === null ? Infinity : o.scale[n];
      const half = data.quantiles[level] * scale;
      const inner = Math.min(data.half, data.quantiles[level]) * scale;
      const [lower, upper] = [mean - half, mean + half];
      const sign = lower > 0 ? "up" : upper < 0 ? "down" : scale === 0 ? "none" : "open";
      const known = Number.isFinite(mean) && Number.isFinite(half);
      return {
        feature,
        name: data.names[feature],
        value: data.values[feature],
        mean,
        lower,
        upper,
        inner: [mean - inner, mean + inner],
        sign,
        open: sign === "open",
        p: o.p[n],
        estimate: known ? number(mean, o.places) : "?",
        between: !known
          ? "unknown"
          : scale === 0
            ? o.exact
            : `${number(lower, o.places)} … ${number(upper, o.places)}`,
        chance: !known ? "?" : scale === 0 ? "–" : chance(o.p[n]),
        words: { up: "raises", down: "lowers", open: "open", none: "no effect" }[sign],
        rank: ranks ? ranks[n].replace("-", "–") : "",
      };
    });
  }

  const SORTS = {
    size: ["Size", (a, b) => size(b) - size(a)],
    name: ["Name", (a, b) => a.name.localeCompare(b.name, "en", { numeric: true })],
    p: ["P(>0)", (a, b) => (b.p ?? 0.5) - (a.p ?? 0.5) || size(b) - size(a)],
    order: ["Order in the data", (a, b) => a.feature - b.feature],
  };

  function size(row) {
    return Number.isFinite(row.mean) ? Math.abs(row.mean) : -1;
  }

  /** Table of importances with search, sorting and hiding. */
  function importances(host) {
    const search = el("input", { type: "search", placeholder: "name or value", autocomplete: "off" });
    const sort = el("select", {}, ...Object.entries(SORTS).map(([v, [w]]) => el("option", { value: v }, w)));
    const which = el(
      "select",
      {},
      el("option", { value: "all" }, "All"),
      el("option", { value: "certain" }, "Certain sign"),
      el("option", { value: "open" }, "Open sign"),
    );
    const small = el("input", { type: "checkbox" });
    const hide = labelled("Hide negligible", small, "field check");
    hide.title = "Importances below 1 % of the largest";
    const tools = el(
      "div",
      { class: "tools", role: "group", "aria-label": "Which features are shown" },
      labelled("Search", search),
      labelled("Sort by", sort),
      labelled("Show", which),
      hide,
    );
    const count = el("p", { class: "small count", role: "status" });
    const room = el("div", { class: "room" });
    const more = el("button", { type: "button", class: "more" });
    const legend = el("p", { class: "small" });
    host.append(tools, room, el("div", { class: "below" }, count, more), legend);
    let all = false;
    let last = null;

    function draw() {
      const [data, output, level] = last;
      const o = data.outputs[output];
      const rows = rowsOf(data, output, level);
      const peak = Math.max(...rows.map(size), 0);
      const wanted = search.value.trim().toLocaleLowerCase();
      const kept = rows.filter(
        (r) =>
          (which.value === "all" || (which.value === "open") === r.open) &&
          (!small.checked || !Number.isFinite(r.mean) || size(r) >= NEGLIGIBLE * peak) &&
          `${r.name} ${r.value}`.toLocaleLowerCase().includes(wanted),
      );
      kept.sort(SORTS[sort.value][1]);
      const shown = all ? kept : kept.slice(0, FIRST_ROWS);
      const own = rowsOf(data, output, data.level); // the axis does not shrink with the level
      const scale = axis([...rows, ...own].flatMap((r) => [r.lower, r.upper]));
      const columns = [
        ["name", "Feature", "name"],
        ["value", "Value", "value"],
        ["mark", `${data.levels[level]} interval`, "drawn"],
        ["estimate", `Importance${o.unit}`, "estimate"],
        ["between", `${data.levels[level]} interval`, "between"],
        ["chance", "P(>0)", "chance"],
        ["rank", "Rank", "rank"],
        ["words", "Sign", "words"],
      ].filter(
        ([key]) => (key !== "value" || rows.some((r) => r.value)) && (key !== "rank" || o.ranks[level]),
      );
      const sorted = { size: "estimate", name: "name", p: "chance" }[sort.value];
      const direction = { [sorted]: sort.value === "name" ? "ascending" : "descending" };
      const caption = `Importances of ${data.names.length} features with ${data.levels[level]} intervals`;
      room.replaceChildren(intervalTable(caption, columns, shown, scale, direction));
      const left = kept.length - shown.length;
      const hidden = rows.length - kept.length;
      count.textContent =
        `${kept.length - left} of ${rows.length + o.left_out} features` +
        (hidden ? `, ${hidden} hidden by search or filter` : "") +
        (o.left_out ? `; the ${o.left_out} smallest are not in this page` : "");
      legend.textContent =
        `Stroke: the importance. Thick: its 50 % interval. Thin: its ${data.levels[level]} interval. ` +
        "Orange raises the prediction, blue lowers it; hollow: the interval includes 0, so the sign is open.";
      more.hidden = kept.length <= FIRST_ROWS;
      more.textContent = all ? `Show the first ${FIRST_ROWS}` : `Show all ${kept.length}`;
    }

    for (const field of [search, sort, which, small]) field.addEventListener("input", draw);
    more.addEventListener("click", () => {
      all = !all;
      draw();
    });
    return {
      show(data, output, level) {
        last = [data, output, level];
        draw();
      },
    };
  }

  /** The text itself: colour says how much a part matters, its underline how certain that is. */
  function drawText(data, output, level) {
    const rows = new Map(rowsOf(data, output, level).map((r) => [r.feature, r]));
    const peak = Math.max(...[...rows.values()].map(size), 0);
    const words = data.text.map(([text, feature]) => {
      const row = rows.get(feature);
      if (!row || !(size(row) > 1e-9 * peak)) return document.createTextNode(text);
      const kind = `${row.mean > 0 ? "up" : "down"} ${row.open ? "unsure" : "sure"}`;
      const title = `${row.name}: ${row.estimate} (${row.between})${data.outputs[output].unit}`;
      const span = el("span", { class: kind, title }, text);
      span.style.setProperty("--strength", (size(row) / peak).toFixed(3));
      return span;
    });
    const strong = ["up", "down"].map((kind) => {
      const key = el("span", { class: kind }, kind === "up" ? "raises" : "lowers");
      key.style.setProperty("--strength", 1);
      return key;
    });
    const key = el(
      "p",
      { class: "small key", "aria-hidden": "true" },
      ...strong,
      el("span", { class: "sure" }, `${data.levels[level]} interval excludes 0`),
      el("span", { class: "unsure" }, "it includes 0"),
    );
    return el("div", { class: "text" }, el("p", { dir: "auto" }, ...words), key);
  }

  /** A picture for light and one for dark pages. */
  function drawPicture(picture) {
    return el(
      "figure",
      {},
      el("img", { class: "light", src: picture.light, alt: picture.alt }),
      el("img", { class: "dark", src: picture.dark, alt: picture.alt }),
      el("figcaption", { class: "small" }, picture.caption),
    );
  }

  /**
   * One explanation: level, output, verdict, picture or text, table.
   * controls: element for level and output, by default the host; onChange: called when they move.
   */
  function explanation(host, { controls = host, onChange = () => {} } = {}) {
    let data = null;
    const changed = () => {
      draw();
      onChange();
    };
    const level = levelSlider(controls, changed);
    const output = outputPicker(controls, changed);
    const headline = el("p", { class: "headline" });
    host.append(headline);
    const said = verdict(host);
    const seen = el("div", { class: "seen" });
    host.append(seen);
    const table = importances(host);
    const footer = el("div", { class: "small footer" });
    host.append(footer);
    let picture = null;

    function draw() {
      const o = data.outputs[output.index];
      headline.textContent = o.headline;
      const [at, lines] = closest(o.verdicts, level.index);
      const note = at === level.index ? "" : `These sentences are at ${data.levels[at]}.`;
      said.show(lines || [], lines ? note : "");
      if (data.text) seen.replaceChildren(drawText(data, output.index, level.index));
      else if (o.picture !== picture) {
        picture = o.picture;
        seen.replaceChildren(...(picture ? [drawPicture(picture)] : []));
      }
      table.show(data, output.index, level.index);
    }

    return {
      get level() {
        return level.index;
      },
      get output() {
        return output.index;
      },
      show(next) {
        data = next;
        level.show(data.levels, data.level);
        output.show(data.outputs.map((o) => o.name));
        if (!data.text && !data.outputs.some((o) => o.picture)) seen.replaceChildren();
        footer.replaceChildren(...data.footer.map((line) => el("p", {}, line)));
        draw();
      },
    };
  }

  return { el, number, axis, intervalTable, verdict, closest, labelled, explanation };
})();
