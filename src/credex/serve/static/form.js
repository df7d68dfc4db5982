// The values of a row as inputs: what is changed makes an edited copy.
const { el, labelled } = credex;
const MANY = 12; // fields from which they can be searched
const FIRST = matchMedia("(max-width: 720px)").matches ? 8 : 15; // shown before the reader asks for all

export function valueForm(host, fields, onChange) {
  const room = el("div", { class: "values" });
  const search = el("input", { type: "search", placeholder: "column", autocomplete: "off" });
  const tools = el("div", { class: "tools" }, labelled("Search columns", search));
  const more = el("button", { type: "button", class: "more" });
  host.append(tools, room, more);
  tools.hidden = fields.length <= MANY;
  let original = [];
  let cells = [];
  let all = false;

  const inputs = fields.map((field, n) => {
    const [input, read, write] = field.kind === "choice" ? choice(field) : typed(field, fields.length === 1);
    const box = labelled(field.name, input);
    box.firstChild.setAttribute("dir", "auto");
    box.title = field.name;
    const hint = el("span", { class: "hint" });
    hint.id = `${input.id}-hint`;
    input.setAttribute("aria-describedby", hint.id);
    box.append(hint);
    room.append(box);
    const changed = () => {
      mark(n);
      onChange();
    };
    input.addEventListener("input", changed);
    return { field, box, input, hint, read, write };
  });

  function choice(field) {
    const select = el("select");
    const names = field.choices.map((words, n) => el("option", { value: n }, words || "(empty)"));
    const missing = field.may_miss ? [el("option", { value: "" }, "missing")] : [];
    select.append(...names, ...missing);
    const read = () => (select.value === "" ? null : Number(select.value));
    const write = (value, cell) => {
      select.querySelector("option[value='-1']")?.remove();
      if (value === -1) select.append(el("option", { value: -1 }, cell));
      if (value === null && !field.may_miss) select.append(el("option", { value: "" }, "missing"));
      select.value = value === null ? "" : String(value);
    };
    return [select, read, write];
  }

  function typed(field, alone) {
    const input = el(alone && field.kind === "text" ? "textarea" : "input", { autocomplete: "off", spellcheck: "false" });
    if (field.kind === "date") input.type = "date";
    else if (input.tagName === "INPUT") input.type = "text";
    if (field.kind === "number") input.inputMode = "decimal";
    if (alone) input.setAttribute("rows", 5);
    const read = () => (input.value.trim() === "" && (field.may_miss || field.kind !== "text") ? null : input.value);
    return [input, read, (value) => {
      input.value = value ?? "";
      input.placeholder = field.may_miss ? "missing" : "";
    }];
  }

  /** Show whether a value is changed, and what it was. */
  function mark(n) {
    const { field, box, hint, input, read } = inputs[n];
    const changed = read() !== original[n];
    box.classList.toggle("changed", changed);
    box.classList.remove("wrong");
    input.removeAttribute("aria-invalid");
    hint.replaceChildren(...(changed ? ["was ", el("bdi", {}, cells[n] || "(empty)")] : [field.hint]));
  }

  function draw() {
    const wanted = search.value.trim().toLocaleLowerCase();
    const found = inputs.filter(({ field }) => field.name.toLocaleLowerCase().includes(wanted));
    const kept = new Set(all ? found : found.slice(0, FIRST));
    for (const one of inputs) one.box.hidden = !kept.has(one) && !one.box.classList.contains("changed");
    more.hidden = found.length <= FIRST;
    more.textContent = all ? `Show the first ${FIRST}` : `Show all ${found.length} columns`;
  }

  search.addEventListener("input", draw);
  more.addEventListener("click", () => {
    all = !all;
    draw();
  });

  function show(row) {
    original = row.typed;
    cells = row.cells;
    inputs.forEach(({ write }, n) => {
      write(original[n], cells[n]);
      mark(n);
    });
    draw();
  }

  return {
    show,
    reset() {
      show({ typed: original, cells });
      onChange();
    },
    /** Say which input cannot be read. */
    wrong(n) {
      const { box, input } = inputs[n];
      box.classList.add("wrong");
      input.setAttribute("aria-invalid", "true");
      input.focus();
    },
    /** Changed values by the number of their field. */
    get edits() {
      return Object.fromEntries(
        inputs.map(({ read }, n) => [n, read()]).filter(([n, value]) => value !== original[n]),
      );
    },
  };
}
