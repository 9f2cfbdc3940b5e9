import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import type { Tokenizer } from '../generation/tokens.ts';
import type { Prompt } from './prompt.ts';
import type { Steering } from './steering.ts';

/** What a choice's plan is made from. */
export interface PlanInput {
  readonly request: GenerateRequest;
  /** The simulator's name of the model. */
  readonly model: string;
  readonly prompt: Prompt;
  readonly steering: Steering;
  /** What the pictures show; empty where there are none. */
  readonly sights: readonly string[];
  readonly tokenizer: Tokenizer;
}
