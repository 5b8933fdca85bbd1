// How programs reach this coordinator, for the commands that the page tells.

let port = 7460;

// `grpc` as the coordinator's status has it; 0: it does not tell.
export function learnPort(grpc: number): void {
  port = grpc || port;
}

// `who` names the certificate's files: "agent", for example.
export function coordinator(who: string): string {
  const files = `--ca ca.crt --cert ${who}.crt --key ${who}.key`;
  return (
    `--coordinator ${location.hostname}:${port}` +
    (location.protocol === 'https:' ? ` ${files}` : '')
  );
}
