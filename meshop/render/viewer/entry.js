// What page.js uses of vtk.js; update.mjs bundles it into vtk.js.
import '@kitware/vtk.js/Rendering/OpenGL/Actor';
import '@kitware/vtk.js/Rendering/OpenGL/Camera';
import '@kitware/vtk.js/Rendering/OpenGL/PolyDataMapper';
import '@kitware/vtk.js/Rendering/OpenGL/Renderer';
import '@kitware/vtk.js/Rendering/OpenGL/Texture';

export { default as Actor } from '@kitware/vtk.js/Rendering/Core/Actor';
export { default as DataArray } from '@kitware/vtk.js/Common/Core/DataArray';
export { default as Interactor } from '@kitware/vtk.js/Rendering/Core/RenderWindowInteractor';
export { default as LookupTable } from '@kitware/vtk.js/Common/Core/LookupTable';
export { default as Mapper } from '@kitware/vtk.js/Rendering/Core/Mapper';
export { default as OpenGLWindow } from '@kitware/vtk.js/Rendering/OpenGL/RenderWindow';
export { default as PolyData } from '@kitware/vtk.js/Common/DataModel/PolyData';
export { default as Renderer } from '@kitware/vtk.js/Rendering/Core/Renderer';
export { default as RenderWindow } from '@kitware/vtk.js/Rendering/Core/RenderWindow';
export { default as Trackball } from '@kitware/vtk.js/Interaction/Style/InteractorStyleTrackballCamera';
