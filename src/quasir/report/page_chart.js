"use strict";

// One panel: lines with bands against the acceptance rate. As in the paper, the rate falls from 1
// on the left, so that a larger beta is further right. No library: the page needs no network.

const SVG_NS = "http://www.w3.org/2000/svg";
const SUPERSCRIPTS = Object.fromEntries([..."-0123456789"].map((sign, k) => [sign, "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"[k]]));
const EDGE = { left: 46, right: 14, top: 14, bottom: 38 };

function shape(parent, name, attributes, text) {
  const node = document.createElementNS(SVG_NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return parent.appendChild(node);
}

// Returns the runs of consecutive indices for which a test holds.
function runs(length, holds) {
  const out = [];
  for (let i = 0; i < length; i++) {
    if (!holds(i)) continue;
    if (i > 0 && holds(i - 1)) out[out.length - 1].push(i);
    else out.push([i]);
  }
  return out;
}

function path(points) {
  return "M" + points.map(([x, y]) => `${x.toFixed(2)} ${y.toFixed(2)}`).join("L");
}

// Returns about `wanted` round numbers between two ends.
function linearTicks(low, high, wanted) {
  const raw = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= raw * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) {
    ticks.push(Number((k * step).toPrecision(12)));
  }
  return ticks;
}

function rateTicks(low, room) {
  const decades = -Math.log10(low);
  const mantissas = decades < 1.5 ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil(decades / room));
  const ticks = [];
  for (let k = 0; 10 ** -k >= low * 0.1; k += mantissas.length > 1 ? 1 : every) {
    for (const m of mantissas) {
      const rate = m * 10 ** -k;
      if (rate <= 1 && rate >= low * 0.999) ticks.push(rate);
    }
  }
  return ticks;
}

function tickText(x) {
  const size = Math.abs(x);
  if (size === 0 || (size >= 1e-3 && size < 1e5)) return String(Number(x.toPrecision(6)));
  const [mantissa, exponent] = x.toExponential().split("e");
  const raised = String(Number(exponent)).replace(/./g, (sign) => SUPERSCRIPTS[sign]);
  return (mantissa === "1" ? "" : mantissa + "·") + "10" + raised;
}

// Returns the ends of the vertical axis, round numbers; very wide intervals are cut off.
function valueRange(panel) {
  const every = (key) => panel.lines.flatMap((line) => line[key]).filter((v) => v !== null);
  const values = every("value").length ? every("value") : [0, ...every("high")];
  const least = Math.min(...values), most = Math.max(...values);
  const slack = (most - least) / 2 || Math.abs(most) / 10 || 1;
  const low = panel.range[0] ?? Math.min(least, ...every("low").map((v) => Math.max(v, least - slack)));
  const high = panel.range[1] ?? Math.max(most, ...every("high").map((v) => Math.min(v, most + slack)));
  if (panel.range[1] !== null) return [low, high];
  const ticks = linearTicks(low, high === low ? low + slack : high, 4);
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : slack;
  const first = Math.floor(low / step), last = Math.max(Math.ceil(high / step), first + 1);
  return [panel.range[0] ?? first * step, last * step];
}

