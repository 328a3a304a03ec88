// The page: each change of the setting queries the server and shows the reply.

import { ask, download, drop, forget, readCheck, Refused, schema, startCheck, stopCheck } from "./api.js";
import { along, bars, batches, Chart, collapse, influence, sensitivity, short, spread } from "./charts.js";
import { Drawing } from "./draw.js";
import { fieldsOf, State } from "./state.js";

const $ = (id) => document.getElementById(id);
const charts = Object.fromEntries(["influence", "batches", "along", "collapse"].map((name) => [name, new Chart($(`${name}-chart`))]));
// ``complaint`` is the kind of request refused last; a score's is cleared with the drawing.
const page = { complaint: "", setting: null, view: null, along: null, drawn: null, collapse: null, measured: null, check: null };
let state;
let drawing;
// What trainers need besides the plan: fields of a download.
let layout = {};
let waiting = null;
let scoring = null;
let asked = 0;

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// Busy from a change until all its results are shown.
function mark() { $("results").setAttribute("aria-busy", String(asked > 0 || waiting !== null || scoring !== null)); }

async function during(work) {
  asked += 1;
  mark();
  try { await work; } finally { asked -= 1; mark(); }
}

function say(text) { $("status").textContent = text; }

// The server names a field by its schema name; show its label instead.
function reason(error) {
  if (!(error instanceof Refused)) return `${error.message}: is the server running?`;
  const field = state?.fields[error.field] ?? layout[error.field];
  return field && error.reason ? `${field.label} ${error.reason}` : error.message;
}

function complain(error, about = "view") {
  page.complaint = about;
  $("error").hidden = false;
  $("error").textContent = reason(error);
  state?.mark(error.field);
  document.body.dataset.stale = "";
  say("not computed");
}

function forgive(about) {
  if (page.complaint !== about) return;
  page.complaint = "";
  $("error").hidden = true;
  state.mark(null);
  delete document.body.dataset.stale;
}

// ``classes`` are those of the columns.
function table(id, header, rows, classes = []) {
  const line = (cells, tag) => {
    const row = document.createElement("tr");
    cells.forEach((cell, k) => {
      const node = document.createElement(tag);
      node.textContent = cell;
      node.className = classes[k] ?? "";
      if (tag === "th") node.scope = "col";
      row.append(node);
    });
    return row;
  };
  $(id).tHead.replaceChildren(line(header, "th"));
  $(id).tBodies[0].replaceChildren(...rows.map((cells) => line(cells, "td")));
}

// A simulated number has its standard error on the line below.
const uncertain = (text, error) => (error === undefined || error === null ? text : `${text}\n${spread(error)}`);

// A part of the risk; below it, except for the constant batch, the change from that in per cent.
function compared(row, part, term) {
  const value = uncertain(short(row.risk[part]), row.risk.standard_error?.[part]);
  if (row.name === "constant") return value;
  const error = row.against_constant.standard_error?.[term];
  const shown = change(row.against_constant[term], error ? 2 : 3);
  return `${value}\n${uncertain(shown, error === undefined ? error : 100 * error)}`;
}

function change(ratio, digits = 3) {
  const percent = 100 * (ratio - 1);
  return `${percent > 0 ? "+" : ""}${Number(percent.toPrecision(digits))} %`;
}

function rows() {
  const { schedules } = page.view;
  return page.drawn ? [...schedules, { name: "drawn", ...page.drawn }] : schedules;
}

// Shows a picture, or why there is none.
function explain(name, reason) {
  $(`${name}-reason`).hidden = !reason;
  $(`${name}-reason`).textContent = reason && `Left out: ${reason}.`;
  $(`${name}-picture`).hidden = Boolean(reason);
}

// The ratio that stands for any larger one, as in design/rule_scores.py.
const DIVERGED = 1e6;

