// The setting: its controls, built from the server's schema, and its copy in the address.

// Positions of a logarithmic slider.
const SLIDER_POSITIONS = 300;
const FILE = "CSV file: eigenvalue, energy, multiplicity if any";
const numberOf = (text) => (text?.trim() ? Number(text) : NaN);

// What a field of a model accepts, and how the page shows it.
function described(field) {
  const page = field["x-page"] ?? {};
  const part = field.anyOf?.find((each) => each.type !== "null") ?? field;
  let kind = { boolean: "flag", integer: "number", number: "number" }[part.type] ?? "text";
  if (part.enum) kind = "choice";
  if (part.$ref) kind = "file";
  return {
    ...page, kind, part, description: field.description ?? "", usual: field.default ?? null, optional: Boolean(field.anyOf),
    options: part.enum?.map((name) => [name, field["x-titles"]?.[name] ?? name]),
  };
}

// Fields that have a control on the page, in the order of the schema.
export function fieldsOf(schema) {
  const known = Object.entries(schema.properties).filter(([, field]) => field["x-page"]);
  return Object.fromEntries(known.map(([name, field]) => [name, described(field)]));
}

export class State {
  // The address also keeps the values of the inputs ``kept``.
  constructor(schemas, form, kept, changed, refused) {
    this.fields = fieldsOf(schemas.PageSetting);
    this.schemas = schemas;
    this.form = form;
    this.kept = kept;
    for (const input of kept) {
      input.dataset.usual = input.value;
      input.addEventListener("change", () => this.writeAddress());
    }
    this.changed = changed;
    this.refused = refused;
    this.values = {};
    this.heights = null;
    this.inputs = {};
    for (const [name, field] of Object.entries(this.fields)) this.values[name] = field.usual;
    this.build();
    this.readAddress();
    window.addEventListener("hashchange", () => {
      if (location.hash !== this.hash) { this.readAddress(); this.changed(); }
    });
  }

  build() {
    const groups = new Map();
    for (const [name, { group }] of Object.entries(this.fields)) groups.set(group, [...(groups.get(group) ?? []), name]);
    for (const [title, names] of groups) {
      const set = document.createElement("details");
      set.open = matchMedia("(min-width: 861px)").matches;
      const head = document.createElement("summary");
      head.textContent = title;
      set.append(head, ...names.map((name) => this.control(name)));
      this.form.append(set);
    }
    this.form.addEventListener("submit", (event) => event.preventDefault());
  }

  control(name) {
    const field = this.fields[name];
    const row = document.createElement("div");
    row.className = "field";
    row.title = field.description;
    const label = document.createElement("label");
    label.htmlFor = `set-${name}`;
    label.textContent = field.kind === "file" ? FILE : field.label;
    const input = document.createElement(field.kind === "choice" ? "select" : "input");
    input.id = `set-${name}`;
    if (field.kind === "choice") for (const [value, title] of field.options) input.add(new Option(title, value));
    else if (field.kind === "flag") input.type = "checkbox";
    else if (field.kind === "file") Object.assign(input, { type: "file", accept: ".csv,text/csv" });
    else if (field.kind === "number") this.bound(input, field);
    if (field.empty) input.placeholder = field.empty;
    row.append(label, input);
    this.inputs[name] = { row, input };
    input.addEventListener(field.kind === "number" ? "input" : "change", () => this.fromInput(name));
    // An input left empty shows the current value again.
    if (field.kind === "number") input.addEventListener("blur", () => this.show());
    if (field.slider) row.append(this.slider(name));
    return row;
  }

  bound(input, { part }) {
    input.type = "number";
    input.step = part.type === "integer" ? "1" : "any";
    input.min = part.minimum ?? "";
    input.max = part.maximum ?? part.exclusiveMaximum ?? "";
  }

  slider(name) {
    const range = document.createElement("input");
    const { part, label, slider: [low, high, step] } = this.fields[name];
    const factors = step === "log";
    Object.assign(range, { type: "range", min: factors ? 0 : low, max: factors ? SLIDER_POSITIONS : high, step: factors ? 1 : step });
    range.setAttribute("aria-label", `${label}, slider`);
    range.addEventListener("input", () => {
      const value = factors ? low * (high / low) ** (range.value / SLIDER_POSITIONS) : Number(range.value);
      this.set(name, part.type === "integer" ? Math.round(value) : Number(value.toPrecision(3)), range);
    });
    this.inputs[name].range = range;
    return range;
  }

  fromInput(name) {
    const { input } = this.inputs[name];
    const { kind, optional, usual } = this.fields[name];
    if (kind === "file") { this.readSpectrum(name, input); return; }
    if (kind === "flag") { this.set(name, input.checked); return; }
    if (kind === "choice") { this.set(name, input.value); return; }
    const text = input.value.trim();
    if (kind === "text") { this.set(name, text || usual); return; }
    if (!text && !optional) return;
    if (text && !Number.isFinite(Number(text))) return;
    this.set(name, text ? Number(text) : null, input);
  }

