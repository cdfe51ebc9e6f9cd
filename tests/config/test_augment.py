"""The sections of what is drawn anew refuse values that do not go together."""

from __future__ import annotations

import pytest

from nmt.base.errors import ConfigError
from nmt.config.data import AUGMENT_KINDS, AugmentConfig, DataConfig
from nmt.config.tokenizer import SubwordRegularization, TokenizerConfig


def test_nothing_is_changed_by_default():
    assert not AugmentConfig().is_on
    assert set(AugmentConfig().shares()) == set(AUGMENT_KINDS)


def test_shares_of_more_than_all_pairs_are_refused():
    def data(**shares):
        corpus = {"src_lang": "de", "tgt_lang": "en", "train": {"src": "a.de", "tgt": "a.en"}}
        return DataConfig(**corpus, augment=AugmentConfig(**shares))

    with pytest.raises(ConfigError, match=r"augment add up to 1\.1, more than 1; a pair is changed in at most one way"):
        data(upper=0.6, typos=0.5)
    assert data(**dict.fromkeys(AUGMENT_KINDS, 0.25)).augment.is_on


def test_a_tokenizer_with_one_segmentation_cannot_draw():
    with pytest.raises(ConfigError, match=r"type char has only one segmentation per text; .*per_epoch must be"):
        TokenizerConfig(type="char", subword_regularization=SubwordRegularization(per_epoch=True))
