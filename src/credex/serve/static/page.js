// The live page: pick a row, edit a copy, watch intervals shrink, stop when certain enough.
import { differenceView } from "./difference.js";
import { valueForm } from "./form.js";
import { goalForm, nextGoal } from "./goal.js";
import { progressView } from "./progress.js";
import { rowList } from "./rows.js";
import { ask, watch } from "./server.js";

const { el } = credex;
const $ = (id) => document.getElementById(id);

// -- light and dark -------------------------------------------------------------------------------

const root = document.documentElement;
const system = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
const sayTheme = () => {
  $("theme").textContent = isDark() ? "Light mode" : "Dark mode";
};
$("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  sayTheme();
});
system.addEventListener("change", sayTheme);
sayTheme();

// The token has done its work: it is in a cookie now, and need not be in the address.
if (location.search) history.replaceState(null, "", location.pathname);

// -- what the page knows --------------------------------------------------------------------------

// A slot is one instance: the row as it is, or its edited copy. `key` says which edits it has.
const slot = () => ({ key: null, job: null, progress: null, data: null, goal: null, leave: () => {} });
let row = null;
let slots = { original: slot(), edited: slot() };
let shown = "original";
let info, list, form, goals, view;
const progress = progressView($("progress"));
const difference = differenceView($("difference"));

function fail(error) {
  $("lost").textContent = error.message;
  $("lost").hidden = false;
}

function complain(message = "") {
  $("error").textContent = message;
  $("error").hidden = !message;
}

/** The slot that the inputs describe now. */
function current() {
  const edits = form.edits;
  return Object.keys(edits).length ? ["edited", edits] : ["original", {}];
}

function isFresh(name) {
  const [now, edits] = current();
  return name === "original" || (now === "edited" && slots.edited.key === JSON.stringify(edits));
}

// -- picking and editing --------------------------------------------------------------------------

async function pick(n) {
  let found;
  try {
    found = await ask(`/api/rows/${n}`);
  } catch (error) {
    fail(error);
    return;
  }
  for (const one of Object.values(slots)) one.leave();
  slots = { original: slot(), edited: slot() };
  row = found;
  shown = "original";
  complain();
  form.show(row);
  for (const id of ["row", "run"]) $(id).hidden = false;
  draw();
}

function edited() {
  complain();
  const [name] = current();
  if (name === "original" || slots[name].progress) shown = name;
  if (name === "original") differing = false;
  draw();
}

// -- running --------------------------------------------------------------------------------------

async function run(name, edits, { goal, resume }) {
  complain();
  const one = slots[name];
  const of = row;
  $("go").disabled = true; // until the server has answered
  try {
    const body = { row: row.row, edits, goal, resume };
    const started = await ask("/api/jobs", { method: "POST", body });
    if (row !== of) return; // another row was picked meanwhile
    one.leave();
    const kept = resume ? one : slot();
    const begun = { trace: [], rows: 0, ...kept.progress, status: "starting", ended: false, message: "" };
    slots[name] = { ...kept, key: JSON.stringify(edits), job: started.job, goal: started.goal, progress: begun };
    const mine = slots[name];
    mine.leave = watch(started.job, (now) => {
      if (slots[name] !== mine) return;
      mine.progress = now;
      if (now.explanation) mine.data = now.explanation;
      draw();
    });
    shown = name;
    draw();
  } catch (error) {
    complain(error.message);
    if (Number.isInteger(error.field)) form.wrong(error.field);
  } finally {
    $("go").disabled = false;
  }
}

function go() {
  const [name, edits] = current();
  const one = slots[name];
  const goal = goals.goal;
  if (!canContinue(name)) {
    const begun = isFresh(name) && Boolean(one.progress?.ended); // too short for an interval
    run(name, edits, { goal, resume: begun });
    return;
  }
  const same = JSON.stringify(goal) === JSON.stringify(one.goal);
  const [next] = same ? nextGoal(one.goal, one.progress, info.max_queries) : [goal];
  if (same) goals.show(next);
  run(name, edits, { goal: next, resume: true });
}

function canContinue(name) {
  const one = slots[name];
  return isFresh(name) && one.data !== null && Boolean(one.progress?.ended);
}

async function stop() {
  try {
    await ask(`/api/jobs/${encodeURIComponent(slots[shown].job)}`, { method: "DELETE" });
  } catch (error) {
    complain(error.message);
  }
}

// -- drawing --------------------------------------------------------------------------------------

