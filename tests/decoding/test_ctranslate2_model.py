"""What CTranslate2 would be told wrongly and would translate without an error is refused; no engine is needed."""

from typing import Any

import pytest

from attnzoo import SmallTransformerConfig, SmallTransformerForConditionalGeneration
from tests.benchmarks.ctranslate2_model import translator
from tests.factory import TRANSFORMER_SIZES


@pytest.mark.parametrize("fields", [{"norm": "pre"}, {"activation": "gelu"}, {"tie_word_embeddings": False}])
def test_a_model_of_another_kind_is_refused(fields: dict[str, Any]) -> None:
    model = SmallTransformerForConditionalGeneration(SmallTransformerConfig(**(TRANSFORMER_SIZES | fields)))
    with pytest.raises(ValueError, match="a model of norm='post', activation='relu' and tied embeddings is needed"):
        translator(model)
