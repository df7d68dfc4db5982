// The edited copy against the original: which importances changed.
const { el, axis, intervalTable, number } = credex;
const FIRST = 30;

export function differenceView(host) {
  const headline = el("p", { class: "headline" });
  const note = el("p", { class: "small" });
  const room = el("div", { class: "room" });
  host.append(headline, note, room);

  return {
    say(words, ...children) {
      headline.textContent = words;
      note.replaceChildren();
      room.replaceChildren(...children);
    },
    show(data) {
      const [edited, original] = data.predictions;
      headline.textContent = `The prediction changes by ${data.change}: from ${original} to ${edited}`;
      const real = data.rows.filter((row) => row.real).length;
      const changed = real === 0 ? "No importance certainly changed" : `${real} of ${data.rows.length} importances certainly changed`;
      note.textContent = `${changed}, at ${data.level}. Differences are edited copy − original; the two posteriors are taken to be independent.`;
      const rows = data.rows.slice(0, FIRST).map(({ name, ends, p, real: sure }) => {
        const [mean, lower, upper, ...inner] = ends.map((x) => (x === null ? NaN : x));
        const known = ends.every((x) => x !== null);
        return {
          name,
          mean,
          lower,
          upper,
          inner,
          open: !sure,
          sign: sure ? (mean > 0 ? "up" : "down") : "open",
          estimate: known ? number(mean, data.places) : "?",
          between: !known ? "unknown" : lower === upper ? "exact" : `${number(lower, data.places)} … ${number(upper, data.places)}`,
          chance: p === null ? "?" : p > 0.995 ? ">0.99" : p.toFixed(2),
          words: sure ? (mean > 0 ? "larger" : "smaller") : mean === 0 ? "the same" : "open",
        };
      });
      const columns = [
        ["name", "Feature", "name"],
        ["mark", "Difference", "drawn"],
        ["estimate", `Difference${data.unit}`, "estimate"],
        ["between", `${data.level} interval`, "between"],
        ["chance", "P(sign)", "chance"],
        ["words", "Change", "words"],
      ];
      const scale = axis(rows.flatMap((row) => [row.lower, row.upper]));
      const left = data.rows.length - rows.length;
      room.replaceChildren(intervalTable("Differences of importances", columns, rows, scale));
      if (left) room.append(el("p", { class: "small" }, `… and ${left} smaller differences`));
    },
  };
}
