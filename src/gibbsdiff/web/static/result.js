"use strict";
// The view of a result: slider, uncertainty, noise, verdict. The page and the HTML report share it.

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

// Two pictures of one size under one divider. Drag the divider or use its arrow keys; drag the
// picture, the wheel, or arrow keys, + - and 0 on it, to move and zoom.
function mountSlider(place, { before, after, overlay, size }) {
  const image = (side, label) =>
    make("img", { src: side, alt: label, class: "side", draggable: "false" });
  const lower = image(before.src, before.label);
  const upper = image(after.src, after.label);
  const layers = [lower, upper];
  const cover = overlay ? image(overlay.src, "uncertainty") : null;
  if (cover) {
    cover.classList.add("cover");
    cover.style.opacity = "0";
    layers.push(cover);
  }
  const handle = make("div", {
    class: "divider", role: "slider", tabindex: "0", "aria-orientation": "horizontal",
    "aria-label": `Divider: ${before.label} to the left, ${after.label} to the right`,
    "aria-valuemin": "0", "aria-valuemax": "100",
  });
  const names = [make("span", { class: "name left", text: before.label }),
    make("span", { class: "name right", text: after.label })];
  const stage = make("div", {
    class: "stage", tabindex: "0", role: "group",
    "aria-label": "Picture: drag or arrow keys move it, plus and minus zoom, 0 fits it",
  }, ...layers, handle, ...names);
  const state = { split: 50, zoom: 1, x: 0, y: 0 };  // x, y: the stage's corner in the picture, 0 to 1

  // The stage has the picture's shape at zoom 1, so that shares of the stage are shares of the picture.
  stage.style.aspectRatio = `${size[0]} / ${size[1]}`;
  stage.style.maxWidth = `calc(80vh * ${size[0] / size[1]})`;

  function draw() {
    const most = 1 - 1 / state.zoom;
    state.x = Math.min(Math.max(state.x, 0), most);
    state.y = Math.min(Math.max(state.y, 0), most);
    state.split = Math.min(Math.max(state.split, 0), 100);
    for (const layer of layers) {
      layer.style.width = `${100 * state.zoom}%`;
      layer.style.height = `${100 * state.zoom}%`;
      layer.style.left = `${-100 * state.zoom * state.x}%`;
      layer.style.top = `${-100 * state.zoom * state.y}%`;
      const pixels = stage.clientWidth * state.zoom / size[0];
      layer.style.imageRendering = pixels >= 2 ? "pixelated" : "auto";
    }
    // The divider stands on the stage: where it cuts the picture depends on zoom and place.
    const cut = 100 * (state.x + state.split / 100 / state.zoom);
    upper.style.clipPath = `inset(0 0 0 ${cut}%)`;
    handle.style.left = `${state.split}%`;
    handle.setAttribute("aria-valuenow", Math.round(state.split));
    stage.dataset.zoom = state.zoom.toFixed(2);
  }

  function zoomBy(factor, u = 0.5, v = 0.5) {
    const zoom = Math.min(Math.max(state.zoom * factor, 1), 64);
    state.x += u / state.zoom - u / zoom;
    state.y += v / state.zoom - v / zoom;
    state.zoom = zoom;
    draw();
  }
  function fit() { Object.assign(state, { zoom: 1, x: 0, y: 0 }); draw(); }
  function actual() { zoomBy(size[0] / (stage.clientWidth * state.zoom)); }

  function share(event) {
    const box = stage.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }
  const held = new Map();
  let last = null;
  stage.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    held.set(event.pointerId, share(event));
    last = event.target === handle ? "divider" : "picture";
    stage.setPointerCapture(event.pointerId);
    (event.target === handle ? handle : stage).focus({ preventScroll: true });
    event.preventDefault();
  });
  stage.addEventListener("pointermove", (event) => {
    if (!held.has(event.pointerId)) return;
    const [u, v] = share(event), [u0, v0] = held.get(event.pointerId);
    if (held.size === 2) {  // two fingers zoom
      const [other] = [...held].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const before0 = Math.hypot(u0 - other[0], v0 - other[1]);
      zoomBy(Math.hypot(u - other[0], v - other[1]) / Math.max(before0, 0.01), other[0], other[1]);
    } else if (last === "divider") {
      state.split = 100 * u;
    } else {
      state.x -= (u - u0) / state.zoom;
      state.y -= (v - v0) / state.zoom;
    }
    held.set(event.pointerId, [u, v]);
    draw();
  });
  for (const end of ["pointerup", "pointercancel"])
    stage.addEventListener(end, (event) => held.delete(event.pointerId));
  stage.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== stage && state.zoom === 1) return;  // scrolling
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY / 400), ...share(event));
  }, { passive: false });
  handle.addEventListener("keydown", (event) => {
    const step = event.shiftKey ? 10 : 2;
    const to = { ArrowLeft: state.split - step, ArrowRight: state.split + step, Home: 0, End: 100 };
    if (!(event.key in to)) return;
    state.split = to[event.key];
    event.preventDefault();
    event.stopPropagation();
    draw();
  });
  stage.addEventListener("keydown", (event) => {
    const step = 0.1 / state.zoom;
    const keys = {
      ArrowLeft: () => { state.x -= step; }, ArrowRight: () => { state.x += step; },
      ArrowUp: () => { state.y -= step; }, ArrowDown: () => { state.y += step; },
      "+": () => zoomBy(1.5), "=": () => zoomBy(1.5), "-": () => zoomBy(1 / 1.5), 0: fit,
    };
    if (!(event.key in keys)) return;
    keys[event.key]();
    event.preventDefault();
    draw();
  });

  const tools = make("div", { class: "tools" },
    make("button", { type: "button", text: "−", "aria-label": "Zoom out", onclick: () => zoomBy(1 / 1.5) }),
    make("button", { type: "button", text: "+", "aria-label": "Zoom in", onclick: () => zoomBy(1.5) }),
    make("button", { type: "button", text: "fit", "aria-label": "Show the whole picture", onclick: fit }),
    make("button", { type: "button", text: "1:1", "aria-label": "One pixel of the picture for one of the screen", onclick: actual }));
  if (cover) {
    const range = make("input", { type: "range", min: "0", max: "100", value: "0", class: "opacity" });
    range.addEventListener("input", () => { cover.style.opacity = range.value / 100; });
    tools.append(make("label", { class: "over" }, "uncertainty ", range,
      make("span", { class: "scale", text: ` 0 to ${overlay.high} (sd of a pixel)` })));
  }
  place.append(make("div", { class: "compare" }, stage, tools));
  new ResizeObserver(draw).observe(stage);
  draw();
}

