// The page that meshop.render.interactive writes: a surface, its fields, and the controls above it.
'use strict';
(() => {
  const { mesh, fields, colours, flat, edges: edgesOn } = JSON.parse(document.getElementById('data').textContent);
  const get = (id) => document.getElementById(id);
  const main = document.querySelector('main');

  function decode(text, Kind) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    return new Kind(bytes.buffer);
  }
  const indices = (text) => decode(text, mesh.wide ? Uint32Array : Uint16Array);

  // vtk.js wants the number of points before those of each cell.
  function cells(nodes, size) {
    const packed = new Uint32Array((nodes.length / size) * (size + 1));
    for (let i = 0, j = 0; i < nodes.length; i += size) {
      packed[j++] = size;
      for (let k = 0; k < size; k++) packed[j++] = nodes[i + k];
    }
    return packed;
  }

  function actor(points, parts) {
    const polydata = vtk.PolyData.newInstance();
    polydata.getPoints().setData(points, 3);
    if (parts.verts) polydata.getVerts().setData(cells(parts.verts, 1));
    if (parts.lines) polydata.getLines().setData(cells(parts.lines, 2));
    if (parts.triangles) polydata.getPolys().setData(cells(parts.triangles, 3));
    const mapper = vtk.Mapper.newInstance();
    mapper.setInputData(polydata);
    const made = vtk.Actor.newInstance();
    made.setMapper(mapper);
    renderer.addActor(made);
    return { polydata, mapper, made, property: made.getProperty() };
  }

  function strokes(points, lines) {
    const drawn = actor(points, { lines });
    drawn.mapper.setScalarVisibility(false);
    drawn.property.setColor(0.19, 0.19, 0.19);
    drawn.property.setLighting(false);
    return drawn;
  }

  const renderer = vtk.Renderer.newInstance({ background: [1, 1, 1] });
  const renderWindow = vtk.RenderWindow.newInstance();
  const view = vtk.OpenGLWindow.newInstance();
  const interactor = vtk.Interactor.newInstance();
  if (!document.createElement('canvas').getContext('webgl2')) {
    main.textContent = 'This browser cannot draw in 3-D: WebGL 2 is off.';
    return;
  }
  renderWindow.addRenderer(renderer);
  renderWindow.addView(view);
  view.setContainer(main);
  interactor.setView(view);
  interactor.initialize();
  interactor.bindEvents(main);
  interactor.setInteractorStyle(vtk.Trackball.newInstance());

  vtk.Mapper.setResolveCoincidentTopologyToPolygonOffset();
  const points = decode(mesh.points, Float32Array);
  const surface = actor(points, {
    verts: indices(mesh.verts), lines: indices(mesh.lines), triangles: indices(mesh.triangles),
  });
  surface.mapper.setInterpolateScalarsBeforeMapping(true);
  surface.mapper.setUseLookupTableScalarRange(true);
  surface.property.setLighting(!flat);
  surface.property.setAmbient(0.7);
  surface.property.setDiffuse(0.3);
  surface.property.setPointSize(6);
  surface.property.setLineWidth(3);
  strokes(decode(mesh.outline.points, Float32Array), indices(mesh.outline.lines));
  let grid = null;

  function fit() {
    const { width, height } = main.getBoundingClientRect();
    const reach = [0, 0];
    for (let i = 0; i < points.length; i += 3) {
      for (const k of [0, 1]) reach[k] = Math.max(reach[k], Math.abs(points[i + k]));
    }
    const camera = renderer.getActiveCamera();
    camera.setParallelProjection(true);
    camera.setFocalPoint(0, 0, 0);
    camera.setPosition(0, 0, 10);
    camera.setViewUp(0, 1, 0);
    camera.setParallelScale(1.05 * Math.max(reach[1], (reach[0] * height) / width) || 1);
    draw();
  }

  function draw() {
    renderer.resetCameraClippingRange();
    renderWindow.render();
  }

  function resize() {
    const { width, height } = main.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    view.setSize(Math.max(1, Math.floor(width * ratio)), Math.max(1, Math.floor(height * ratio)));
  }

  const chosen = { field: 0, view: 0 };
  const tables = new Map();

  function table(name) {
    if (!tables.has(name)) {
      const bytes = decode(colours[name], Uint8Array);
      const lookup = vtk.LookupTable.newInstance();
      lookup.setNanColor(...colours.nan.map((value) => value / 255), 1);
      lookup.setTable(Array.from({ length: bytes.length / 3 }, (_, i) => [...bytes.subarray(3 * i, 3 * i + 3)]));
      lookup.setRange(0, 1);
      tables.set(name, lookup);
    }
    return tables.get(name);
  }

  function show() {
    const field = fields[chosen.field];
    const shown = field.views[chosen.view];
    shown.array ??= vtk.DataArray.newInstance({ name: 'shown', values: decode(shown.values, Float32Array) });
    const onCells = field.location === 'cell';
    surface.polydata.getPointData().setScalars(onCells ? null : shown.array);
    surface.polydata.getCellData().setScalars(onCells ? shown.array : null);
    if (onCells) surface.mapper.setScalarModeToUseCellData();
    else surface.mapper.setScalarModeToUsePointData();
    surface.mapper.setLookupTable(table(shown.colours));
    surface.polydata.modified();

    const bytes = decode(colours[shown.colours], Uint8Array);
    const stops = Array.from({ length: bytes.length / 3 }, (_, i) => `rgb(${bytes.subarray(3 * i, 3 * i + 3)})`);
    get('colours').style.background = `linear-gradient(to right, ${stops})`;
    get('ticks').replaceChildren(...shown.ticks.map(([place, text]) => {
      const tick = document.createElement('span');
      tick.style.left = `${100 * place}%`;
      tick.append(Object.assign(document.createElement('b'), { textContent: text }));
      return tick;
    }));
    get('label').textContent = shown.label;
    get('extremes').textContent = shown.extremes;
    get('gaps').hidden = !shown.gaps;
    get('gaps').style.color = `rgb(${colours.nan})`;
    get('views').hidden = field.views.length === 1;
    get('views').replaceChildren(...field.views.map((other, i) => {
      const button = Object.assign(document.createElement('button'), { textContent: other.name });
      button.setAttribute('aria-pressed', i === chosen.view);
      button.onclick = () => { chosen.view = i; show(); };
      return button;
    }));
    draw();
  }

  fields.forEach((field, i) => get('field').add(new Option(field.name, i)));
  get('field').onchange = () => {
    chosen.field = Number(get('field').value);
    chosen.view = Math.min(chosen.view, fields[chosen.field].views.length - 1);
    show();
  };
  get('edges').onchange = () => {
    if (grid === null) {
      grid = strokes(points, indices(mesh.edges));
      grid.property.setOpacity(0.3);
    }
    grid.made.setVisibility(get('edges').checked);
    draw();
  };
  get('reset').onclick = fit;
  window.addEventListener('resize', () => { resize(); draw(); });

  show();
  resize();
  fit();
  get('edges').checked = edgesOn;
  if (edgesOn) get('edges').onchange();
})();
