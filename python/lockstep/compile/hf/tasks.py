"""The tasks that models are compiled for, and the class of transformers that a model directory needs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.compile.sources import Refused

if TYPE_CHECKING:
    from transformers import PretrainedConfig

MAX_NAMES = 12  # in a message


@dataclass(frozen=True)
class Task:
    """`classes`: the name of transformers' table of model type to class. `auto`: of its AutoModel class."""

    auto: str
    classes: str


TASKS = {
    "causal-lm": Task("AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"),
    "masked-lm": Task("AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING_NAMES"),
    "sequence-classification": Task("AutoModelForSequenceClassification", "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES"),
    "token-classification": Task("AutoModelForTokenClassification", "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES"),
    "seq2seq-lm": Task("AutoModelForSeq2SeqLM", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES"),
    "image-classification": Task("AutoModelForImageClassification", "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES"),
    "audio-classification": Task("AutoModelForAudioClassification", "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES"),
}


def classes_of(model_type: str) -> dict[str, list[str]]:
    """{task: names of the model's classes}, of the tasks that the architecture has."""
    from transformers.models.auto import modeling_auto

    found = {}
    for task, entry in TASKS.items():
        names = getattr(modeling_auto, entry.classes).get(model_type)
        if names:
            found[task] = [names] if isinstance(names, str) else list(names)
    return found


def task_of(config: "PretrainedConfig", wanted: str | None, path: Path) -> str:
    """`wanted`, or the task of the architecture that config.json names, or the only one. Raises Refused."""
    classes = classes_of(config.model_type)
    if not classes:
        raise Refused(f"{path}: a model of type '{config.model_type}' has none of the tasks {', '.join(TASKS)}")
    if wanted is not None:
        if wanted not in classes:
            raise Refused(f"--task {wanted}: a model of type '{config.model_type}' has no such task; it has {', '.join(classes)}")
        return wanted
    named = list(getattr(config, "architectures", None) or [])
    if not named and len(classes) == 1:
        return next(iter(classes))
    for task, names in classes.items():
        if any(name in names for name in named):
            return task
    what = f"names {', '.join(named[:MAX_NAMES])}, which has none of the tasks" if named else "names no architecture"
    raise Refused(f"{path}: {what}: choose one with --task; this model has {', '.join(classes)}")