  async readSpectrum(field, input) {
    const [file] = input.files;
    if (!file) return;
    const text = await file.text();
    // Cleared, so that the same file can be chosen again after a fix; the label names it.
    input.value = "";
    const [head, ...lines] = text.replaceAll('"', "").split(/\r?\n/).filter((line) => line.trim());
    if (!head) { this.refused(`${file.name} is empty`); return; }
    const names = head.split(",").map((word) => word.trim());
    const missing = ["eigenvalue", "energy"].filter((name) => !names.includes(name));
    if (missing.length) {
      const comma = head.includes(";") ? " and commas between columns" : "";
      this.refused(`${file.name} must have a column ${missing[0]}${comma}, got ${head.replace(/[^ -~]/g, "?").slice(0, 60)}`);
      return;
    }
    const most = this.schemas[this.fields[field].part.$ref.split("/").at(-1)].properties.eigenvalue.maxItems;
    if (lines.length > most) {
      this.refused(`${file.name} must have at most ${most} rows, got ${lines.length}: merge small eigenvalues, with a multiplicity`);
      return;
    }
    const columns = {};
    for (const name of ["eigenvalue", "energy", "multiplicity"].filter((each) => names.includes(each))) {
      const place = names.indexOf(name);
      columns[name] = lines.map((line) => numberOf(line.split(",")[place]));
      const bad = columns[name].findIndex((value) => !Number.isFinite(value));
      if (bad >= 0) { this.refused(`${file.name} must have a number in column ${name}, row ${bad + 2}`); return; }
    }
    this.fileName = file.name;
    this.set(field, columns);
  }

  // A field's default, given the others: an optimizer presets some of its options.
  usual(name) {
    for (const [other, { presets }] of Object.entries(this.fields)) {
      const own = presets?.[this.values[other]];
      if (own && name in own) return own[name];
    }
    return this.fields[name].usual;
  }

  // The input being typed in or moved is left alone.
  set(name, value, moving = null) {
    this.values[name] = value;
    const { presets = {} } = this.fields[name];
    for (const other of Object.values(presets).flatMap(Object.keys)) this.values[other] = this.usual(other);
    this.show(moving);
    const missing = Object.keys(this.inputs).find((each) => this.fields[each].kind === "file" && this.shown(each) && !this.values[each]);
    if (missing) { this.writeAddress(); this.refused(`choose a file with the ${missing}`); return; }
    this.changed();
  }

  // Whether a field has any effect given the others.
  shown(name) {
    const { shown_with: shown = {}, hidden_with: hidden = {} } = this.fields[name];
    return Object.entries(shown).every(([other, values]) => values.includes(this.values[other]))
      && !Object.entries(hidden).some(([other, values]) => values.includes(this.values[other]));
  }

  show(moving = null) {
    for (const [name, { row, input, range }] of Object.entries(this.inputs)) {
      const { kind, slider } = this.fields[name];
      const value = this.values[name];
      row.hidden = !this.shown(name);
      if (kind === "file") {
        input.labels[0].textContent = value ? `${FILE}. Now: ${value.eigenvalue?.length} rows, from ${this.fileName ?? "the link"}` : FILE;
      } else if (kind === "flag") input.checked = value;
      else if (kind === "choice") input.value = value;
      else if (input !== moving) input.value = value ?? "";
      if (range) {
        const [low, high, step] = slider;
        if (range !== moving) range.value = String(step === "log" ? (SLIDER_POSITIONS * Math.log(value / low)) / Math.log(high / low) : value);
        range.setAttribute("aria-valuetext", String(value));
      }
    }
  }

  // Marks the field that a refusal is about, if it is on the page.
  mark(name) {
    for (const [each, { input }] of Object.entries(this.inputs)) input.setAttribute("aria-invalid", String(each === name));
  }

  // The fields in use, copied: values may change while the server works.
  request() {
    return Object.fromEntries(Object.entries(this.values).filter(([name]) => this.shown(name)));
  }

  writeAddress() {
    const parts = new URLSearchParams();
    for (const [name, value] of Object.entries(this.request())) {
      if (value === this.usual(name)) continue;
      parts.set(name, this.fields[name].kind === "file" ? JSON.stringify(value) : value ?? "");
    }
    for (const kept of this.kept) if (kept.value !== kept.dataset.usual) parts.set(kept.id, kept.value);
    if (this.heights) parts.set("draw", this.heights.join(" "));
    this.hash = parts.size ? `#${parts}` : "";
    history.replaceState(null, "", this.hash || location.pathname);
  }

  readAddress() {
    const parts = new URLSearchParams(location.hash.slice(1));
    for (const [name, field] of Object.entries(this.fields)) {
      const text = parts.get(name);
      this.values[name] = text === null ? field.usual : this.parsed(field, text);
    }
    for (const name of Object.keys(this.fields)) if (!parts.has(name)) this.values[name] = this.usual(name);
    for (const kept of this.kept) {
      kept.value = parts.get(kept.id) ?? kept.dataset.usual;
      if (!kept.value) kept.value = kept.dataset.usual;  // a link with an unknown choice
    }
    const heights = (parts.get("draw") ?? "").split(" ").map(Number).filter((h) => h > 0);
    this.heights = heights.length > 1 ? heights : null;
    this.hash = location.hash;
    this.show();
  }

  parsed({ kind, options, optional, usual }, text) {
    if (kind === "choice") return options.some(([name]) => name === text) ? text : usual;
    if (kind === "flag") return text === "true";
    if (kind === "file") { try { return JSON.parse(text); } catch { return null; } }
    if (text === "") return optional ? null : usual;
    if (kind === "text") return text;
    return Number.isFinite(Number(text)) ? Number(text) : usual;
  }
}
