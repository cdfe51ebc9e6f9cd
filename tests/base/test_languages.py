"""What follows from a language code."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nmt.base import languages
from nmt.base.languages import (
    bleu_tokenizer,
    code_named,
    english_name,
    has_many_characters,
    is_variant,
    names_of,
    script_of,
    written_without_spaces,
)


@pytest.mark.parametrize(
    ("code", "tokenizer"),
    [("zh", "zh"), ("zh_Hant", "zh"), ("zho_Hans", "zh"), ("cmn", "zh"), ("en", "13a"), ("DE", "13a"), ("th", "char")],
)
def test_the_bleu_tokenizer_follows_the_target_language(code, tokenizer):
    assert bleu_tokenizer(code) == tokenizer


@pytest.mark.parametrize(("code", "package"), [("ja", "MeCab"), ("ko", "mecab_ko")])
@pytest.mark.parametrize("installed", [True, False])
def test_mecab_is_used_where_it_is_installed(code, package, installed, monkeypatch):
    monkeypatch.setattr(languages, "find_spec", lambda name: (name == package and installed) or None)
    assert bleu_tokenizer(code) == (f"{code}-mecab" if installed else "char")


def test_scripts():
    assert written_without_spaces("zh-CN")
    assert not written_without_spaces("ko")
    assert has_many_characters("ko")
    assert not has_many_characters("de")


_FLORES_200 = """
ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi apc_Arab arb_Arab arb_Latn
ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn bak_Cyrl bam_Latn ban_Latn
bel_Cyrl bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn
ces_Latn cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn
epo_Latn est_Latn eus_Latn ewe_Latn fao_Latn fij_Latn fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn
gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn
ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda kas_Arab
kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn
kmr_Latn kon_Latn kor_Hang lao_Laoo lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn lua_Latn
lug_Latn luo_Latn lus_Latn lvs_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Arab min_Latn mkd_Cyrl plt_Latn
mlt_Latn mni_Beng khk_Cyrl mos_Latn mri_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn
nya_Latn oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn pes_Arab pol_Latn por_Latn prs_Arab pbt_Arab
quy_Latn ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Olck scn_Latn shn_Mymr sin_Sinh slk_Latn slv_Latn
smo_Latn sna_Latn snd_Arab som_Latn sot_Latn spa_Latn als_Latn srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn
swh_Latn szl_Latn tam_Taml tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn
tsn_Latn tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn urd_Arab uzn_Latn
vec_Latn vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn yue_Hant zho_Hans zho_Hant zsm_Latn zul_Latn
"""
FLORES_200 = _FLORES_200.split()
SAME = {"Hans": "Hani", "Hant": "Hani", "Hang": "Kore"}


@pytest.mark.parametrize("code", [*FLORES_200, "tyv_Cyrl"])
def test_each_language_of_flores_200_has_a_name_and_a_script_or_none_but_no_wrong_one(code):
    language, script = code.split("_")
    scripts = {SAME.get(each[4:], each[4:]) for each in (*FLORES_200, "tyv_Cyrl") if each.startswith(language)}
    assert script_of(code) == SAME.get(script, script)
    assert script_of(language) in {None, *scripts}
    assert english_name(language) not in (language, "")
    assert english_name(code) == f"{english_name(language)} ({code})"


@pytest.mark.parametrize(
    ("code", "script", "name"),
    [
        ("iw", "Hebr", "Hebrew"),
        ("in", "Latn", "Indonesian"),
        ("ji", "Hebr", "Yiddish"),
        ("mo", "Latn", "Romanian"),
        ("sh", None, "Serbo-Croatian"),  # in Latin and Cyrillic
        ("wo", "Latn", "Wolof"),
        ("ha", None, "Hausa"),
        ("yo", "Latn", "Yoruba"),
        ("ne", "Deva", "Nepali"),
        ("deu", "Latn", "German"),
        ("ger", "Latn", "German"),
        ("cmn", "Hani", "Mandarin Chinese"),
        ("acm", "Arab", "Mesopotamian Arabic"),  # part of Arabic
        ("uzn", None, "Northern Uzbek"),  # part of Uzbek, which has several scripts
        ("grc", "Grek", "Ancient Greek"),
        ("pa", "Guru", "Punjabi"),
        ("pa-PK", "Arab", "Punjabi (pa-PK)"),
        ("zh-TW", "Hani", "Chinese (zh-TW)"),
        ("sr-Latn", "Latn", "Serbian (sr-Latn)"),
    ],
)
def test_old_codes_rare_ones_and_those_of_three_letters_have_a_script_and_a_name(code, script, name):
    assert (script_of(code), english_name(code)) == (script, name)


@pytest.mark.parametrize("code", ["xx", "qaa", "x", "digits", "zxx", "und", "lus", "a b", ""])
def test_the_script_of_a_language_that_nobody_knows_is_unknown(code):
    assert script_of(code) is None


def test_a_language_without_a_name_is_called_by_its_code():
    assert [english_name(code) for code in ("xx", "digits", "x")] == ["xx", "digits", "x"]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("German", "de"),
        ("deutsch", "de"),
        ("de", "de"),
        ("中文", "zh"),
        ("Wolof", "wo"),
        ("galego", "gl"),
        ("Nepali", "ne"),
    ],
)
def test_a_name_of_a_language_gives_its_code(name, code):
    assert code_named(name) == code


@pytest.mark.parametrize("word", ["source", "target", "label", "col", "text", "context", "key", "notes", "hyp", "even"])
def test_the_names_of_other_columns_are_no_languages(word):
    assert code_named(word) is None


def test_a_column_may_have_the_name_of_its_language_in_english_or_in_the_language():
    assert names_of("de") == {"de", "german", "deutsch"}
    assert names_of("wo_Latn") >= {"wo", "wo_latn", "wolof"}
    assert names_of("digits") == {"digits"}


def test_what_is_said_of_a_common_language_needs_no_package():
    asked = "script_of('de'), english_name('pt-BR'), names_of('zh_Hans'), code_named('German'), script_of('shn_Mymr')"
    check = f"import sys; from nmt.base.languages import *; {asked}; sys.exit('langcodes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_a_regional_variant_is_one_of_its_language_and_of_no_other():
    assert is_variant("pt-BR", "pt")
    assert is_variant("ZH_Hant", "zh")
    assert not is_variant("pt", "pt")
    assert not is_variant("pt", "pt-BR")
    assert not is_variant("pt-PT", "pt-BR")
    assert not is_variant("est", "es")
