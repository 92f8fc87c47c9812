"""Tiny tokenizers with the structure of real ones: FAMILIES, by name, are functions that return the content of a
tokenizer.json. Their models are trained on TEXTS with the tokenizers package, the character maps are SentencePiece's."""

import functools
import io
import json
import random

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SENTENCES = [
    "The quick brown fox can't jump over 12 lazy dogs; it's 3.14 times slower than we'd think!",
    "Der flinke braune Fuchs springt über den faulen Hund – „Größe“ zählt nicht.",
    "Le renard brun rapide saute par-dessus le chien paresseux, n'est-ce pas ? Œuvre à 50 %.",
    "El zorro marrón rápido salta sobre el perro perezoso. ¿Qué pasó mañana? ¡Nada!",
    "A rápida raposa castanha salta sobre o cão preguiçoso, não é?",
    "La volpe marrone salta sopra il cane pigro perché è più veloce.",
    "Szybki brązowy lis przeskakuje nad leniwym psem; źdźbło i żółć.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Pijamalı hasta yağız şoföre çabucak güvendi. İstanbul ISPARTA ığdır",
    "Быстрая коричневая лиса прыгает через ленивую собаку, ёжик.",
    "Швидка бурая лисиця стрибає через лінивого пса її ґанок.",
    "Η γρήγορη καφέ αλεπού πηδά πάνω από τον τεμπέλη σκύλο. ΟΔΟΣ ὀξύς",
    "השועל החום המהיר קופץ מעל הכלב העצלן. שָׁלוֹם",
    "الثعلب البني السريع يقفز فوق الكلب الكسول، مُحَمَّد ٣٤٥.",
    "تیز بھوری لومڑی سست کتے پر چھلانگ لگاتی ہے۔",
    "तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है। क्षत्रिय १२३",
    "দ্রুত বাদামী শিয়াল অলস কুকুরের উপর লাফ দেয়।",
    "விரைவான பழுப்பு நரி சோம்பேறி நாயின் மேல் குதிக்கிறது.",
    "สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ ๑๒๓",
    "敏捷的棕色狐狸跳过了懒狗。我们在北京，天气很好！",
    "素早い茶色の狐がのろまな犬を飛び越える。カタカナ ﾊﾝｶｸ ガギグ",
    "빠른 갈색 여우가 게으른 개를 뛰어넘는다. 각나닭",
    "Con cáo nâu nhanh nhẹn nhảy qua con chó lười biếng. Tiếng Việt",
    "სწრაფი ყავისფერი მელა ahtaa ზარმაცი ძაღლი.",
    "Արագ շագանակագույն աղվեսը ցատկում է ծույլ շան վրայով։",
    "ፈጣኑ ቡናማ ቀበሮ ሰነፉን ውሻ ዘለለ።",
    "def f(x):\n    return x**2  # <b>&amp;</b>\n\tif (a != b) { y += 0x1F; }\r\n",
]
HARD = [
    "", " ", "  ", "\n", "\t\t", "a", " a", "a ", "  a  b  ", "\n\n\n  \n x", "a\u00a0b\u2003c\u3000d", "\u200b", "\ufeffBOM",
    "👩‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷 ☕️ 🙂🙂🙂", "e\u0301 \u0301a n\u0303\u0303 Å Å ﬁ ﬀ ½ ² ™ Ⅷ ①", "ǅ ß ẞ İ ı ſ K Ω", "\u1100\u1161\u11a8 가 각",
    "\x00\x01\x07\x0b\x0c\x1b\x7f\x85 end", "\u2028line\u2029para", "\ufffd \ufffe \ue000", "\U0001f600\U00020000\U0002a6d6𝕳𝖊𝖑𝖑𝖔",
    "'s 'S 'T 're 'LL 've I'M don'T l’eau", "1234567890 1,000.50 ４５６ ٣٤٥ ½¾ 1e-10", "___ --- ... !!! ?!? (a)[b]{c}<d> «x» “y” `z`",
    "``quoted'' text", "ＦＵＬＬ　ｗｉｄｔｈ", "x" * 300, "ab " * 200, "▁▁ ▁a b▁c", "Ġ Ċ <0x0A> <0xFF> <unk> ##ing",
    "<s>Hi</s><s> there </s>", "a<mask>b <mask>  c", "x [MASK] y[MASK]z [MASK]", "<|endoftext|>a<|endoftext|><|endoftext|> b",
    "<|im_start|>user\nhi<|im_end|>\n", "[CLS] hi [SEP]", "<extra_id_0> and <extra_id_1>", "wordnew newword new new-word NEW",
    "       seven    four  two", "don't do not do n't . , !", "\r\n\r\n\r", "a\rb\r\nc", "क्‍ष \u200d \u200c ज़", "ｶﾞ ﾊﾟ ゙", "\u0e33 \u0eb3",
    "http://example.com/a?b=c&d=%20e#f", "C++ C# .NET e-mail", "ΣΑΣ Σ ὈΔΥΣΣΕΎΣ", "ﷺ ㎏ ㍿ ﬃ", "\u0344 \u0958 \u2126 \u212b", "Zalgo t̷̢̛e̴͖x̵t",
]
TEXTS = SENTENCES * 3 + HARD
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = LLAMA3.replace("{1,3}", "")


