"""``SmallTransformerConfig.from_paper``: the sizes of the papers."""

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM

from attnzoo import SmallTransformerConfig
from attnzoo.configuration_small_transformer import PAPERS

HEADS = {
    "encoder_decoder": AutoModelForSeq2SeqLM,
    "bidirectional": AutoModelForMaskedLM,
    "causal": AutoModelForCausalLM,
}
# Millions of parameters: Vaswani et al., table 3; Devlin et al., section 3; for GPT the size that its authors' released
# code has (Radford et al. give none).
MILLIONS = {
    "vaswani2017-base": 65,
    "vaswani2017-big": 213,
    "radford2018": 117,
    "devlin2019-base": 110,
    "devlin2019-large": 340,
}


@pytest.mark.parametrize("paper", PAPERS)
def test_a_papers_model_has_the_papers_number_of_parameters(paper: str) -> None:
    config = SmallTransformerConfig.from_paper(paper)
    with torch.device("meta"):
        model = HEADS[config.attention_pattern].from_config(config)
    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    assert millions == pytest.approx(MILLIONS[paper], rel=0.035)


def test_any_field_of_a_papers_model_can_be_overridden_and_an_unknown_paper_is_refused() -> None:
    config = SmallTransformerConfig.from_paper("vaswani2017-big", vocab_size=99, dropout=0.1)
    assert (config.vocab_size, config.dropout, config.hidden_size) == (99, 0.1, 1024)
    with pytest.raises(ValueError, match="there is no paper 'vaswani2017'; choose one of: vaswani2017-base"):
        SmallTransformerConfig.from_paper("vaswani2017")
