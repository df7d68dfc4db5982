// How far a run is: rows asked, rows to go, and the widest interval as it shrinks.
const { el } = credex;
const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, PAD] = [260, 46, 4];

const round = (x) => String(+x.toPrecision(x < 1 ? 2 : 3)).replace("-", "−");
const count = (n) => n.toLocaleString("en-US");

function node(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** A line of the widest interval over model rows. */
function chart(trace) {
  const drawn = node("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true", class: "trace" });
  const first = trace[0][0];
  const span = trace[trace.length - 1][0] - first || 1;
  const peak = Math.max(...trace.map(([, width]) => width)) || 1;
  const x = (rows) => PAD + ((WIDTH - 2 * PAD) * (rows - first)) / span;
  const y = (width) => HEIGHT - PAD - ((HEIGHT - 2 * PAD) * width) / peak;
  drawn.append(node("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT - PAD, y2: HEIGHT - PAD }));
  const points = trace.map(([rows, width]) => `${x(rows).toFixed(1)},${y(width).toFixed(1)}`);
  drawn.append(node("polyline", { points: points.join(" ") }));
  for (const [rows, width] of trace) drawn.append(node("circle", { cx: x(rows).toFixed(1), cy: y(width).toFixed(1), r: 2.2 }));
  return drawn;
}

export function progressView(host) {
  const words = el("p", { class: "words", role: "status" });
  const bar = el("progress", { "aria-label": "Model rows asked" });
  const drawing = el("figure", { class: "shrinking" });
  host.append(el("div", { class: "state" }, words, bar), drawing);

  return {
    show(p) {
      const asked = `${count(p.rows)} model row${p.rows === 1 ? "" : "s"}`;
      const goes = p.rows_to_go ? `, about ${count(p.rows_to_go)} to go` : "";
      const why = p.message ? `: ${p.message}` : "";
      words.textContent = {
        starting: "Starting",
        waiting: "Waiting: other explanations are running",
        running: `Asking the model: ${asked}${goes}`,
        done: p.exact ? `Exact after ${asked}` : p.converged ? `Certain enough after ${asked}` : `Ended after ${asked}: the limit was reached before the goal`,
        stopped: `Stopped after ${asked}${why}`,
        failed: `Failed after ${asked}`,
      }[p.status];
      bar.hidden = p.ended;
      if (p.rows_to_go) {
        bar.max = p.rows + p.rows_to_go;
        bar.value = p.rows;
      } else bar.removeAttribute("value");
      host.dataset.status = p.status;
      drawing.hidden = p.trace.length === 0 || (p.ended && p.exact);
      if (p.trace.length) {
        const last = p.trace[p.trace.length - 1][1];
        const first = p.trace[0][1];
        const said = p.trace.length > 1 ? `Widest interval ${round(first)} → ${round(last)}` : `Widest interval ${round(last)}`;
        const line = p.trace.length > 1 ? [chart(p.trace)] : [];
        drawing.replaceChildren(...line, el("figcaption", { class: "small" }, said));
      }
    },
  };
}
