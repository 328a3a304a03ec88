// The setting: its controls, made from the server's own description, and its place in the address.

const GROUPS = [
  ["Learning rate", ["rates", "steps", "peak", "warmup", "stable", "decay"]],
  ["Problem", ["problem", "a", "b", "m", "sigma", "spectrum"]],
  ["Procedure", ["procedure", "samples", "replacement", "momentum", "momentum_form"]],
  ["Budget", ["budget", "min_batch", "max_batch", "multiple_of", "stages"]],
];
export const LABELS = {
  rates: "schedule", steps: "updates T", peak: "peak rate", warmup: "warmup ends at",
  stable: "decay starts at", decay: "decay shape", problem: "spectrum", a: "exponent a",
  b: "source exponent b", m: "sketch size M", sigma: "label noise", spectrum: "file",
  procedure: "passes", samples: "samples N", replacement: "with replacement",
  momentum: "momentum", momentum_form: "form of momentum", budget: "samples in all", min_batch: "smallest batch",
  max_batch: "largest batch", multiple_of: "multiple of", stages: "stages",
};
// Sliders: the range that a hand wants, and its step, or that its steps are factors. The boxes take more.
const SLIDERS = {
  steps: [16, 8192, "log"], peak: [0.001, 1, "log"], warmup: [0.02, 0.45, 0.01], stable: [0.05, 0.95, 0.01],
  a: [1.1, 4, 0.05], b: [1.1, 4, 0.05], m: [4, 1024, "log"], sigma: [0, 3, 0.05], samples: [16, 8192, "log"],
  momentum: [0, 0.98, 0.01], budget: [64, 1e6, "log"], stages: [1, 16, 1],
};
// Places of a slider whose steps are factors.
const PLACES = 300;
const OPTIONS = {
  wsd: "WSD", paper: "the paper's", sketch: "mean sketch", truncation: "first M", spectrum: "from a file",
  "one-pass": "one", "multi-pass": "many", "heavy-ball": "heavy ball", nesterov: "Nesterov", pytorch: "PyTorch",
  "pytorch-nesterov": "PyTorch Nest.",
};
const numberOf = (text) => (text?.trim() ? Number(text) : NaN);
const FILE = "CSV file: eigenvalue, energy, multiplicity if any";
const SHOWN = {
  stable: (s) => s.rates === "wsd",
  decay: (s) => s.rates === "wsd",
  warmup: (s) => s.rates !== "constant",
  a: (s) => s.problem !== "spectrum",
  b: (s) => s.problem !== "spectrum",
  m: (s) => s.problem !== "spectrum",
  spectrum: (s) => s.problem === "spectrum",
  samples: (s) => s.procedure === "multi-pass",
  replacement: (s) => s.procedure === "multi-pass",
  momentum: (s) => s.procedure === "one-pass",
  momentum_form: (s) => s.procedure === "one-pass" && s.momentum > 0,
};

export class State {
  // Beside the setting the address keeps the values of some further inputs.
  constructor(schemas, form, kept, changed, refused) {
    this.fields = schemas.Setting.properties;
    this.mostRows = schemas.Spectrum.properties.eigenvalue.maxItems;
    this.form = form;
    this.kept = kept;
    for (const each of kept) {
      each.dataset.usual = each.value;
      each.addEventListener("change", () => this.writeAddress());
    }
    this.changed = changed;
    this.refused = refused;
    this.values = {};
    this.heights = null;
    this.inputs = {};
    for (const [name, field] of Object.entries(this.fields)) this.values[name] = field.default ?? null;
    this.build();
    this.readAddress();
    window.addEventListener("hashchange", () => {
      if (location.hash !== this.hash) { this.readAddress(); this.changed(); }
    });
  }

  build() {
    for (const [title, names] of GROUPS) {
      const set = document.createElement("details");
      set.open = matchMedia("(min-width: 861px)").matches;
      const head = document.createElement("summary");
      head.textContent = title;
      set.append(head, ...names.map((name) => this.field(name)));
      this.form.append(set);
    }
    this.form.addEventListener("submit", (event) => event.preventDefault());
  }

  field(name) {
    const kind = this.kind(name);
    const row = document.createElement("div");
    row.className = "field";
    const label = document.createElement("label");
    label.htmlFor = `set-${name}`;
    label.textContent = LABELS[name];
    row.title = this.fields[name].description ?? "";
    const input = kind === "choice" ? document.createElement("select") : document.createElement("input");
    input.id = `set-${name}`;
    if (kind === "choice") {
      for (const option of this.fields[name].enum) input.add(new Option(OPTIONS[option] ?? option, option));
    } else if (kind === "flag") {
      input.type = "checkbox";
    } else if (kind === "file") {
      input.type = "file";
      input.accept = ".csv,text/csv";
      label.textContent = FILE;
    } else {
      this.bound(input, name);
    }
    row.append(label, input);
    this.inputs[name] = { row, input };
    input.addEventListener(kind === "number" ? "input" : "change", () => this.fromInput(name));
    // A box that was left empty shows again what is in force.
    if (kind === "number") input.addEventListener("blur", () => this.show());
    if (SLIDERS[name]) row.append(this.slider(name));
    return row;
  }

  kind(name) {
    const field = this.fields[name];
    if (field.enum) return "choice";
    if (field.type === "boolean") return "flag";
    return name === "spectrum" ? "file" : "number";
  }

