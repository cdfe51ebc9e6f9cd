export interface Flags { empty?: true; truncated?: true; loop_unresolved?: true; copied_source?: true; protected_lost?: string[]; numbers_missed?: string[]; unusual_source?: string[]; doubtful?: true }
export interface Hypothesis { text: string; score: number; finished: boolean; flags: Flags; expected_chrf?: number }
export interface Translation extends Hypothesis { segments: number; loop_retried: boolean; sentence_split: boolean; protected_retried: boolean; alternatives: Hypothesis[] }
export interface Language { code: string; name: string }
export interface About { name: string; license: string | null; card: string; directions: { src: Language; tgt: Language }[]; flags: Record<string, string>; kernel: string }
export class Translator {
  private constructor();
  static load(folder?: string, options?: { onProgress?: (bytes: number, total: number) => void }): Promise<Translator>;
  readonly about: About;
  translate<T extends string | readonly string[]>(text: T, languages?: { from?: string | null; to?: string | null }): Promise<T extends string ? Translation : Translation[]>;
  close(): void;
}
