// Drawing a schedule: with the mouse or a finger, or with the arrow keys.

const KNOTS = 33;
// The precision of heights in the address: a link reproduces the drawing exactly.
const digits = (height) => Number(height.toPrecision(4));

export class Drawing {
  constructor(place, chart, start, changed) {
    Object.assign(this, { place, chart, start, changed });
    this.heights = null;
    this.knot = 0;
    this.last = null;
    place.addEventListener("pointerdown", (event) => this.down(event));
    place.addEventListener("pointermove", (event) => {
      if (this.touched && Math.abs(event.clientX - this.touched.clientX) > 8) this.press(this.touched);
      if (this.last) this.move(event);
    });
    place.addEventListener("pointerup", () => this.up());
    place.addEventListener("pointercancel", () => this.up());
    place.addEventListener("keydown", (event) => this.key(event));
  }

  // Knots start at the constant schedule; false if there is no view yet.
  begin() {
    const height = this.heights ? null : this.start();
    if (height) this.heights = new Array(KNOTS).fill(digits(height));
    return this.heights !== null;
  }

  inside(event) {
    const over = this.chart.plot?.over;
    if (!over) return null;
    const box = over.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width;
    const y = (event.clientY - box.top) / box.height;
    // A line that started inside is clamped at the edges.
    if (this.last) return { x: Math.min(1, Math.max(0, x)), y };
    return x >= -0.02 && x <= 1.02 && y >= 0 && y <= 1 ? { x: Math.min(1, Math.max(0, x)), y } : null;
  }

  // A finger starts drawing when it moves sideways: vertical moves scroll the page.
  down(event) {
    if (event.button !== 0 || !this.inside(event)) return;
    this.last = null;
    this.touched = event.pointerType === "touch" ? event : null;
    if (!this.touched) this.press(event);
  }

  press(event) {
    this.touched = null;
    this.place.setPointerCapture(event.pointerId);
    if (this.begin()) this.move(event);
  }

  up() {
    this.last = null;
    this.touched = null;
  }

  move(event) {
    const at = this.inside(event);
    if (!at) return;
    const knot = Math.round(at.x * (this.heights.length - 1));
    const top = this.chart.plot.scales.y.max;
    const height = Math.max(top * 0.002, top * (1 - Math.min(1, Math.max(0, at.y))));
    const from = this.last ?? { knot, height };
    const [low, high] = [Math.min(from.knot, knot), Math.max(from.knot, knot)];
    for (let k = low; k <= high; k += 1) {
      const share = knot === from.knot ? 1 : (k - from.knot) / (knot - from.knot);
      this.heights[k] = digits(from.height + share * (height - from.height));
    }
    this.last = { knot, height };
    this.changed();
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const factor = { ArrowUp: 1.1, ArrowDown: 1 / 1.1 }[event.key];
    if (!step && !factor) return;
    event.preventDefault();
    if (!this.begin()) return;
    if (step) this.knot = Math.min(this.heights.length - 1, Math.max(0, this.knot + step));
    else this.heights[this.knot] = digits(this.heights[this.knot] * factor);
    const { left, top } = this.cursor();
    this.chart.plot?.setCursor({ left, top });
    const share = Math.round((100 * this.knot) / (this.heights.length - 1));
    this.place.setAttribute("aria-valuenow", String(this.heights[this.knot]));
    this.place.setAttribute("aria-valuetext", `${this.heights[this.knot]} samples at ${share} % of the run`);
    if (factor) this.changed();
  }

  cursor() {
    const plot = this.chart.plot;
    const box = plot.over.getBoundingClientRect();
    const top = box.height * (1 - this.heights[this.knot] / plot.scales.y.max);
    return { left: (this.knot / (this.heights.length - 1)) * box.width, top: Math.max(0, top) };
  }

  clear() {
    this.heights = null;
    this.last = null;
    this.changed();
  }
}
