import { type EmbedRequest, type Vector, VectorForm } from '../../gen/tollgate/v1/embedding_pb.ts';
import { UpstreamFailure } from '../upstream.ts';

/** How many bytes a number of a `float32` vector has. */
const floatBytes = 4;

/** Returns a vector of numbers. */
export function toVector(numbers: number[]): Vector {
  return { $typeName: 'tollgate.v1.Vector', numbers, float32: new Uint8Array() };
}

/** Returns a vector of little-endian 32-bit floats. */
export function readVector(float32: Uint8Array): Vector {
  return { $typeName: 'tollgate.v1.Vector', numbers: [], float32 };
}

/** Returns how many numbers a vector has. */
export function countNumbers({ numbers, float32 }: Vector): number {
  return numbers.length > 0 ? numbers.length : float32.length / floatBytes;
}

/** Returns a vector in the requested form. A vector that already has the form is returned unchanged, so that no bit changes. */
export function inForm(vector: Vector, form: VectorForm): Vector {
  const { numbers, float32 } = vector;
  const wantsFloats = form === VectorForm.FLOAT32;
  if (wantsFloats === float32.length > 0) return vector;
  if (!wantsFloats) return toVector(readFloats(float32));
  const floats = new DataView(new ArrayBuffer(numbers.length * floatBytes));
  for (const [index, number] of numbers.entries()) floats.setFloat32(index * floatBytes, number, true);
  return readVector(new Uint8Array(floats.buffer));
}

/**
 * Checks that an upstream's answer has a vector for each input, that all have one length, and that all numbers are finite. Throws `UpstreamFailure`: `malformed`, or, if only the length is another one than requested, an error about the request.
 */
export function checkVectors(
  vectors: readonly Vector[],
  { inputs, dimensions }: Pick<EmbedRequest, 'inputs' | 'dimensions'>,
): void {
  if (vectors.length !== inputs.length) throw malformed(`${vectors.length} vectors for ${inputs.length} inputs`);
  const [first] = vectors;
  const length = first === undefined ? 0 : countNumbers(first);
  for (const [index, vector] of vectors.entries()) {
    const own = countNumbers(vector);
    if (own === 0 || own !== length) throw malformed(`vector ${index} with ${own} numbers, not ${length}`);
    // Numbers must be finite as 32-bit floats too, which is how many clients read them.
    const numbers = vector.numbers.length > 0 ? vector.numbers : readFloats(vector.float32);
    if (!numbers.every(number => Number.isFinite(Math.fround(number)))) {
      throw malformed(`a number in vector ${index} that is not finite`);
    }
  }
  if (dimensions === undefined || dimensions === length) return;
  const message = `The model’s vectors have ${length} dimensions, not ${dimensions}: its provider ignores the field.`;
  throw new UpstreamFailure('reported', { status: 400, meaning: 'request', param: 'dimensions', message });
}

function readFloats(float32: Uint8Array): number[] {
  const view = new DataView(float32.buffer, float32.byteOffset, float32.byteLength);
  const count = Math.floor(float32.length / floatBytes);
  return Array.from({ length: count }, (_, index) => view.getFloat32(index * floatBytes, true));
}

function malformed(what: string): UpstreamFailure {
  return new UpstreamFailure('malformed', { cause: new Error(`the answer has ${what}`) });
}
