// Line charts, risk bars and the collapse. Colours come from the style sheet, light or dark.

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const DASH = { greedy: [], best: [], planned: [], constant: [7, 4], drawn: [2, 3] };
const WIDTH = { greedy: 1.5, best: 1.5, planned: 3 };
const HEIGHT = 300;

export const short = (value) => {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e9) return String(value);
  if (size >= 1e5 || size < 1e-3) return Number(value.toPrecision(3)).toExponential();
  return String(Number(value.toPrecision(5)));
};

// A standard error, to two digits.
export const spread = (error) => `± ${short(Number(error.toPrecision(2)))}`;

// Legend keys show width and dash, so that lines can be told apart without colour.
const LEGEND = {
  markers: {
    width: (u, k) => u.series[k].width, fill: "transparent",
    dash: (u, k) => { const [on] = u.series[k].dash ?? []; if (!on) return "solid"; return on > 4 ? "dashed" : "dotted"; },
  },
};

const tick = (value) => (Math.abs(value) >= 1e5 ? value.toExponential().replace("+", "") : short(value));
const ticks = (_, values) => values.map((value) => (value === null ? "" : tick(value)));

function axes(names) {
  const line = { stroke: colour("text"), grid: { stroke: colour("line"), width: 0.5 }, ticks: { stroke: colour("line") } };
  return names.map((axis) => ({ ...line, size: axis.side === undefined ? 44 : 66, values: ticks, ...axis }));
}

// A chart that is rebuilt when its series change, and otherwise only gets new data.
export class Chart {
  constructor(place) {
    this.place = place;
    this.plot = null;
    this.shape = "";
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.again?.());
  }

  size() {
    return { width: Math.max(240, this.place.clientWidth), height: HEIGHT };
  }

  draw(options, data) {
    this.again = () => { this.shape = ""; this.draw(options, data); };
    const shape = JSON.stringify(options.series.map((s) => s.label)) + JSON.stringify(options.key ?? "");
    if (this.plot && shape === this.shape) { this.plot.setData(data); return; }
    this.plot?.destroy();
    this.shape = shape;
    this.plot = new uPlot({ ...this.size(), ...options, axes: axes(options.axes), legend: LEGEND, cursor: { drag: { x: false, y: false } } }, data, this.place);
  }
}

const FIRST = { label: "update", value: (_, v) => v ?? "" };
const line = (label, name, more = {}) => ({
  label, stroke: () => colour(name), width: WIDTH[name] ?? 2, dash: DASH[name] ?? [], points: { show: false }, value: (_, v) => (v === null || v === undefined ? "" : short(v)), ...more,
});

export function influence(chart, view) {
  chart.draw({
    scales: { x: { time: false }, y: { range: (_, low, high) => [0, 1.05 * high] }, share: { range: [0, 1.05] } },
    axes: [{ label: "update" }, { label: "learning rate", side: 3 }, { label: "κ and √κ, relative to their maximum", scale: "share", side: 1, grid: { show: false } }],
    series: [
      { ...FIRST }, line("learning rate", "constant"),
      line("influence κ", "greedy", { scale: "share", dash: [2, 3], width: 2 }), line("√κ", "planned", { scale: "share" }),
    ],
  }, [view.steps, view.rate, view.influence.share, view.influence.root]);
}

export function sensitivity(chart, view) {
  chart.draw({
    key: "sensitivity",
    scales: { x: { time: false }, y: { range: (_, low, high) => [0, 1.05 * high] }, slope: {} },
    axes: [{ label: "update" }, { label: "learning rate", side: 3 }, { label: "d excess / d log batch", scale: "slope", side: 1, grid: { show: false } }],
    series: [
      { ...FIRST }, line("learning rate", "constant"),
      line("through the scales (v)", "best", { scale: "slope", dash: [2, 3], width: 2 }), line("through the noise", "planned", { scale: "slope" }),
    ],
  }, [view.steps, view.rate, view.sensitivity.scales, view.sensitivity.noise]);
}

export function batches(chart, view, drawn) {
  const names = view.schedules.map((s) => s.name).concat(drawn ? ["drawn"] : []);
  const stepped = uPlot.paths.stepped({ align: 1 });
  chart.draw({
    scales: { x: { time: false }, y: { range: (_, low, high) => [0, 1.08 * high] } },
    axes: [{ label: "update" }, { label: "batch size, samples", side: 3 }],
    series: [{ ...FIRST }, ...names.map((name) => line(name, name, { paths: name === "planned" ? stepped : undefined }))],
  }, [view.steps, ...view.schedules.map((s) => s.batches), ...(drawn ? [drawn.batches] : [])]);
}

export function along(chart, run, part, label) {
  chart.draw({
    key: label,
    scales: { x: { time: false } },
    axes: [{ label: "updates made" }, { label, side: 3 }],
    series: [{ ...FIRST }, ...run.paths.map(({ name }) => line(name, name))],
  }, [run.steps, ...run.paths.map((path) => path[part])]);
}

const FAMILY = {
  oracle: ["greedy", "circle"], constant: ["constant", "square"],
  early_large_late_small: ["approximation", "up"], early_small_late_large: ["planned", "down"],
};

const SIGN = { circle: "○", square: "□", up: "△", down: "▽" };

function mark(context, kind, x, y, r) {
  context.beginPath();
  if (kind === "circle") context.arc(x, y, r, 0, 2 * Math.PI);
  else if (kind === "square") context.rect(x - r, y - r, 2 * r, 2 * r);
  else {
    const s = kind === "up" ? -1 : 1;
    context.moveTo(x - r, y - s * r);
    context.lineTo(x + r, y - s * r);
    context.lineTo(x, y + s * r);
    context.closePath();
  }
}

