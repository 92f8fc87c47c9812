"""Files of tokens without a header, and the samples that the dataset `tokens` cuts from them."""

import numpy as np
import torch


def write_tokens(path, tokens):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.asarray(tokens, dtype=np.uint16).tofile(path)


def load_windows(path, length):
    """(tokens, targets) [N, length]: what follows each token is its target."""
    tokens = torch.from_numpy(np.fromfile(path, dtype=np.uint16).astype(np.int64))
    count = (len(tokens) - 1) // length
    return (
        tokens[: count * length].view(count, length),
        tokens[1 : count * length + 1].view(count, length),
    )


def load_documents(path, length, separator):
    """(tokens, targets) [N, length] of documents that each end with `separator` and fit a sample."""
    documents, document = [], []
    for token in np.fromfile(path, dtype=np.uint16).tolist():
        document.append(token)
        if token == separator:
            documents.append(document)
            document = []
    tokens = torch.full((len(documents), length), separator)
    targets = torch.full((len(documents), length), -100)
    for row, document in enumerate(documents):
        count = len(document) - 1
        tokens[row, :count] = torch.tensor(document[:-1])
        targets[row, :count] = torch.tensor(document[1:])
    return tokens, targets