const sentence = (text) => text[0].toUpperCase() + text.slice(1).replace(/[.]?$/, ".");

// `facts` are those of gibbsdiff.web.views; files are found in facts.inside or at facts.base.
function showResult(place, facts) {
  const src = (file) => facts.inside ? facts.inside[file] : facts.base + encodeURIComponent(file);
  mountSlider(place, {
    before: { src: src(facts.before.file), label: facts.before.name },
    after: { src: src(facts.after.file), label: facts.after.name },
    overlay: facts.overlay && { src: src(facts.overlay.file), high: facts.overlay.high },
    size: facts.size,
  });
  const shape = `${facts.size[0]} × ${facts.size[1]} pixels` +
    (facts.block > 1 ? `, shown as means over ${facts.block} × ${facts.block}` : "");
  place.append(make("p", { class: "shape", text: shape }));
  if (facts.verdict) {
    const kind = facts.fits === false || !facts.good ? "bad" : facts.fits === null ? "open" : "good";
    place.append(make("p", { class: `verdict ${kind}`, text: `${sentence(facts.outcome)} ${sentence(facts.verdict)}` }));
  }
  if (facts.words && facts.words.length)
    place.append(make("ul", { class: "words" }, ...facts.words.map((line) => make("li", { text: line }))));
  for (const table of facts.tables || []) place.append(make("pre", { class: "table", text: table }));
  for (const [file, label] of [[facts.spectrum, "Spectrum of the noise by channel"], [facts.figure, "Figure"]])
    if (file) place.append(make("img", { class: "figure", src: src(file), alt: label }));
  if (facts.summary)
    place.append(make("details", {}, make("summary", { text: "all numbers" }),
      make("pre", { text: facts.summary })));
}
