"""The bound of every size that a file or an option can request, with the reason for its number.

A small file must not cost gigabytes or hours: every size that is read is first compared with these.
"""

MOST_SYMBOLS = 4_000_000  # of a vocabulary: all words of a large corpus
# Of the network. Ten times what has been trained; a file that asks for more is damaged or hostile.
DIMS = {
    "source_vocabulary": (1, MOST_SYMBOLS),
    "target_vocabulary": (1, MOST_SYMBOLS),
    "width": (1, 16_384),
    "ffn": (1, 65_536),
    "heads": (1, 256),
    "encoder_layers": (1, 100),
    "decoder_layers": (1, 100),
}
MOST_TRANSFORMERS = 16  # Transformers in one system; the adaptive policy's paper has ten

# A longer sentence is cut in two: this bounds the memory of a session for any input.
MAX_SENTENCE_TOKENS = 1024
MOST_SLOTS = 10_000  # sentences side by side; beyond that memory runs out and nothing gets faster
# Of a longer "word", which nobody speaks or writes, only this much is read, in training text and in
# live text. It always fits a sentence: composing a character makes at most three of it.
MAX_WORD_CHARACTERS = 300
# Of a line of text: a hundred times the longest sentence that can be translated.
MAX_LINE_BYTES = 1_000_000
# Natural text compresses to a third, a table of repetitions to a hundredth; beyond a gigabyte, more
# than this is a file made to fill a disk.
MOST_INFLATION = 200
# A vocabulary entry is one word or less; end marks and a few decomposed characters may be added.
MAX_SYMBOL_CHARACTERS = 4 * MAX_WORD_CHARACTERS
