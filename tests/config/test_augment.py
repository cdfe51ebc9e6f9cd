"""The section of changed pairs refuses values that do not go together."""

from __future__ import annotations

import pytest

from nmt.base.errors import ConfigError
from nmt.config.data import AUGMENT_KINDS, AugmentConfig, DataConfig


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
