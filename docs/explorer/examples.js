// Starting points: the tiles of the four articles, and what goes wrong on the way.
"use strict";

const DEFAULT = { layout: "(64,64):(64,1)", element: 2, swizzle: "3,3,3", pad: 0, access: "ldmatrix", write: false, threads: 32 };
const EXAMPLES = {
  "ldmatrix from rows of 128 bytes: 8-way, then an XOR": {},
  "a transpose: columns of 32 floats, XOR": { layout: "(32,32):(32,1)", element: 4, swizzle: "5,0,5", access: "column" },
  "a transpose, padded by one": { layout: "(32,32):(32,1)", element: 4, swizzle: "", pad: 1, access: "column" },
  "CuTe's 8x8 column-major tile and Swizzle<3,2,3>": { layout: "(8,8):(1,8)", element: 4, swizzle: "3,2,3", access: "row" },
  "TMA's 128-byte swizzle": { layout: "(8,64):(64,1)", element: 2, swizzle: "128B", access: "ldmatrix" },
  "accumulators of mma into a tile of halves": { swizzle: "3,3,3", access: "mma", write: true },
  "a swizzle with one bit too few: 2-way": { swizzle: "2,4,3" },
  "bits 2 and 3 of the row on an 8x8 patch: still 4-way": { layout: "(8,64):(64,1)", swizzle: "2,3,5" },
  "a rotation splits what cp.async writes": { swizzle: "add:3,3,3", access: "cp.async" },
  "AND instead of XOR loses elements": { layout: "(8,8):(8,1)", element: 4, swizzle: "and:3,0,3", access: "column" },
  "a histogram of one bin: atomics": { layout: "(1,64):(64,1)", element: 4, swizzle: "", access: "atom.shared.add.u32@0,lane/8" },
  "16 bytes per lane, one row apart": { layout: "(32,32):(32,1)", element: 4, swizzle: "3,2,3", access: "ld.shared.v4.b32@lane,0" },
};
