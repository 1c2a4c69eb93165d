"""``attnzoo view``: the attention of any model on one text, as an interactive page or a picture."""

import sys
from typing import Any

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from ..loading import load_trained
from ..viewer.attention_view import view
from ..viewer.pictures import require_page, require_picture
from .lines import require_utf8
from .models import NO_CODE, folder_of
from .parsers import view_parser


def main(arguments: list[str]) -> None:
    """Run the command line."""
    options = view_parser().parse_args(arguments)
    require_utf8([options.text], "text")
    require_utf8([options.target or ""], "target")
    is_page = options.output.suffix.lower() in (".html", ".htm")
    try:
        (require_page if is_page else require_picture)(options.output)
    except ValueError as error:
        raise ValueError(f"{error}; a page is written to a file that ends in .html") from error
    folder = folder_of(options.model, "view")
    config = AutoConfig.from_pretrained(folder, **NO_CODE)
    heads = " ".join(config.architectures or ())
    auto_class: Any = AutoModel
    if config.is_encoder_decoder:
        auto_class = AutoModelForSeq2SeqLM
    elif "CausalLM" in heads or "LMHead" in heads:
        auto_class = AutoModelForCausalLM
    elif "MaskedLM" in heads:
        auto_class = AutoModelForMaskedLM
    elif "SequenceClassification" in heads:
        auto_class = AutoModelForSequenceClassification
    # The pooler of an encoder reads its outputs; models for other tasks than classification come without.
    unused = "pooler." if auto_class is AutoModel else None
    model, tokenizer = load_trained(auto_class, folder, unused), AutoTokenizer.from_pretrained(folder, **NO_CODE)
    pair = options.text.split("\t")
    text = tuple(pair) if len(pair) == 2 else options.text
    found = view(model, tokenizer, text, options.target, options.layers)
    (found.save if is_page else found.plot)(options.output)
    print(f"{options.output} is written", file=sys.stderr)