def mixed_texts(count, seed=7):
    """Random mixtures of the texts above, of their characters, and of any characters assigned long ago."""
    rng = random.Random(seed)
    pool = sorted({c for text in SENTENCES + HARD for c in text})
    texts = []
    for number in range(count):
        parts = []
        for _ in range(rng.randint(1, 12)):
            kind = rng.random()
            if kind < 0.45:
                text = rng.choice(SENTENCES + HARD)
                at = rng.randint(0, max(len(text) - 1, 0))
                parts.append(text[at:at + rng.randint(1, 40)])
            elif kind < 0.8:
                parts.append("".join(rng.choices(pool, k=rng.randint(1, 12))))
            else:
                parts.append(" " * rng.randint(0, 3) + rng.choice("abcXYZ \n\t"))
        texts.append("".join(parts))
    return texts


def trained(model, trainer, normalizer=None, pre_tokenizer=None):
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(TEXTS, trainer)
    return json.loads(tokenizer.to_str())["model"]


def added(tokens, first, **more):
    """Entries of added_tokens with ids from `first` on; each token is a text or (text, changes)."""
    entries = []
    for number, token in enumerate(tokens):
        content, changes = token if isinstance(token, tuple) else (token, {})
        entry = {"id": first + number, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
                 "normalized": False, "special": True}
        entries.append({**entry, **more, **changes})
    return entries


@functools.cache
def byte_level_model(size=900):
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    return json.dumps(trained(models.BPE(), trainer, None, pre_tokenizers.ByteLevel(add_prefix_space=False)))


@functools.cache
def sentencepiece_bpe_model(fused=True):
    specials = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=1100, special_tokens=specials, limit_alphabet=300, show_progress=False)
    model = trained(models.BPE(unk_token="<unk>", fuse_unk=fused, byte_fallback=True), trainer, None,
                    pre_tokenizers.Metaspace())
    return json.dumps(model)


@functools.cache
def unigram_model(byte_fallback=False, first=("<pad>", "</s>", "<unk>")):
    specials = [*first, *((f"<0x{byte:02X}>" for byte in range(256)) if byte_fallback else ())]
    trainer = trainers.UnigramTrainer(vocab_size=700, special_tokens=specials, unk_token="<unk>", show_progress=False)
    model = trained(models.Unigram(), trainer, normalizers.NFKC(),
                    pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]))
    # Rare characters are unknown.
    rare = set("ñ素ёყ👍ጣ")
    kept = [entry for entry in model["vocab"] if not rare & set(entry[0])]
    return json.dumps({**model, "vocab": kept, "unk_id": specials.index("<unk>"), "byte_fallback": byte_fallback})


@functools.cache
def word_piece_model(cased):
    trainer = trainers.WordPieceTrainer(vocab_size=700, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
                                        limit_alphabet=150, show_progress=False)
    return json.dumps(trained(models.WordPiece(unk_token="[UNK]"), trainer, normalizers.BertNormalizer(lowercase=not cased),
                              pre_tokenizers.BertPreTokenizer()))


