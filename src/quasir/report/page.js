(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const slider = byId("beta"), back = byId("back"), summary = byId("summary");
  const fallen = byId("fallen"), list = byId("texts"), count = byId("texts-count");
  const warningsHere = byId("warnings-here");
  const whole = new Intl.NumberFormat("en");
  const last = data.log_beta.length - 1;

  function make(name, className, text) {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }

  const charts = data.panels.map((panel, k) => {
    const figure = byId(`panel-${k}`);
    const svg = figure.querySelector("svg.chart");
    const chart = makeChart(svg, panel, data.rate, data.chosen_rate, move);
    const rows = [...figure.querySelectorAll(".legend li")];
    function say(i) {
      panel.lines.forEach((line, j) => {
        rows[j].querySelector(".main").textContent = line.main[i];
        rows[j].querySelector(".rest").textContent = line.rest[i];
      });
    }
    return { ...chart, say, svg };
  });

  // Text is added only as text nodes; a line break is shown by a sign that is not part of the text.
  function write(parent, text) {
    text.split(/\r\n|\r|\n/).forEach((line, k) => {
      if (k > 0) parent.append(make("span", "newline"), "\n");
      parent.append(line);
    });
  }

  function writePieces(paragraph, pieces) {
    for (const piece of pieces) {
      if (typeof piece === "string") { write(paragraph, piece); continue; }
      const [text, ...fired] = piece;
      let inner = paragraph;
      for (const j of fired) {
        const mark = make("mark", `hue-${data.features[j].colour}`);
        mark.title = fired.map((f) => data.features[f].name).join(", ");
        inner = inner.appendChild(mark);
      }
      write(inner, text);
    }
  }

  const lengthOf = (pieces) => pieces.reduce((sum, piece) => sum + [...(typeof piece === "string" ? piece : piece[0])].length, 0);

  function textNodes(entry) {
    const paragraph = make("p", "text");
    paragraph.dir = "auto";
    writePieces(paragraph, entry.pieces);
    if (!entry.pieces.length) paragraph.append(make("span", "nothing", "(an empty text)"));
    const nodes = [paragraph];
    let end = paragraph;
    if (entry.rest.length) {
      paragraph.append(make("span", "nothing", " …"));
      const folded = make("details", "folded");
      folded.append(make("summary", "", `${whole.format(lengthOf(entry.rest))} more characters`));
      end = make("p", "text");
      end.dir = "auto";
      writePieces(end, entry.rest);
      folded.append(end);
      nodes.push(folded);
    }
    if (entry.more) {
      end.append(make("span", "nothing", ` … ${whole.format(entry.more)} more characters, not kept on this page`));
    }
    return nodes;
  }

  // The nodes of all texts are made once; moving beta only shows and hides them.
  const items = list ? data.texts.map((entry) => {
    const item = make("li");
    item.dataset.draw = entry.draw;
    const meta = make("div", "meta");
    const fate = make("span", "fate");
    meta.append(make("span", "number", `draw ${entry.draw}`), fate);
    item.append(meta, ...textNodes(entry));
    list.append(item);
    return { item, fate, entry };
  }) : [];

  function showTexts(i) {
    let shown = 0;
    for (const { item, fate, entry } of items) {
      const accepted = entry.log_alpha > data.log_beta[i];
      const state = !accepted ? "fallen" : shown < data.shown ? "survives" : "later";
      if (state === "survives") shown++;
      item.dataset.state = state;
      item.hidden = state === "later" || (state === "fallen" && !fallen?.checked);
      fate.textContent = accepted ? `accepted up to β = ${entry.until}` : `rejected from β = ${entry.until}`;
    }
    document.body.dataset.shown = shown;
    if (!count) return;
    const all = data.survivors[i];
    const which = all <= shown ? `All ${all}` : `The first ${shown} of ${whole.format(all)}`;
    count.textContent = all === 0
      ? `No draw of the ${whole.format(data.draws)} survives at this β.`
      : `${which} surviving draws, in the order drawn. They are i.i.d. samples at a β that these draws did not choose.`;
  }

  function showWarnings(i) {
    const warnings = data.warnings_at[i].map((k) => make("li", "", data.warnings[k]));
    const many = warnings.length === 1 ? "One warning" : `${warnings.length} warnings`;
    warningsHere.hidden = !warnings.length;
    warningsHere.querySelector("summary").textContent = `${many} at this β`;
    warningsHere.querySelector("ul").replaceChildren(...warnings);
  }

  function showSummary(i) {
    const tvd = data.panels.length ? data.panels[0].lines[0] : null;
    const parts = [make("b", "", data.accepted[i]), " accepted"];
    if (tvd) parts.push(" · TVD ", make("b", "", tvd.main[i]), tvd.rest[i] && ` (${tvd.rest[i]})`);
    const survivors = make("b", "", whole.format(data.survivors[i]));
    summary.replaceChildren(...parts, " · ", survivors, ` of ${whole.format(data.draws)} draws survive`);
  }

  let here = data.chosen;
  function show(i) {
    here = i;
    byId("beta-text").textContent = data.beta[i];
    slider.setAttribute("aria-valuetext", `β = ${data.beta[i]}, ${data.accepted[i]} accepted`);
    back.hidden = i === data.chosen;
    for (const chart of charts) { chart.mark(i); chart.say(i); }
    showSummary(i);
    showWarnings(i);
    showTexts(i);
    // For programs that read the page.
    Object.assign(document.body.dataset, {
      index: i, beta: data.beta[i], logBeta: data.log_beta[i], survivors: data.survivors[i],
    });
  }

  function move(i) {
    if (slider.disabled) return;
    slider.value = i;
    if (i !== here) show(i);
  }

  slider.value = data.chosen;
  slider.addEventListener("input", () => show(Number(slider.value)));
  back.addEventListener("click", () => { move(data.chosen); slider.focus(); });
  if (fallen) fallen.addEventListener("change", () => showTexts(here));
  byId("chosen-tick").style.setProperty("--at", last ? data.chosen / last : 0.5);
  const redraw = () => { for (const chart of charts) if (chart.draw()) chart.mark(here); };
  new ResizeObserver(redraw).observe(document.body);
  redraw();
  show(data.chosen);
})();
