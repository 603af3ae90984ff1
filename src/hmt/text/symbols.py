"""The four special symbols that open every vocabulary."""

BOS, PAD, EOS, UNK = 0, 1, 2, 3
FIRST_WRITABLE = EOS  # no translation contains a beginning or padding
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