function showVerdict({ verdict, verdict_reason: reason }) {
  explain("verdict", reason);
  if (!verdict) return;
  for (const part of ["recommendation", "worth", "evidence"]) $(part).textContent = sentence(verdict[part]);
  $("other-rules").hidden = !verdict.rules.length;
  // On a known problem there is one number; over a range of problems there are three.
  const one = verdict.rules.every((rule) => rule.best === rule.worst);
  const parts = one ? ["median"] : ["best", "median", "worst"];
  table("rules", ["rule", ...(one ? ["its excess against constant"] : ["excess at best", "median", "at worst"])], verdict.rules.map((rule) => [
    rule.steps ? `${rule.name} (${rule.steps} updates)` : rule.name, ...parts.map((part) => rule[part] < DIVERGED ? change(rule[part]) : "diverges"),
  ]));
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

// The columns of the summary: head, class and cell of a row.
function columns({ noise, summary, sensitivity: adam }) {
  return [
    ["schedule", "", (row) => row.name],
    ["risk", "", (row) => compared(row, "total", "total")],
    ["excess", "", (row) => compared(row, "excess", "excess")],
    ...(adam ? [["bias", "", (row) => compared(row, "bias", "bias")]] : []),
    [noise, "", (row) => compared(row, noise, "noise")],
    ...(summary ? [[summary, "minor", (row) => short(row.effective)], ["score", "least", (row) => `${(100 * row.score).toFixed(2)} %`]] : []),
    ["samples", "minor", (row) => short(row.samples)],
  ];
}

function show() {
  const { view } = page;
  if (!view) return;
  const { noise } = view;
  showVerdict(view);
  for (const node of document.querySelectorAll("[data-with]")) node.hidden = !view[node.dataset.with];
  const shown = columns(view);
  table("summary", shown.map(([head]) => head), rows().map((row) => shown.map(([, , cell]) => cell(row))), shown.map(([, kind]) => kind));
  $("method").textContent = [
    `Risk: ${view.method}`, view.relative_error ? `an approximation, ${view.sensitivity ? "stated" : "estimated"} relative error of the excess ${view.relative_error.toExponential(1)}` : "",
    ...view.approximations,
  ].filter(Boolean).join("; ");
  $("searching").hidden = view.search !== "on request";
  $("certificate").hidden = !view.certificate;
  $("certificate").textContent = view.certificate && `The best schedule found is ${view.certificate}.`;
  $("notes").hidden = !view.notes.length;
  $("notes").textContent = view.notes.map((note) => note[0].toUpperCase() + note.slice(1)).join(". ");
  (view.influence ? influence : sensitivity)(charts.influence, view);
  batches(charts.batches, view, page.drawn);
  bars($("risk-bars"), rows(), noise);
  $("spectrum-note").textContent = `The plan takes the spectrum on the left, whose eigenvalues sum to ${short(view.trace)}. For a model whose spectrum is not known, batchlaw plan is safe for a range of them.`;
  explain("plan", view.stages.length ? "" : view.verdict_reason);
  table("stages", ["updates", "batch", "samples before"], view.stages.map((s) => [`${s.first} to ${s.last}`, s.batch, s.before]));
  $("assumptions").replaceChildren(...view.assumptions.map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
}

function showAlong() {
  const run = page.along;
  if (!run) return;
  explain("along", run.reason);
  $("along-note").textContent = run.note && sentence(run.note);
  if (run.reason) return;
  const part = $("along-part").value;
  const paths = page.drawn?.path ? [...run.paths, { name: "drawn", ...page.drawn.path }] : run.paths;
  if (paths.every((path) => path.total.length === run.steps.length)) along(charts.along, { steps: run.steps, paths }, part, part === "total" ? "risk" : page.view.noise);
}

function showCollapse() {
  if (!page.collapse) return;
  explain("collapse", page.collapse.reason);
  if (!page.collapse.reason) collapse(charts.collapse, page.collapse, page.measured);
}

async function compute() {
  const start = performance.now();
  const setting = state.request();
  state.writeAddress();
  $("check-said").textContent = page.check ? "stopped: the setting has changed" : "";
  stop();
  page.measured = null;
  drop("/api/search");
  $("search-said").textContent = "";
  // In parallel; slower replies are shown after the view. A refusal common to all is shown once.
  const first = ask("/api/view", setting);
  const slower = [ask("/api/along", setting), ask("/api/collapse", setting)];
  for (const request of slower) request.catch(() => {});
  try {
    const view = await first;
    if (!view) return;
    page.view = view;
    page.setting = setting;
    forgive(page.complaint);
    // The last drawing stays until its new score arrives, if it has the same number of steps.
    if (!state.heights || page.drawn?.batches.length !== view.steps.length) page.drawn = null;
    show();
    say(`${Math.round(performance.now() - start)} ms`);
    document.body.dataset.shown = String(Number(document.body.dataset.shown ?? 0) + 1);
    if (state.heights) during(score());
    const rest = await Promise.allSettled([
      slower[0].then((run) => { if (run && !page.view.certificate) { page.along = run; showAlong(); } }),
      slower[1].then((points) => { if (points) { page.collapse = points; showCollapse(); } }),
    ]);
    const failed = rest.find((each) => each.status === "rejected");
    if (failed) throw failed.reason;
  } catch (error) { complain(error); }
}

// Adds the plan and the best schedule that a search finds, unless the setting has changed.
async function search() {
  const { setting } = page;
  $("search").disabled = true;
  $("search-said").textContent = "searching";
  try {
    const found = await ask("/api/search", setting);
    if (!found || !same(setting, page.setting)) return;
    page.view = found.view;
    page.along = found.along;
    $("search-said").textContent = "";
    show();
    showAlong();
  } catch (error) { $("search-said").textContent = reason(error); } finally { $("search").disabled = false; }
}

// Drop a score for a setting other than the one shown: the new view requests it again.
async function score() {
  const setting = state.request();
  if (!same(setting, page.setting)) return;
  try {
    const drawn = await ask("/api/score", { setting, heights: state.heights });
    if (!drawn || !state.heights || !same(setting, page.setting)) return;
    page.drawn = drawn;
    forgive("score");
    show();
    showAlong();
  } catch (error) { complain(error, "score"); }
}

function unasked() {
  clearTimeout(scoring);
  scoring = null;
  mark();
}

function changed() {
  say("computing");
  // Not postponed by further changes: a moving slider updates the page as it moves.
  waiting ??= setTimeout(() => { waiting = null; during(compute()); }, 8);
  mark();
  drawing.heights = state.heights;
  $("clear-drawing").disabled = !state.heights;
}

function drew() {
  state.heights = drawing.heights;
  $("clear-drawing").disabled = !state.heights;
  if (state.heights) {
    scoring ??= setTimeout(() => { scoring = null; state.writeAddress(); during(score()); }, 8);
    mark();
    return;
  }
  unasked();
  state.writeAddress();
  page.drawn = null;
  forgive("score");
  show();
  showAlong();
}

// A setting that can't be requested: replies to earlier requests must not overwrite the refusal.
function refuse(text) {
  clearTimeout(waiting);
  waiting = null;
  unasked();
  forget();
  complain(new Refused(text));
}

async function check() {
  stop();
  page.measured = null;
  const mine = {};
  page.check = mine;
  $("check-said").textContent = "";
  try {
    mine.id = await startCheck({ setting: state.request(), repetitions: Number($("repetitions").value) });
    if (page.check !== mine) { stopCheck(mine.id); return; }
    $("stop-check").disabled = false;
    $("check-progress").hidden = false;
    for (;;) {
      const progress = await readCheck(mine.id);
      if (page.check !== mine) return;
      page.measured = progress.points;
      showCollapse();
      $("check-progress").value = progress.done / progress.repetitions;
      $("check-said").textContent = progress.error || described(progress);
      if (progress.finished) break;
      await new Promise((resolve) => { setTimeout(resolve, 150); });
    }
  } catch (error) { if (page.check === mine) $("check-said").textContent = reason(error); }
  if (page.check === mine) rest();
}

function described({ done, repetitions, apart, points }) {
  const share = `${done} of ${repetitions}`;
  return apart === null ? share : `${share}; at most ${apart.toFixed(1)} s.e. from the computed values (${points.length} dots)`;
}

function rest() {
  page.check = null;
  $("stop-check").disabled = true;
  $("check-progress").hidden = true;
}

function stop() {
  if (!page.check) return;
  if (page.check.id) stopCheck(page.check.id);
  rest();
}

function offerDownloads(model) {
  layout = fieldsOf(model);
  for (const [name, field] of Object.entries(layout)) {
    const tag = document.createElement("label");
    tag.htmlFor = name;
    tag.textContent = field.label;
    const input = Object.assign(document.createElement("input"), { id: name, type: "number", min: "1", step: "1" });
    const pair = document.createElement("span");
    pair.title = field.description;
    pair.append(tag, " ", input);
    $("layout").append(pair);
  }
  const formats = model.properties.format;
  for (const format of formats.enum) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: formats["x-titles"][format] });
    button.dataset.format = format;
    button.addEventListener("click", () => save(format));
    $("downloads").append(button);
  }
}

async function save(format) {
  const given = Object.keys(layout).filter((name) => $(name).value).map((name) => [name, Number($(name).value)]);
  try {
    $("download-note").textContent = await download({ setting: state.request(), format, ...Object.fromEntries(given) });
  } catch (error) { $("download-note").textContent = reason(error); }
}

async function start() {
  const schemas = await schema();
  offerDownloads(schemas.Download);
  drawing = new Drawing($("batches-chart"), charts.batches, () => page.view?.schedules.find((s) => s.name === "constant").batches[0], drew);
  const kept = [$("along-part"), $("repetitions"), ...Object.keys(layout).map($)];
  state = new State(schemas, $("controls"), kept, changed, refuse);
  $("clear-drawing").addEventListener("click", () => drawing.clear());
  $("along-part").addEventListener("change", showAlong);
  $("search").addEventListener("click", () => during(search()));
  $("start-check").addEventListener("click", check);
  window.addEventListener("pagehide", stop);
  $("stop-check").addEventListener("click", () => { stop(); $("check-said").textContent += ", stopped"; });
  changed();
}

during(start().catch(complain));
