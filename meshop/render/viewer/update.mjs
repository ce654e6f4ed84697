// Makes vtk.js anew. To update it, change the version in package.json and run, in a copy of this folder,
//
//     npm install && node update.mjs
//
// then bring vtk.js and package-lock.json back and run tests/render with a chromium on the PATH. The licences of all
// that is bundled stand at the head of the file, and so in every page.
import { build } from 'esbuild';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';

const result = await build({
  entryPoints: ['entry.js'],
  bundle: true,
  minify: true,
  format: 'iife',
  globalName: 'vtk',
  legalComments: 'none',
  charset: 'ascii',
  metafile: true,
  write: false,
  outfile: 'vtk.js',
});

const [bundle] = Object.values(result.metafile.outputs);
const packages = new Set();
for (const [file, { bytesInOutput }] of Object.entries(bundle.inputs)) {
  const found = bytesInOutput && file.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//);
  if (found) packages.add(found[1]);
}

const licences = [...packages].sort().map((name) => {
  const folder = `node_modules/${name}`;
  const about = JSON.parse(readFileSync(`${folder}/package.json`));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file
    ? readFileSync(`${folder}/${file}`, 'utf8')
    : readFileSync(`${folder}/README.md`, 'utf8').split(/^LICENSE.*\n-+\n/m)[1]; // seedrandom
  if (!text) throw new Error(`${name} has no licence text`);
  return `${name} ${about.version} (${about.license})\n\n${text.trim()}\n`;
});

const code = result.outputFiles[0].text.trim();
if (/<\/script/i.test(code)) throw new Error('the bundle would end the script element that holds it');
const head = `Parts of vtk.js and of what it needs, bundled by update.mjs.\n\n${licences.join('\n----\n\n')}`;
if (head.includes('*/') || /<\/script/i.test(head)) throw new Error('a licence would end its comment');
writeFileSync('vtk.js', `/*!\n${head.replace(/[ \t]+$/gm, '')}*/\n${code}\n`);
