// What tests/render/test_browser.py asks a page of the report.
const unfold = () => document.querySelectorAll('details').forEach(part => part.open = true);
// What holds for a table's first rows holds for all, and axe looks at every cell.
const shorten = () => {
  for (const t of document.querySelectorAll('table')) [...t.rows].slice(8).forEach(row => row.remove());
};
const luminance = () => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const shown = (...colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(part => part / 255)
      .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const root = getComputedStyle(document.documentElement);
  const paper = getComputedStyle(document.body).backgroundColor;
  return {shown, contrast, root, paper};
};
// The least contrast of ink to the heat behind it, which axe does not judge.
const heat = () => {
  const {shown, contrast, paper} = luminance();
  return Math.min(...[...document.querySelectorAll('.source td.heat')].map(cell => getComputedStyle(cell))
    .map(style => contrast(shown(paper, style.backgroundColor), shown(paper, style.color))));
};
// The least contrast of ink to the banks' colours, and how many there are.
const banks = () => {
  const {shown, contrast, root} = luminance();
  const ink = shown(root.getPropertyValue('--ink'));
  const colours = [...Array(32).keys()].map(bank => root.getPropertyValue(`--b${bank}`));
  return [Math.min(...colours.map(colour => contrast(ink, shown(colour)))), new Set(colours).size];
};
const page = () => {
  const {shown, paper} = luminance();
  return [shown(paper), shown(getComputedStyle(document.body).color)];
};
// The least text, in pixels as shown; texts in SVGs are scaled with them. Without what only screen readers see.
const smallest = () => {
  const sizes = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const parent = walk.currentNode.parentElement;
    if (parent.closest('.sr, script') || !parent.getClientRects().length || !walk.currentNode.data.trim()) continue;
    const svg = parent.closest('svg');
    const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    sizes.push([parseFloat(getComputedStyle(parent).fontSize) * scale, parent.outerHTML.slice(0, 100)]);
  }
  return sizes.sort((a, b) => a[0] - b[0])[0];
};
