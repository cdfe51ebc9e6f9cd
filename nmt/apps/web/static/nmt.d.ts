export interface Flags { empty?: true; truncated?: true; loop_unresolved?: true; copied_source?: true; protected_lost?: string[]; numbers_missed?: string[]; unusual_source?: string[]; doubtful?: true; from_memory?: true }
export interface Hypothesis { text: string; score: number; finished: boolean; flags: Flags; expected_chrf?: number }
export interface Translation extends Hypothesis { segments: number; loop_retried: boolean; sentence_split: boolean; protected_retried: boolean; alternatives: Hypothesis[]; memory?: { source: string; target: string; similarity: number } }
export interface Language { code: string; name: string }
export interface About { name: string; license: string | null; card: string; directions: { src: Language; tgt: Language }[]; flags: Record<string, string>; kernel: string }
export class Translator {
  private constructor();
  static load(folder?: string, options?: { onProgress?: (bytes: number, total: number) => void }): Promise<Translator>;
  readonly about: About;
  translate<T extends string | readonly string[]>(text: T, languages?: { from?: string | null; to?: string | null; corrections?: [string, string][] }): Promise<T extends string ? Translation : Translation[]>;
  pairs(text: string, correct: string, languages: { from: string; to: string }): Promise<[string, string][]>;
  close(): void;
}
