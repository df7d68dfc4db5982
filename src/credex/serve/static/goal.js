// The goal of a run: when it is certain enough.
const { el, labelled } = credex;

// Each kind: words, unit behind the number, factor between what is typed and what is sent.
const KINDS = {
  relative: ["Intervals narrow beside the largest", "% of it", 100],
  width: ["Intervals narrow", "wide", 1],
  ranking: ["Leading features known", "features", 1],
  queries: ["Queries asked", "queries", 1],
};
const FIRST = { relative: 20, width: 0.05, ranking: 3, queries: 500 };
const LEVELS = [0.8, 0.9, 0.95, 0.99];

export function goalForm(host, proposed, maxQueries) {
  const kind = el("select", {}, ...Object.entries(KINDS).map(([value, [words]]) => el("option", { value }, words)));
  const value = el("input", { type: "text", inputmode: "decimal", autocomplete: "off", size: 6 });
  const unit = el("span", { class: "unit" });
  const levels = [...new Set([...LEVELS, proposed.level])].sort();
  const level = el("select", {}, ...levels.map((l) => el("option", { value: l }, `${+(100 * l).toPrecision(10)} %`)));
  const most = el("input", { type: "text", inputmode: "numeric", autocomplete: "off", size: 7 });
  const number = labelled("At", value, "field amount");
  number.append(unit);
  host.append(
    el("div", { class: "tools" }, labelled("Stop when", kind), number, labelled("Level", level), labelled("At most, queries", most)),
  );
  let several = null; // a width for each output, as the server proposed it

  function show(goal) {
    const factor = KINDS[goal.kind][2];
    kind.value = goal.kind;
    several = Array.isArray(goal.value) ? goal.value : null;
    value.value = several ? several.join(" ") : String(+(goal.value * factor).toPrecision(4));
    level.value = goal.level;
    most.value = goal.max_queries ?? "";
    most.placeholder = String(maxQueries);
    about();
  }

  function about() {
    unit.textContent = KINDS[kind.value][1];
    most.parentElement.hidden = kind.value === "queries";
  }

  kind.addEventListener("change", () => {
    several = null;
    value.value = FIRST[kind.value];
    about();
  });
  show(proposed);

  /** A number, or the text itself, which the server will refuse in its own words. */
  const typed = (text) => (text.trim() === "" || !Number.isFinite(Number(text)) ? text : Number(text));

  return {
    show,
    get goal() {
      const factor = KINDS[kind.value][2];
      const same = several && value.value === several.join(" ");
      const one = typed(value.value.replace("−", "-"));
      const ceiling = most.value.trim() === "" || kind.value === "queries" ? null : typed(most.value);
      return {
        kind: kind.value,
        value: same ? several : typeof one === "number" ? +(one / factor).toPrecision(12) : one,
        level: Number(level.value),
        max_queries: ceiling,
      };
    },
  };
}

/** What comes after a run that has ended: the goal to go on to, and words for the button. */
export function nextGoal(goal, progress, maxQueries) {
  if (progress.status !== "done") return [goal, "Continue"];
  if (!progress.converged && goal.kind !== "queries") {
    const most = 2 * Math.max(goal.max_queries ?? maxQueries, progress.queries);
    return [{ ...goal, max_queries: most }, "Ask twice as many"];
  }
  if (goal.kind === "relative" || goal.kind === "width") {
    const half = (v) => +(v / 2).toPrecision(4);
    const value = Array.isArray(goal.value) ? goal.value.map(half) : half(goal.value);
    return [{ ...goal, value }, "Halve the intervals"];
  }
  return [{ ...goal, kind: "queries", value: 2 * progress.queries }, "Ask twice as many"];
}
