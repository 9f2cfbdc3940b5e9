/**
 * Builds the chunks of a stream, for all of its choices: it has the members of every chunk, unknown members that wait for the next chunk,
 * and the chunks that were written but not yet taken.
 */
export class ChunkFrame {
  /** The beginning of a chunk, up to its choices. */
  readonly head: string;
  /** The end of a chunk, after its choices, if it has no usage and no further members. */
  readonly tail: string;
  /** `"usage":null` for clients that requested usage; '' for all others. */
  readonly #noUsage: string;
  /** Members that wait for the next chunk, with a comma before each. */
  #members = '';
  #written = '';

  /** `identity`: the JSON of the common members of all chunks, without its closing brace. */
  constructor(identity: string, includeUsage: boolean) {
    this.head = `data: ${identity},"choices":[`;
    this.#noUsage = includeUsage ? ',"usage":null' : '';
    this.tail = `]${this.#noUsage}}\n\n`;
  }

  get hasMembers(): boolean {
    return this.#members !== '';
  }

  add(members: string): void {
    this.#members += members;
  }

  /** Writes a whole chunk. */
  write(chunk: string): void {
    this.#written += chunk;
  }

  /** Writes a chunk with one choice; `members` are added to this chunk only. */
  writeChoice(choice: string, members = ''): void {
    this.write(`${this.head}${choice}]${this.#noUsage}${this.#takeMembers()}${members}}\n\n`);
  }

  /** Writes the chunk that carries the usage and no choice. */
  writeUsage(usage: string, members: string): void {
    this.write(`${this.head}],"usage":${usage}${this.#takeMembers()}${members}}\n\n`);
  }

  /** Returns the chunks that were written since the last call. */
  take(): string {
    const written = this.#written;
    this.#written = '';
    return written;
  }

  #takeMembers(): string {
    const members = this.#members;
    if (members !== '') this.#members = '';
    return members;
  }
}