function makeChart(svg, panel, rates, chosenRate, pick) {
  const known = [...rates, chosenRate].filter((rate) => rate !== null);
  const lowest = Math.min(0.5, 0.9 * Math.min(...known));
  const [bottom, top] = valueRange(panel);
  let width = 0, height = 0, marks = null;

  const x = (rate) => EDGE.left + (Math.log(rate) / Math.log(lowest)) * (width - EDGE.left - EDGE.right);
  const y = (v) => EDGE.top + ((top - v) / (top - bottom)) * (height - EDGE.top - EDGE.bottom);
  const inside = (v) => Math.min(Math.max(v, bottom), top);

  function axes() {
    for (const v of linearTicks(bottom, top, 4)) {
      shape(svg, "line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(v), y2: y(v) });
      shape(svg, "text", { x: EDGE.left - 8, y: y(v) + 4, "text-anchor": "end" }, tickText(v));
    }
    const base = height - EDGE.bottom;
    shape(svg, "line", { class: "axis", x1: EDGE.left, x2: width - EDGE.right, y1: base, y2: base });
    for (const rate of rateTicks(lowest, width / 60)) {
      shape(svg, "line", { class: "axis", x1: x(rate), x2: x(rate), y1: base, y2: base + 4 });
      shape(svg, "text", { x: x(rate), y: base + 17, "text-anchor": "middle" }, tickText(rate));
    }
    shape(svg, "text", { x: width - EDGE.right, y: height - 4, "text-anchor": "end" }, "acceptance rate →");
  }

  function drawLine(line) {
    const hue = `hue-${line.colour}`;
    const banded = (i) => rates[i] !== null && line.low[i] !== null;
    for (const run of runs(rates.length, banded)) {
      const high = run.map((i) => [x(rates[i]), y(inside(line.high[i] ?? top))]);
      const low = run.map((i) => [x(rates[i]), y(inside(line.low[i]))]).reverse();
      if (run.length > 1) shape(svg, "path", { class: `band ${hue}`, d: path([...high, ...low]) + "Z" });
      else shape(svg, "path", { class: `line ${hue}`, d: path([...high, ...low]) });
    }
    const drawn = (i) => rates[i] !== null && line.value[i] !== null;
    for (const run of runs(rates.length, drawn)) {
      const points = run.map((i) => [x(rates[i]), y(inside(line.value[i]))]);
      const look = line.dashed ? "line dashed" : "line";
      if (run.length > 1) shape(svg, "path", { class: `${look} ${hue}`, d: path(points) });
    }
  }

  // Draws the points of the proposals before any rejection, each with its interval.
  function drawStarts() {
    // q is drawn last and smaller, so that both are visible where they coincide.
    const starts = panel.points.filter((p) => p.rate > 0 && (p.value ?? p.high) !== null).reverse();
    const places = starts.map((p) => [x(p.rate), y(inside(p.value ?? p.high))]);
    starts.forEach((p, k) => {
      const [px, py] = places[k];
      const group = shape(svg, "g", { "data-start": p.name });
      if (p.low !== null && p.high !== null) {
        const ends = [p.low, p.high].map((v) => [px, y(inside(v))]);
        shape(group, "path", { class: "bar-95", d: path(ends) });
      }
      if (p.value === null) shape(group, "path", { class: "start open", d: `M${px - 6} ${py - 5}h12l-6 10z` });
      else if (p.name === "q") shape(group, "circle", { class: "start", cx: px, cy: py, r: 3.5 });
      else shape(group, "rect", { class: "start open", x: px - 5.5, y: py - 5.5, width: 11, height: 11 });
    });
    const label = (text, [px, py], projected) => {
      const [aside, anchor] = px > width - EDGE.right - 60 ? [-10, "end"] : [10, "start"];
      const above = Math.max(EDGE.top + 6, py - 9);
      const node = shape(svg, "text", { class: "label", x: px + aside, y: above, "text-anchor": anchor }, text);
      if (projected) shape(node, "tspan", { dy: 3, "font-size": "9px" }, "proj");
    };
    const [one, other] = places;
    const together = other && Math.hypot(one[0] - other[0], one[1] - other[1]) < 24;
    if (together) label("q, q", places[0], true);
    else starts.forEach((p, k) => label("q", places[k], p.name !== "q"));
  }

  function draw() {
    const box = svg.getBoundingClientRect();
    if (!box.width || (box.width === width && box.height === height)) return false;
    width = box.width; height = box.height;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    axes();
    if (chosenRate !== null && rates.length > 1) {
      const at = x(chosenRate);
      shape(svg, "line", { class: "chosen", x1: at, x2: at, y1: EDGE.top, y2: height - EDGE.bottom });
    }
    panel.lines.forEach(drawLine);
    drawStarts();
    marks = shape(svg, "g", { class: "marks" });
    return true;
  }

  function mark(i) {
    const said = panel.lines.map((line) => `${line.name}: ${line.main[i]} ${line.rest[i]}`.trim());
    svg.setAttribute("aria-label", `${panel.title}, against the acceptance rate. ${said.join("; ")}`);
    if (!marks) return;
    marks.replaceChildren();
    if (rates[i] === null) return;
    const px = x(rates[i]);
    if (rates.length > 1) {
      shape(marks, "line", { class: "here", x1: px, x2: px, y1: EDGE.top, y2: height - EDGE.bottom });
    }
    for (const line of panel.lines) {
      const hue = `hue-${line.colour}`;
      if (line.value[i] !== null) {
        shape(marks, "circle", { class: `dot ${hue}`, cx: px, cy: y(inside(line.value[i])), r: 5 });
      } else if (line.high[i] !== null) {
        const py = y(inside(line.high[i]));
        shape(marks, "path", { class: `dot open ${hue}`, d: `M${px - 6} ${py - 5}h12l-6 10z` });
      }
    }
  }

  function nearest(event) {
    const wanted = event.clientX - svg.getBoundingClientRect().left;
    let best = 0, least = Infinity;
    rates.forEach((rate, i) => {
      const away = rate === null ? Infinity : Math.abs(x(rate) - wanted);
      if (away < least) { best = i; least = away; }
    });
    return best;
  }
  svg.addEventListener("pointerdown", (event) => { if (event.button === 0) pick(nearest(event)); });
  svg.addEventListener("pointermove", (event) => { if (event.buttons & 1) pick(nearest(event)); });
  return { draw, mark };
}