// Exact values as a line through each family; measured ones as marks with their errors.
export function collapse(chart, curves, measured) {
  const xs = [...new Set(curves.points.map((p) => p.summary))].sort((a, b) => a - b);
  const at = new Map(xs.map((x, k) => [x, k]));
  const column = (family, points, key) => {
    const out = xs.map(() => null);
    for (const p of points) if (p.family === family) out[at.get(p.summary)] = p[key];
    return out;
  };
  const dots = measured ?? [];
  const paint = (family, points) => (u) => {
    const [name, kind] = FAMILY[family];
    const { ctx } = u;
    ctx.save();
    ctx.strokeStyle = colour(name);
    ctx.fillStyle = colour(name);
    ctx.lineWidth = 1.5 * devicePixelRatio;
    for (const p of points.filter((each) => each.family === family)) {
      const x = u.valToPos(p.summary, "x", true);
      const y = u.valToPos(p.value, "y", true);
      if (p.error !== undefined) {
        ctx.beginPath();
        for (const end of [p.value - p.error, p.value + p.error]) {
          const to = u.valToPos(Math.max(end, 1e-300), "y", true);
          ctx.moveTo(x, y);
          ctx.lineTo(x, to);
        }
        ctx.stroke();
      }
      mark(ctx, kind, x, y, (p.error === undefined ? 3 : 4) * devicePixelRatio);
      if (p.error === undefined) ctx.stroke(); else ctx.fill();
    }
    ctx.restore();
  };
  const families = curves.families;
  chart.draw({
    key: [curves.term, dots.length > 0, curves.points.length, curves.points[0]?.value, dots.map((p) => p.value)],
    scales: { x: { time: false, distr: 3 }, y: { distr: 3 } },
    axes: [{ label: curves.summary }, { label: curves.term, side: 3 }],
    series: [
      { label: curves.summary, value: (_, v) => (v === null ? "" : short(v)) },
      ...families.map((family) => line(`${SIGN[FAMILY[family][1]]} ${family.replaceAll("_", " ")}`, FAMILY[family][0], { width: 1, spanGaps: true, dash: [] })),
    ],
    hooks: { draw: [(u) => { for (const family of families) { paint(family, curves.points)(u); paint(family, dots)(u); } }] },
  }, [xs, ...families.map((family) => column(family, curves.points, "value"))]);
}

const PARTS = ["approximation", "bias", "variance", "fluctuation", "cross"];
const svg = (tag, attributes, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
};

// Each part has a pattern too, so that parts can be told apart without colour.
const STROKES = { approximation: "", bias: "M0 6L6 0", variance: "M3 0V6", fluctuation: "M0 0L6 6M0 6L6 0", cross: "M0 3H6" };

function fills(names) {
  const all = svg("defs", {});
  for (const part of names) {
    const pattern = svg("pattern", { id: `fill-${part}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" });
    pattern.append(svg("rect", { width: 6, height: 6, fill: colour(part) }));
    pattern.append(svg("path", { d: STROKES[part], stroke: colour("text"), "stroke-width": 0.6, opacity: 0.55 }));
    all.append(pattern);
  }
  return all;
}

const measured = ({ risk }, part) => {
  const error = risk.standard_error?.[part];
  return error === undefined ? short(risk[part]) : `${short(risk[part])} ${spread(error)}`;
};

// One bar per schedule: the risk beyond the label noise, part by part; then the noise alone, magnified.
export function bars(place, rows, noise) {
  const width = 460, left = 78, height = 22, gap = 12;
  const names = PARTS.filter((part) => rows[0].risk[part] !== null);
  const right = rows.some((row) => row.risk.standard_error) ? 130 : 80;
  const block = (title, whole, parts, top) => {
    // A negative part is drawn back from the end of the bar, so a bar may be longer than its total.
    const reach = (row) => parts.reduce((sum, part) => sum + Math.max(0, row.risk[part]), 0);
    const scale = (width - left - right) / Math.max(...rows.map(reach), Number.MIN_VALUE);
    picture.append(svg("text", { x: 0, y: top + 12 }, title));
    rows.forEach((row, k) => {
      const y = top + 20 + k * (height + gap);
      picture.append(svg("text", { x: 0, y: y + 15 }, row.name));
      let x = left;
      for (const part of parts) {
        const wide = row.risk[part] * scale;
        const box = svg("rect", { x: Math.min(x, x + wide), y, width: Math.abs(wide), height, fill: `url(#fill-${part})`, stroke: colour("text"), "stroke-width": 0.75 });
        box.append(svg("title", {}, `${row.name}, ${part}: ${measured(row, part)}`));
        picture.append(box);
        x += wide;
      }
      picture.append(svg("text", { x: left + reach(row) * scale + 6, y: y + 15 }, measured(row, whole)));
    });
    return top + 24 + rows.length * (height + gap);
  };
  const total = 2 * (34 + rows.length * (height + gap));
  const picture = svg("svg", { viewBox: `0 0 ${width} ${total}`, role: "img", "aria-label": "risk of the schedules in its parts" });
  picture.append(fills(names));
  const next = block("risk beyond the label noise", "reducible", names, 0);
  block(`${noise} alone`, noise, [noise], next + 8);
  const keys = document.createElement("p");
  for (const part of names) {
    const key = document.createElement("span");
    key.className = "key";
    const patch = svg("svg", { viewBox: "0 0 14 12", "aria-hidden": "true" });
    patch.append(svg("rect", { width: 14, height: 12, fill: `url(#fill-${part})` }));
    key.append(patch, part);
    keys.append(key);
  }
  place.replaceChildren(keys, picture);
}