function draw() {
  const [now] = current();
  const changed = Object.keys(form.edits).length;
  const label = el("bdi", {}, row.label);
  const changes = `, ${changed} value${changed === 1 ? "" : "s"} changed`;
  $("row-title").replaceChildren("Row ", label, ...(changed ? [el("span", { class: "changes" }, changes)] : []));
  $("reset").hidden = !changed;

  const target = slots[now];
  const running = isFresh(now) && target.progress && !target.progress.ended;
  const again = canContinue(now);
  const goButton = $("go");
  goButton.hidden = Boolean(running) || (again && target.progress.exact);
  const same = again && JSON.stringify(goals.goal) === JSON.stringify(target.goal);
  const words = !again ? (now === "edited" ? "Explain edited copy" : "Explain") : same ? nextGoal(target.goal, target.progress, info.max_queries)[1] : "Continue to this goal";
  goButton.textContent = words;
  const one = slots[shown];
  $("stop").hidden = !(one.progress && !one.progress.ended);

  $("progress").hidden = one.progress === null;
  $("hint").hidden = one.progress !== null;
  if (one.progress) {
    progress.show(one.progress);
    const failed = one.progress.status === "failed";
    if (failed) complain(one.progress.message);
  }
  drawTabs();
  drawResult();
}

function drawTabs() {
  const both = slots.edited.key !== null;
  $("tabs").hidden = !both;
  if (!both) return;
  const names = { original: "Original", edited: "Edited copy", difference: "Difference" };
  const tabs = Object.entries(names).map(([name, words]) => {
    const chosen = name === shownTab();
    const tab = el("button", { type: "button", role: "tab", "aria-selected": String(chosen), "aria-controls": "panel", tabindex: chosen ? 0 : -1 }, words);
    tab.addEventListener("click", () => choose(name));
    return tab;
  });
  const focused = $("tabs").contains(document.activeElement);
  $("tabs").replaceChildren(...tabs);
  if (focused) $("tabs").querySelector("[aria-selected=true]").focus();
}

let differing = false; // whether the difference is shown instead of one of the two

function shownTab() {
  return differing ? "difference" : shown;
}

function choose(name) {
  differing = name === "difference";
  if (!differing) shown = name;
  draw();
}

$("tabs").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const names = ["original", "edited", "difference"];
  choose(names[(names.indexOf(shownTab()) + step + 3) % 3]);
});

function drawResult() {
  if (slots.edited.key === null) differing = false;
  const one = slots[shown];
  const any = slots.original.data || slots.edited.data || slots.edited.key !== null;
  $("result").hidden = !any;
  $("explanation").hidden = differing || !one.data;
  $("controls").hidden = $("explanation").hidden;
  $("difference").hidden = !differing;
  const stale = shown === "edited" && !isFresh("edited");
  $("explanation").classList.toggle("stale", stale);
  $("files").replaceChildren();
  if (differing) {
    drawDifference();
    return;
  }
  if (!one.data) return;
  if (!view) view = credex.explanation($("explanation"), { controls: $("controls"), onChange: () => {} });
  if (one.data !== drawn) {
    drawn = one.data;
    view.show(one.data);
  }
  const file = (words, name) => el("a", { href: `/api/jobs/${encodeURIComponent(one.job)}/${name}`, download: "" }, words);
  const note = stale ? [el("span", { class: "small" }, "of other values than above")] : [];
  $("files").append(...note, file("JSON", "explanation.json"), file("Report", "report.html"));
}

let drawn = null; // what the component shows
let compared = ""; // which two states the difference shows

async function drawDifference() {
  const { original, edited: copy } = slots;
  if (!original.data || !copy.data) {
    compared = "";
    const which = original.data ? "edited copy" : "original row";
    const button = el("button", { type: "button" }, `Explain the ${which}`);
    const waits = (one) => one.progress && !one.progress.ended;
    if (waits(original) || waits(copy)) {
      difference.say("The difference shows when both have intervals.");
      return;
    }
    button.addEventListener("click", () => {
      const goal = (original.data ? original : copy).goal;
      const edits = original.data ? JSON.parse(copy.key) : {};
      run(original.data ? "edited" : "original", edits, { goal, resume: false });
    });
    difference.say(`The ${which} has no explanation yet.`, button);
    return;
  }
  const wanted = `${original.job} ${original.progress.rows} ${copy.job} ${copy.progress.rows}`;
  if (wanted === compared) return;
  compared = wanted;
  const query = new URLSearchParams({ a: copy.job, b: original.job, output: view ? view.output : 0 });
  try {
    const found = await ask(`/api/comparison?${query}`);
    if (wanted === compared) difference.show(found);
  } catch (error) {
    difference.say(error.message);
  }
}

// -- the start ------------------------------------------------------------------------------------

async function start() {
  info = await ask("/api/info");
  const title = `${info.method} of ${info.model}`;
  $("title").textContent = title;
  document.title = `${title} – credex`;
  $("kicker").textContent = `credex, live: ${info.rows.toLocaleString("en-US")} row${info.rows === 1 ? "" : "s"}`;
  form = valueForm($("form"), info.fields, edited);
  goals = goalForm($("goal"), info.goal, info.max_queries);
  list = rowList($("picker"), info.columns, pick, fail);
  $("goal").addEventListener("input", () => row && draw());
  $("go").addEventListener("click", go);
  $("stop").addEventListener("click", stop);
  $("reset").addEventListener("click", () => form.reset());
  $("row").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.tagName === "INPUT" && !$("go").hidden && !$("go").disabled) go();
  });
  await list.start();
  list.pick(0);
}

start().catch(fail);