  number(name) {
    const field = this.fields[name];
    return field.anyOf ? field.anyOf.find((part) => part.type !== "null") : field;
  }

  bound(input, name) {
    const field = this.number(name);
    input.type = "number";
    input.step = field.type === "integer" ? "1" : "any";
    input.min = field.minimum ?? field.exclusiveMinimum ?? "";
    input.max = field.maximum ?? "";
    if (this.fields[name].anyOf) input.placeholder = "none";
  }

  slider(name) {
    const range = document.createElement("input");
    const [low, high, step] = SLIDERS[name];
    const factors = step === "log";
    Object.assign(range, { type: "range", min: factors ? 0 : low, max: factors ? PLACES : high, step: factors ? 1 : step });
    range.setAttribute("aria-label", `${LABELS[name]}, slider`);
    range.addEventListener("input", () => {
      const value = factors ? low * (high / low) ** (range.value / PLACES) : Number(range.value);
      this.set(name, this.number(name).type === "integer" ? Math.round(value) : Number(value.toPrecision(3)), range);
    });
    this.inputs[name].range = range;
    return range;
  }

  fromInput(name) {
    const { input } = this.inputs[name];
    const kind = this.kind(name);
    if (kind === "file") { this.readSpectrum(input); return; }
    if (kind === "flag") { this.set(name, input.checked); return; }
    if (kind === "choice") { this.set(name, input.value); return; }
    const empty = input.value.trim() === "";
    if (empty && !this.fields[name].anyOf) return;
    if (!empty && !Number.isFinite(Number(input.value))) return;
    this.set(name, empty ? null : Number(input.value), input);
  }

  async readSpectrum(input) {
    const [file] = input.files;
    if (!file) return;
    const text = await file.text();
    // Emptied, so that the same file can be chosen again after it was mended; the label says which.
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
    if (lines.length > this.mostRows) {
      this.refused(`${file.name} must have at most ${this.mostRows} rows, got ${lines.length}: put small eigenvalues together, with a multiplicity`);
      return;
    }
    const columns = {};
    for (const name of ["eigenvalue", "energy", "multiplicity"].filter((each) => names.includes(each))) {
      const place = names.indexOf(name);
      columns[name] = lines.map((line) => numberOf(line.split(",")[place]));
      const bad = columns[name].findIndex((value) => !Number.isFinite(value));
      if (bad >= 0) { this.refused(`${file.name} must have a number in column ${name}, row ${bad + 2}`); return; }
    }
    this.spectrumName = file.name;
    this.set("spectrum", columns);
  }

  // What is being typed or moved is left as it is.
  set(name, value, moving = null) {
    this.values[name] = value;
    this.mend();
    this.show(moving);
    if (this.values.problem === "spectrum" && !this.values.spectrum) { this.writeAddress(); this.refused("choose a file with the spectrum"); return; }
    this.changed();
  }

  // What has no use in this setting has no value.
  mend() {
    if (this.values.problem !== "spectrum") this.values.spectrum = null;
    if (this.values.procedure === "multi-pass") this.values.momentum = 0;
  }

  show(moving = null) {
    for (const [name, { row, input, range }] of Object.entries(this.inputs)) {
      row.hidden = SHOWN[name] ? !SHOWN[name](this.values) : false;
      const kind = this.kind(name);
      const value = this.values[name];
      if (kind === "file") {
        input.labels[0].textContent = value ? `${FILE}. Now: ${value.eigenvalue?.length} rows, from ${this.spectrumName ?? "the link"}` : FILE;
      }
      if (kind === "flag") input.checked = value;
      else if (kind === "choice") input.value = value;
      else if (kind === "number" && input !== moving) input.value = value ?? "";
      if (range) {
        const [low, high, step] = SLIDERS[name];
        if (range !== moving) range.value = String(step === "log" ? (PLACES * Math.log(value / low)) / Math.log(high / low) : value);
        range.setAttribute("aria-valuetext", String(value));
      }
    }
  }

  // A copy: the values may change while the server works.
  request() {
    return { ...this.values };
  }

  writeAddress() {
    const parts = new URLSearchParams();
    for (const [name, field] of Object.entries(this.fields)) {
      const value = this.values[name];
      if (name === "spectrum") { if (value) parts.set(name, JSON.stringify(value)); continue; }
      if (value !== (field.default ?? null)) parts.set(name, value === null ? "" : String(value));
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
      this.values[name] = text === null ? field.default ?? null : this.parsed(name, text);
    }
    this.mend();
    for (const kept of this.kept) {
      kept.value = parts.get(kept.id) ?? kept.dataset.usual;
      if (!kept.value) kept.value = kept.dataset.usual;  // a link that names what is not there
    }
    const heights = (parts.get("draw") ?? "").split(" ").map(Number).filter((h) => h > 0);
    this.heights = heights.length > 1 ? heights : null;
    this.hash = location.hash;
    this.show();
  }

  parsed(name, text) {
    const kind = this.kind(name);
    if (kind === "choice") return text;
    if (kind === "flag") return text === "true";
    if (kind === "file") { try { return JSON.parse(text); } catch { return null; } }
    if (text === "") return null;
    return Number.isFinite(Number(text)) ? Number(text) : this.fields[name].default ?? null;
  }
}
