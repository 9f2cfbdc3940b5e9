/** What all choices of a stream share: the members that every chunk has, and the unknown ones that wait for the next chunk. */
export class ChunkFrame {
  /** A chunk up to its choices. */
  readonly head: string;
  /** A chunk after its choices, where it has no usage and no further members. */
  readonly tail: string;
  /** The `usage` member of a chunk without usage: only clients that asked for usage see one. */
  readonly #noUsage: string;
  /** Members that wait, with a comma before each. */
  #members = '';

  /** `identity`: the JSON of the members that all chunks have, without its closing brace. */
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

  /** A chunk with one choice; `members` stand in this one only. */
  chunk(choice: string, members = ''): string {
    return `${this.head}${choice}]${this.#noUsage}${this.#take()}${members}}\n\n`;
  }

  /** The chunk that carries the usage and no choice. */
  usageChunk(usage: string, members: string): string {
    return `${this.head}],"usage":${usage}${this.#take()}${members}}\n\n`;
  }

  #take(): string {
    const members = this.#members;
    if (members !== '') this.#members = '';
    return members;
  }
}
