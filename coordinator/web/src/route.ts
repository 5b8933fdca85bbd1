// The part of the address behind '#': "#/plans/7?rank=2" is the path
// ["plans", "7"] with the parameter rank.

export interface Route {
  path: string[];
  params: URLSearchParams;
}

export function parse(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  return {
    path: path.split('/').filter(Boolean).map(decoded),
    params: new URLSearchParams(query),
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function link(path: string[], params: Record<string, string> = {}): string {
  const query = new URLSearchParams(
    Object.entries(params).filter(([, value]) => value !== ''),
  ).toString();
  return `#/${path.map(encodeURIComponent).join('/')}${query ? `?${query}` : ''}`;
}

// Changes the parameters of the present address without a step in the history,
// and without showing the view anew.
export function keepParams(changes: Record<string, string>): void {
  const { path, params } = parse(location.hash);
  for (const [name, value] of Object.entries(changes)) {
    if (value === '') params.delete(name);
    else params.set(name, value);
  }
  history.replaceState(null, '', link(path, Object.fromEntries(params)));
}
