"""The exporter of optimum takes what `nmt export hf` writes, and ONNX Runtime then writes what nmt writes."""

from __future__ import annotations

import pytest

from nmt.apps.interop.hf_export import export_hf
from nmt.base.special_tokens import EOS_ID, PAD_ID
from nmt.config import SearchOptions
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.torch_engine import TorchEngine
from tests.apps.interop.hf_folders import sentences
from tests.apps.interop.post_norm_run import make_run

MAX_NEW = 14

pytest.importorskip("optimum.onnxruntime", reason="needs the package optimum-onnx[onnxruntime]")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_onnx_runtime_gives_the_tokens_of_nmt(tmp_path, norm_position):
    from optimum.exporters.onnx import main_export
    from optimum.onnxruntime import ORTModelForSeq2SeqLM
    from transformers import AutoTokenizer

    run = make_run(tmp_path / "run", norm_position=norm_position)
    export_hf(run, tmp_path / "hf")
    main_export(str(tmp_path / "hf"), tmp_path / "onnx", task="text2text-generation-with-past", device="cpu")
    model = ORTModelForSeq2SeqLM.from_pretrained(tmp_path / "onnx")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "onnx")
    pair, texts = TokenizerPair.load(run.tokenizer), sentences(20, 2)
    for beam_size in (1, 4):
        search = SearchOptions(beam_size=beam_size, max_len_factor=0, max_len_offset=MAX_NEW)
        ours = TorchEngine.load([run], pair, "cpu").search([pair.src.encode(text) for text in texts], search)
        batch = tokenizer(texts, return_tensors="pt", padding=True)
        found = model.generate(
            **batch, max_length=MAX_NEW + 1, num_beams=beam_size, early_stopping="never" if beam_size > 1 else False
        )
        assert [[n for n in row[1:] if n not in (PAD_ID, EOS_ID)] for row in found.tolist()] == [o[0].ids for o in ours]
