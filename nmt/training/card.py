"""The model card (Mitchell et al. 2019) that is written into a finished run."""

from __future__ import annotations

from nmt.files import write_text
from nmt.training.parts import Training


def write_card(training: Training) -> None:
    """Write `README.md` into the run: what the model is, what it was trained on, what it scores."""
    run, config, tokenizers = training.run, training.config, training.tokenizers
    info, index = run.info(), run.index()
    report, best = run.read_json(run.report_file), index["checkpoints"][index["best"]]
    data, model, settings = config.data, config.model, config.training
    size, valid_size = training.model.num_parameters(), len(run.read_pairs("valid")[0])
    sides = {"joint": tokenizers.src} if tokenizers.joint else {"source": tokenizers.src, "target": tokenizers.tgt}
    vocabulary = ", ".join(f"{side} {t.type} of {t.vocab_size} tokens" for side, t in sides.items())
    base = f"; continued from {settings.init_from}" if settings.init_from else ""
    files = data.train.tsv or f"{data.train.src}, {data.train.tgt}"
    write_text(
        run.card,
        f"""# {run.path.name}: {data.src_lang} to {data.tgt_lang}

A Transformer encoder-decoder trained with nmt {info.nmt}.

| | |
|---|---|
| languages | {data.src_lang} to {data.tgt_lang} |
| size | {size / 1e6:.1f}M parameters: {model.encoder_layers}+{model.decoder_layers} layers, \
d_model {model.d_model}, d_ff {model.d_ff}, {model.num_heads} heads |
| vocabulary | {vocabulary} |
| trained on | {report["pairs"]:,} pairs of {files} |
| training | {training.update:,} updates in {training.monitor.train_seconds / 60:.1f} minutes on {info.device} \
({info.precision}, {info.threads} threads), seed {settings.seed}{base} |
| weights | {index["best"]} |

## Scores

On the validation set ({valid_size} pairs, `data/valid.src` and `data/valid.tgt`), which also chose
the checkpoint, greedy:

| | | |
|---|---|---|
| BLEU | {best["bleu"]:.2f} | `{index["signatures"]["bleu"]}` |
| chrF | {best["chrf"]:.2f} | `{index["signatures"]["chrf"]}` |
| perplexity | {best["perplexity"]:.2f} | a token |

`nmt eval --model {run.path}` scores the test set and keeps the result under `eval/`.

## Use

    nmt translate --model {run.path} "text"

License of the model: that of the corpus it was trained on decides; fill it in before you share this folder.
Sentences longer than {model.max_src_len} tokens are cut; text unlike the training corpus is translated badly.
""",
    )