@functools.cache
def suffix_model(byte_level):
    start = pre_tokenizers.ByteLevel.alphabet() if byte_level else []
    trainer = trainers.BpeTrainer(vocab_size=900, end_of_word_suffix="</w>", initial_alphabet=start, show_progress=False,
                                  special_tokens=["<unk>"])
    split = pre_tokenizers.ByteLevel(add_prefix_space=False) if byte_level else pre_tokenizers.BertPreTokenizer()
    return json.dumps(trained(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), trainer, normalizers.Lowercase(), split))


@functools.cache
def word_level_model():
    trainer = trainers.WordLevelTrainer(vocab_size=150, special_tokens=["[UNK]"], show_progress=False)
    return json.dumps(trained(models.WordLevel(unk_token="[UNK]"), trainer, None, pre_tokenizers.Whitespace()))


@functools.cache
def charsmap(rule="nmt_nfkc"):
    """SentencePiece's compiled normalization rules, from a model that it trains."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(SENTENCES), model_writer=model, vocab_size=600,
                                             normalization_rule_name=rule, minloglevel=2, hard_vocab_limit=False)
    content = sentencepiece_model_pb2.ModelProto()
    content.ParseFromString(model.getvalue())
    return json.loads(str_of(normalizers.Precompiled(content.normalizer_spec.precompiled_charsmap)))


def str_of(part):
    state = part.__getstate__()
    return state.decode() if isinstance(state, bytes) else state


def of(part):
    return part if part is None or isinstance(part, dict) else json.loads(str_of(part))


def content(model, tokens=(), normalizer=None, pre_tokenizer=None, post_processor=None, decoder=None):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(tokens), "normalizer": of(normalizer),
            "pre_tokenizer": of(pre_tokenizer), "post_processor": of(post_processor), "decoder": of(decoder),
            "model": json.loads(model) if isinstance(model, str) else model}


def sequence(kind, *parts):
    key = {"normalizer": "normalizers", "pre": "pretokenizers", "decoder": "decoders", "post": "processors"}[kind]
    return {"type": "Sequence", key: [of(part) for part in parts]}


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(tokens, normalizer=None, pre=None, post=None, prefix=False, **model_changes):
    model = {**json.loads(byte_level_model()), **model_changes}
    level = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    return content(model, added(tokens, len(model["vocab"])), normalizer, pre or level, post or processors.ByteLevel(),
                   decoders.ByteLevel())


def plain_level():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def template(single, pair, tokens, first):
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=[(t, first + i) for i, t in enumerate(tokens)])


def gpt2():
    return byte_level(["<|endoftext|>"])


def roberta():
    at = len(json.loads(byte_level_model())["vocab"])
    post = processors.RobertaProcessing(("</s>", at + 1), ("<s>", at))
    return byte_level(["<s>", "</s>", ("<mask>", {"lstrip": True})], post=post, prefix=True)


def llama3():
    at = len(json.loads(byte_level_model())["vocab"])
    tokens = ["<|begin_of_text|>", "<|endoftext|>", "<|eot_id|>"]
    post = sequence("post", processors.ByteLevel(), template("<|begin_of_text|> $A", "<|begin_of_text|> $A <|begin_of_text|>:1 $B:1", tokens[:1], at))
    return byte_level(tokens, pre=sequence("pre", split(LLAMA3), plain_level()), post=post, ignore_merges=True)


def qwen2():
    return byte_level(["<|endoftext|>", "<|im_start|>", "<|im_end|>", ("<think>", {"special": False})], normalizers.NFC(),
                      sequence("pre", split(QWEN), plain_level()))


def gpt_neox():
    spaces = [(" " * count, {"special": False, "normalized": True}) for count in range(7, 1, -1)]
    return byte_level(["<|endoftext|>", "<|padding|>", *spaces], normalizers.NFC())


def modern_bert():
    at = len(json.loads(byte_level_model())["vocab"])
    tokens = ["[CLS]", "[SEP]", ("[MASK]", {"lstrip": True}), ("|||IP_ADDRESS|||", {"special": False, "normalized": True}),
              ("   ", {"special": False, "normalized": True})]
    post = template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", ["[CLS]", "[SEP]"], at)
    return byte_level(tokens, normalizers.NFC(), post=post)


def olmo():
    at = len(json.loads(byte_level_model())["vocab"])
    return byte_level(["<|endoftext|>", ("new", {"single_word": True, "special": False})], normalizers.NFC(),
                      post=template("$A <|endoftext|>", "$A $B:1 <|endoftext|>:1", ["<|endoftext|>"], at))


def bloom():
    return byte_level(["<unk>", "<s>", "</s>", "<pad>"], pre=sequence("pre", split(r" ?[^(\s|[.,!?…。，、।۔،])]+"), plain_level()))


def starcoder():
    return byte_level(["<|endoftext|>", "<fim_prefix>"], pre=sequence(
        "pre", pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)))


def falcon():
    return byte_level([">>TITLE<<", "<|endoftext|>"], pre=sequence(
        "pre", pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(individual_digits=False), split("[0-9][0-9][0-9]")))


def deepseek():
    return byte_level(["<｜begin▁of▁sentence｜>"], sequence("normalizer"), sequence(
        "pre", split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"),
        split(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
        plain_level()))


def gpt_4o():
    word = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
            r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    return byte_level(["<|endoftext|>"], pre=sequence("pre", split(word, "removed", True), plain_level()))


SPACE_TO_MARK = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
MARK_TO_SPACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}


def sentencepiece_decoder(strips=True):
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if strips else []
    return sequence("decoder", MARK_TO_SPACE, decoders.ByteFallback(), decoders.Fuse(), *strip)


def bos():
    return template("<s> $A", "<s> $A <s>:1 $B:1", ["<unk>", "<s>"], 0)


def llama2():
    return content(sentencepiece_bpe_model(), added(["<unk>", "<s>", "</s>"], 0),
                   sequence("normalizer", normalizers.Prepend("▁"), SPACE_TO_MARK), None, bos(), sentencepiece_decoder())


def phi3():
    tokens = added([("<unk>", {}), "<s>", ("</s>", {"rstrip": True})], 0) + added(
        [("<|endoftext|>", {}), ("<|im_end|>", {"rstrip": True}), ("newword", {"normalized": True, "special": False})],
        len(json.loads(sentencepiece_bpe_model())["vocab"]))
    return content(sentencepiece_bpe_model(), tokens, sequence("normalizer", normalizers.Prepend("▁"), SPACE_TO_MARK), None,
                   bos(), sentencepiece_decoder())


def mistral():
    return content(sentencepiece_bpe_model(False), added(["<unk>", "<s>", "</s>"], 0), None,
                   pre_tokenizers.Metaspace("▁", "first", False), bos(), sentencepiece_decoder())


def gemma():
    model = {**json.loads(sentencepiece_bpe_model())}
    return content(model, added(["<unk>", "<s>", "</s>", ("[multimodal]", {"special": False})], 0), SPACE_TO_MARK,
                   {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
                   bos(), sentencepiece_decoder(False))


def t5():
    extra = added(["<extra_id_1>", "<extra_id_0>"], len(json.loads(unigram_model())["vocab"]))
    return content(unigram_model(), added(["<pad>", "</s>", "<unk>"], 0) + extra, charsmap(), pre_tokenizers.Metaspace(),
                   template("$A </s>", "$A </s> $B </s>", ["<pad>", "</s>"], 0), decoders.Metaspace())


def umt5():
    rules = sequence("normalizer", charsmap(), normalizers.Strip(False, True), normalizers.Replace(Regex(" {2,}"), "▁"))
    return content(unigram_model(True), added(["<pad>", "</s>", "<unk>"], 0), rules, pre_tokenizers.Metaspace("▁", "first"),
                   template("$A </s>", "$A </s> $B </s>", ["<pad>", "</s>"], 0),
                   sequence("decoder", decoders.ByteFallback(), decoders.Metaspace("▁", "first")))


def albert():
    first = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
    rules = sequence("normalizer", normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(),
                     normalizers.StripAccents(), normalizers.Lowercase(), charsmap("nmt_nfkc_cf"))
    tokens = added(["<pad>", "<unk>", "[CLS]", "[SEP]", ("[MASK]", {"lstrip": True})], 0)
    return content(unigram_model(False, first), tokens, rules,
                   sequence("pre", pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()),
                   template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", first, 0), decoders.Metaspace())


def xlm_roberta():
    first = ("<s>", "<pad>", "</s>", "<unk>")
    tokens = added([*first, ("<mask>", {"lstrip": True, "normalized": True})], 0)
    tokens[-1]["id"] = len(json.loads(unigram_model(False, first))["vocab"])
    return content(unigram_model(False, first), tokens, charsmap(),
                   sequence("pre", pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()),
                   template("<s> $A </s>", "<s> $A </s> </s> $B </s>", first, 0), decoders.Metaspace())


def bert(cased=False, post=None, **rules):
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    post = post or template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", names, 0)
    return content(word_piece_model(cased), added(names, 0), normalizers.BertNormalizer(lowercase=not cased, **rules),
                   pre_tokenizers.BertPreTokenizer(), post, decoders.WordPiece())


def clip():
    pattern = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    model = suffix_model(True)
    at = len(json.loads(model)["vocab"])
    return content(model, added(["<|startoftext|>", "<|endoftext|>"], at),
                   sequence("normalizer", normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()),
                   sequence("pre", split(pattern, "removed", True), pre_tokenizers.ByteLevel(add_prefix_space=False)),
                   processors.RobertaProcessing(("<|endoftext|>", at + 1), ("<|startoftext|>", at), add_prefix_space=False),
                   decoders.ByteLevel())


def openai_gpt():
    return content(suffix_model(False), added(["<unk>"], 0), normalizers.BertNormalizer(lowercase=True),
                   pre_tokenizers.BertPreTokenizer(), None, decoders.BPEDecoder())


def word_level():
    return content(word_level_model(), added(["[UNK]"], 0), sequence("normalizer", normalizers.NFD(), normalizers.StripAccents()),
                   pre_tokenizers.Whitespace(), None, None)


def nmt():
    return content(unigram_model(True), added(["<pad>", "</s>", "<unk>"], 0), sequence(
        "normalizer", normalizers.Nmt(), normalizers.NFKC(), normalizers.Strip(), normalizers.Replace(Regex(r"\s+"), " ")),
        sequence("pre", pre_tokenizers.CharDelimiterSplit("|"), pre_tokenizers.Metaspace("▁", "first", True),
                 pre_tokenizers.Punctuation("merged_with_next")), None,
        sequence("decoder", decoders.Metaspace("▁", "never"), decoders.Strip("e", 0, 1)))


def wav2vec2():
    names = ["<pad>", "<s>", "</s>", "<unk>", "|", *"abcdefghijklmnopqrstuvwxyz'."]
    model = {"type": "WordLevel", "vocab": {name: number for number, name in enumerate(names)}, "unk_token": "<unk>"}
    return content(model, added(["<pad>", "<s>", "</s>", "<unk>"], 0),
                   sequence("normalizer", normalizers.Lowercase(), normalizers.Replace(" ", "|"), normalizers.NFKD()),
                   pre_tokenizers.FixedLength(1), None, decoders.CTC())


def byte_normalizer():
    tokens = added([("café", {"normalized": True, "special": False}), "<|endoftext|>"], len(json.loads(byte_level_model())["vocab"]))
    return content(byte_level_model(), tokens, normalizers.ByteLevel(), pre_tokenizers.Split("Ġ", "merged_with_next"), None,
                   decoders.ByteLevel())


FAMILIES = {
    "GPT-2": gpt2, "RoBERTa": roberta, "Llama 3": llama3, "Qwen2": qwen2, "GPT-NeoX": gpt_neox, "ModernBERT": modern_bert,
    "OLMo": olmo, "BLOOM": bloom, "StarCoder": starcoder, "Falcon": falcon, "DeepSeek": deepseek, "GPT-4o": gpt_4o,
    "Llama 2": llama2, "Phi-3": phi3, "Mistral": mistral, "Gemma": gemma, "T5": t5, "UMT5": umt5, "ALBERT": albert,
    "XLM-RoBERTa": xlm_roberta, "BERT uncased": bert, "BERT cased": lambda: bert(True),
    "DistilBERT": lambda: bert(post=processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))),
    "BERT Chinese": lambda: bert(handle_chinese_chars=True, strip_accents=False, clean_text=False), "CLIP": clip,
    "OpenAI GPT": openai_gpt, "WordLevel": word_level, "NMT": nmt, "Wav2Vec2": wav2vec2, "bytes as a normalizer": byte_normalizer,
}
