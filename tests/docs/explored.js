// A case's answer from the explorer's own functions, in the form of tests/support/explorer.py.
function explored(asked) {
  let found;
  try {
    found = explore(asked);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return { refused: true };
  }
  const { maps, request } = found;
  return {
    refused: false,
    request,
    maps: maps.map((map) => {
      const addresses = map.addresses[request];
      const phases = phasesOf(map.op).map((phase) => phase.filter((lane) => addresses[lane] !== null));
      const active = phases.filter((phase) => phase.length);
      return {
        banks: map.banks,
        ways: map.ways,
        actual: map.counts.map((count) => count.actual),
        ideal: map.counts.map((count) => count.ideal),
        known: map.counts.map((count) => count.known),
        words: active.map((phase) => wanted(map.op, addresses, phase).map((words) => words.length)),
        lanes: active,
        cells: active.map((phase) => phase.map((lane) => map.cell(request, lane))),
        bijection: map.mapping.collision() === null,
        code: map.mapping.transform.code("offset"),
      };
    }),
  };
}
